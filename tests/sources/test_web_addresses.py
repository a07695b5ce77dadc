"""Addresses of pages, the hosts that may be asked, and the names of files."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tiers import examples
from vikingd.domain import uri as uris
from vikingd.sources import host_addresses
from vikingd.sources.host_addresses import HostAddresses, PrivateHost, is_public
from vikingd.sources.page_addresses import Bounds, canonical
from vikingd.sources.page_files import Page, PageFiles


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("HTTP://Example.ORG:80", "http://example.org/"),
        ("https://example.org:443/a#b", "https://example.org/a"),
        ("https://example.org:8443/a/./b/../c", "https://example.org:8443/a/c"),
        ("https://example.org/%7euser/%2e%2e/a%2fb", "https://example.org/a%2Fb"),
        ("https://example.org/a b/ü?q=ä&utm_source=x", "https://example.org/a%20b/%C3%BC?q=%C3%A4"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://ana:secret@example.org/", "https://example.org/"),
        ("https://example.org/100%", "https://example.org/100%25"),
        ("https://example.org/?fbclid=1&id=2", "https://example.org/?id=2"),
        ("https://[::1]:8080/", "https://[::1]:8080/"),
        ("javascript:alert(1)", None),
        ("mailto:ana@example.org", None),
        ("https:///a", None),
        ("https://example.org:99999/", None),
        ("https://exa mple.org/", None),
        ("https://[::1/", None),
        ("https://example.org/" + "a" * 2000, None),
    ],
)
def test_addresses_have_one_spelling(address: str, expected: str | None) -> None:
    """What does not change the page is left out."""
    assert canonical(address) == expected


@examples(400)
@given(st.text(max_size=40), st.sampled_from(["", "https://example.org/a/b?c"]))
def test_the_spelling_of_a_spelling_is_the_same(text: str, base: str) -> None:
    """No text breaks it."""
    found = canonical(text, base)
    if found is not None:
        assert canonical(found) == found
        assert found.isascii()


def test_bounds_hold_whole_steps_of_a_path() -> None:
    """Http and https are the same site; another port or host is not."""
    bounds = Bounds.of("https://example.org/docs/")
    assert bounds.holds("https://example.org/docs")
    assert bounds.holds("http://example.org/docs/a")
    assert not bounds.holds("https://example.org/docs2/")
    assert not bounds.holds("https://example.org:8443/docs/")
    assert not bounds.holds("https://www.example.org/docs/")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%1", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("ff02::1", False),
    ],
)
def test_which_ip_addresses_are_public(address: str, expected: bool) -> None:
    """An address of IPv4 inside of one of IPv6 counts."""
    assert is_public(address) is expected


PUBLIC, INWARD, METADATA = "93.184.216.34", "10.0.0.7", "169.254.169.254"


@pytest.mark.parametrize(
    ("named", "was_public", "host", "found", "is_allowed"),
    [
        ("intranet", False, "intranet", [INWARD], True),
        ("10.0.0.7", False, "10.0.0.7", [INWARD], True),
        ("docs.example", False, "intranet", [INWARD], False),
        ("docs.example", False, "other.example", [PUBLIC, INWARD], False),
        ("docs.example", False, "other.example", [PUBLIC], True),
        ("docs.example", True, "docs.example", [INWARD], False),
        ("docs.example", False, "docs.example", [METADATA], False),
        (METADATA, False, METADATA, [METADATA], True),
    ],
)
def test_only_the_named_host_may_be_private(
    monkeypatch: pytest.MonkeyPatch,
    named: str,
    host: str,
    found: list[str],
    *,
    was_public: bool,
    is_allowed: bool,
) -> None:
    """A name that was public once stays so, and no name stands for a link-local address."""
    asked = []

    def look_up(name: str) -> list[tuple[object, ...]]:
        asked.append(name)
        return [(0, 0, 0, "", (one, 0)) for one in found]

    monkeypatch.setattr(host_addresses, "_look_up", look_up)  # names of other people's hosts

    async def resolve() -> list[str]:
        with ThreadPoolExecutor(1) as executor:
            hosts = HostAddresses(named, was_public, executor)
            await hosts.of(host)
            return await hosts.of(host)

    if is_allowed:
        assert asyncio.run(resolve()) == found
        assert asked == [host]
    else:
        with pytest.raises(PrivateHost, match=r"is not public|is a link-local address"):
            asyncio.run(resolve())


_STEP = st.one_of(
    st.sampled_from(
        ["", "..", ".git", "node_modules", "a", "A", "a.html", "index", "%2e%2e", "CON"]
    ),
    st.text(max_size=150),
)


@examples(200)
@given(st.lists(st.tuples(st.lists(_STEP, max_size=6), st.text(max_size=9)), max_size=8))
@example(paths=[(["a\u2028b"], "0\u20290")])
def test_every_address_has_a_file_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, paths: list[tuple[list[str], str]]
) -> None:
    """All can be written below the directory, in any order, and have valid URIs."""
    folder = tmp_path_factory.mktemp("files")
    files = PageFiles(folder / "pages", "", is_site=True, pages={})
    found = {}
    for steps, query in paths:
        address = canonical("https://example.org/" + "/".join(steps) + (query and f"?{query}"))
        if address and address not in found:
            path = found[address] = files.path_for(address, "html")
            files.write(path, address.encode())
    for address, path in found.items():
        assert (files.root / path).read_bytes() == address.encode()
        steps = PurePosixPath(path).parts
        assert not any(step.startswith(".") or step == "node_modules" for step in steps)
        assert len(path.encode()) <= 700
        uris.parse_new(f"viking://resources/{path}")
    folded = {path.casefold() for path in found.values()}
    assert len(folded) == len(found)
    files.keep_only([])
    assert not list(files.root.iterdir())
    assert [one.name for one in folder.iterdir()] == ["pages"]


def test_a_page_keeps_its_path(tmp_path: Path) -> None:
    """A new page whose address would have the same file gets another one."""
    url = "https://example.org"
    files = PageFiles(
        tmp_path / "pages", "", is_site=True, pages={f"{url}/a.html": Page("a.html", "")}
    )
    assert files.path_for(f"{url}/a", "html").startswith("a~")
    assert files.path_for(f"{url}/A", "html").startswith("A~")
    assert files.path_for(f"{url}/a.html/b", "html") != "a.html/b.html"
    assert files.path_for(f"{url}/a.html", "html") == "a.html"
    assert files.path_for(f"{url}/a.html", "pdf") == "a.html.pdf"
    assert files.path_for(f"{url}/.well-known/x", "html") == "_well-known/x.html"
    assert files.path_for(f"{url}/node_modules/x", "html") == "_node_modules/x.html"
