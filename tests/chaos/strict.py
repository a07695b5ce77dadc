"""The rule for damage that is not told: it is a failure.

The README of the store lists what is not checked. Each entry here quotes it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.chaos.daemon import Wrong

STRICT = True
"""False: outcomes that the daemon cannot detect are counted, not reported as failures."""


class NotChecked(NamedTuple):
    """Damage that is not detected, by the promise of the store's README.

    Attributes:
        damage: matches the description of the damage.
        failure: matches the message of the failure.
        quote: the words of vikingd/store/README.md.
    """

    damage: str
    failure: str
    quote: str


_UNTOLD = r"^(silent|more than was told)"

NOT_CHECKED = (
    NotChecked(
        r"index \w+; (removals|meta|tenants):",
        _UNTOLD,
        "Not checked: rows of `removals` and `requests`, values of `meta` but their types, the "
        "limits of tenants",
    ),
    NotChecked(
        r"index \w+; contexts:.*deleted",  # the base may be older than the row
        _UNTOLD,
        "A context whose whole row is gone from all tables and indexes is noticed only if a base "
        "of the index has it",
    ),
    NotChecked(
        r"index \w+; links:.*deleted",
        _UNTOLD,
        "A link whose row is gone is noticed only until the next start, since bases have no links.",
    ),
    NotChecked(
        r"index \w+; (contexts:.*uri|keys:.*\bid|links:.*\b[ab]) of \(",
        r"^more than was told",
        "A row is named by what it has: if its URI, the id of a key or an end of a link was "
        "changed, the one before is not named.",
    ),
    NotChecked(
        r"older \(\w+\) store.sqlite3, store.sqlite3-wal, store.sqlite3-shm, mark$",
        _UNTOLD,
        "an older file together with its mark deleted or put back, if no newer index is beside it",
    ),
    NotChecked(
        r"index \w+; keys:.*deleted",
        _UNTOLD,
        "A key whose whole row is gone is not valid and not listed, as if it had never been "
        "created.",
    ),
    NotChecked(
        r"older \(.*\) access\.sqlite3, access\.sqlite3-wal, access\.sqlite3-shm, keys-needed$",
        r"^(silent|more than was told|a key that must not work works|a dead key works)",
        "an older `access.sqlite3` put back together with its `-wal`, `-shm` and `keys-needed`: "
        "revoked keys are valid again",
    ),
)


def undetectable(outcome: str, faults: object) -> str:
    """Return an outcome that nobody was told of, which the strict rule does not allow."""
    if STRICT:
        raise Wrong(f"{outcome}, and nobody was told: {faults}")
    return outcome


def excused(damage: str, failure: str) -> str:
    """Return the words of the README that excuse a failure; "" if there are none."""
    if failure.startswith("a traceback"):
        return ""
    if not STRICT and re.search(r"silent|more than was told", failure):
        return "the rule is lenient"
    for entry in NOT_CHECKED:
        if re.search(entry.damage, damage) and re.search(entry.failure, failure):
            return entry.quote
    return ""
