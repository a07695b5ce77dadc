"""The one form of URIs: NFC without hidden characters."""

from __future__ import annotations

import pytest

from vikingd.browse.compiled_patterns import glob_pattern
from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField

TOP = "viking://resources"


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        ("cafe\u0301.md", "caf\xe9.md"),
        ("caf\xe9.md", "caf\xe9.md"),
        ("\u1112\u1161\u11ab.md", "\ud55c.md"),
        ("カ\u3099", "ガ"),
        ("\u212b.md", "\xc5.md"),
        ("in\xadvoice\u200b\u2060.md", "invoice.md"),
        ("\ufeffa\u202eb/c\u200ed.md", "ab/cd.md"),
        ("می\u200cخواهم.md", "می\u200cخواهم.md"),
        ("👨\u200d👩.md", "👨\u200d👩.md"),
        ("ﬁ ２.md", "ﬁ ２.md"),
        ("plain.md/", "plain.md"),
    ],
)
def test_names_that_look_the_same_are_the_same(typed: str, parsed: str) -> None:
    """A typed URI becomes NFC and loses what does not show; joiners that belong to it stay."""
    assert uris.parse(f"{TOP}/{typed}") == f"{TOP}/{parsed}"
    assert uris.parse(f"{TOP}/{parsed}") == f"{TOP}/{parsed}"


@pytest.mark.parametrize("name", ["\u202e", "a/\u200b", "\u200b/a", "a\x07", "\x9b31m"])
def test_a_name_must_show(name: str) -> None:
    """A name without a visible character, or with a control character, is refused."""
    with pytest.raises(InvalidField):
        uris.parse(f"{TOP}/{name}")


def test_a_new_uri_becomes_nfc_and_may_not_hide_anything() -> None:
    """A new URI in NFD is taken as NFC; one with a hidden character is refused by name."""
    assert uris.parse_new(f"{TOP}/cafe\u0301.md") == f"{TOP}/caf\xe9.md"
    with pytest.raises(InvalidField, match=r"U\+00AD \(SOFT HYPHEN\), which does not show"):
        uris.parse_new(f"{TOP}/in\xadvoice.md")


def test_a_glob_has_the_same_form() -> None:
    """A glob that is typed in NFD matches names in NFC."""
    assert glob_pattern("cafe\u0301*", "pattern").matches(f"{TOP}/caf\xe9.md", TOP)
