"""The outcomes of the checks of `vikingctl doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from vikingd.system.install_command import install_command

OK, WARN, WRONG = "ok", "warn", "wrong"


class Check(NamedTuple):
    """The outcome of a check.

    Attributes:
        state: OK, WARN or WRONG.
        part: the part that was checked, such as "store".
        found: the observed fact.
        remedy: the command or the setting that corrects it; "" if nothing is to be done.
    """

    state: str
    part: str
    found: str
    remedy: str = ""


def checked(part: str, check: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Yield the outcomes of a check; if the check itself fails, the failure is an outcome too."""
    try:
        yield from check()
    except ModuleNotFoundError as error:
        needed = f"not checked: {error.name} is not installed"
        yield Check(WARN, part, needed, install_command("server"))
    except PermissionError as error:
        found = f"not checked: this user may not read {error.filename}"
        yield Check(WARN, part, found, "run it as the user of the daemon")
    except Exception as error:  # the other checks are still made
        yield Check(WRONG, part, f"could not be checked: {type(error).__name__}: {error}")
