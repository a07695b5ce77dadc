"""The choice of given vectors: only those of the daemon's own model are useful.

A vector of another model has the same form but another meaning. A search with it finds wrong
results, without any error. So a vector is used if the source names the daemon's model, or if the
user says so.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from vikingd.ctl.migrations.notes import Notes
from vikingd.domain.errors import InvalidField

_TOLERANCE = 1e-2  # of the length 1


class Choice(Enum):
    """The use of given vectors: by the model's name, always, or never."""

    AUTO = "auto"
    KEEP = "keep"
    DROP = "drop"


@dataclass(slots=True)
class Vectors:
    """The vectors that the daemon can use.

    Attributes:
        choice: whether to use given vectors.
        model: the name of the daemon's model; "" or "none" without a model.
        dimension: the dimension of the daemon's vectors; 0: not known yet.
    """

    choice: Choice = Choice.AUTO
    model: str = ""
    dimension: int = 0

    def are_used(self, what: str, model: str, dimension: int, notes: Notes) -> bool:
        """Return True if the vectors of a collection or a file are used.

        Else add the reason to `notes`.

        Args:
            what: the name of the collection or the file.
            model: the model that the source names; "": it names none.
            dimension: the dimension of these vectors; 0: there are none.
            notes: gets the reason.

        Raises:
            InvalidField: the vectors are to be kept, but do not have the daemon's dimension.
        """
        if not dimension or self.choice is Choice.DROP:
            return False
        fits = self.dimension in (0, dimension)
        same = (
            self._has_model and bool(model) and model in (self.model, self.model.partition("/")[2])
        )
        made = f"made by {model}" if model else "of a model that the source does not name"
        own = f"the daemon's are of {self.model}" if self._has_model else "the daemon has no model"
        if self.choice is Choice.KEEP:
            if not fits:
                raise InvalidField(
                    "vectors",
                    f"the vectors of {what} have {dimension} numbers, the daemon's have "
                    f"{self.dimension}: import without them by --vectors drop",
                )
            if not same:
                notes.add(
                    f"{what}: the vectors are kept, {made}; {own}. Unless it is the same model, a "
                    "search by meaning finds garbage, and vikingctl reembed makes new vectors",
                    0,
                )
            self.dimension = dimension
            return True
        if same and fits:
            return True
        remark = f"{what}: the vectors are not used: they are {made}, {own}"
        if fits:
            remark += ". If the model is the same nevertheless, --vectors keep takes them"
        else:
            remark += f", and have {dimension} numbers in place of {self.dimension}"
        notes.add(remark, 0)
        return False

    def packed(self, numbers: Iterable[float], notes: Notes) -> bytes:
        """Return a vector as float32, which the daemon brings to unit length.

        Raises:
            InvalidField: it is all zeros, has another dimension, or a number that is not finite.
        """
        vector = array("f", numbers)
        if self.dimension and len(vector) != self.dimension:
            raise InvalidField(
                "vector",
                f"has {len(vector)} numbers, the daemon's have {self.dimension}: "
                "--vectors drop imports the record without it",
            )
        length = math.hypot(*vector)
        if not length or not math.isfinite(length):
            reason = "is all zeros" if not length else "has a number that is not finite"
            raise InvalidField("vector", f"{reason}: --vectors drop imports the record without it")
        if abs(length - 1) > _TOLERANCE:
            notes.add("vectors that were not of unit length, which the daemon scales to it")
        return vector.tobytes()

    @property
    def _has_model(self) -> bool:
        return self.model not in ("", "none")
