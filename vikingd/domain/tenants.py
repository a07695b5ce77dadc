"""The names of tenants, and the settings of their stores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Interval

from vikingd.domain.errors import InvalidField, NotFound

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """The section [tenants] of the configuration.

    Attributes:
        most_open: how many stores may be open, that of the default tenant not counted.
        idle_seconds: a store without a call for so long is closed.
    """

    most_open: Annotated[int, Interval(ge=1, le=10_000)] = 100
    idle_seconds: Annotated[float, Ge(0.1)] = 600.0


def is_tenant_name(name: str) -> bool:
    """Return True if a text is a valid name of a tenant; the tenant need not exist."""
    return _NAME.fullmatch(name) is not None


def check_tenant_name(name: str) -> None:
    """Raise InvalidField unless a text is a valid name of a tenant."""
    if not is_tenant_name(name):
        raise InvalidField(
            "name",
            f"{name!r} is no name of a tenant: it has 1 to 63 characters of a-z, 0-9 and -, and "
            "does not begin with -",
        )


def missing(name: str) -> NotFound:
    """Return the NotFound error for a tenant."""
    return NotFound(name, f"there is no tenant {name}")
