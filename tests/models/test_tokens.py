"""The terms of texts and queries."""

from __future__ import annotations

import base64
import hashlib
import random
import time
import unicodedata
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vikingd.domain.store_changes import IndexedText
from vikingd.domain.text import script_of
from vikingd.index.lexicon import tokens
from vikingd.index.lexicon.tokens import (
    encode,
    heading_of,
    indexed_terms,
    query_terms,
    term_hash,
    terms,
)

ALPHABET = "aBé1_./-:@+# '’的用中カナ한ー・，ﬁＡ²\u0301\n"
texts = st.text(ALPHABET, max_size=40) | st.text(max_size=20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Running the tests", "run test"),
        ("It's what we'll do, don't", "^It don"),
        ("not found, no", "not found no"),
        ("naïve Café ÉCOLE", "naiv naïv cafe café ecol école"),
        ("cafe\u0301 ＡＢＣ ﬁne", "cafe café abc fine"),
        ("thé à dès", "thé à des dès"),
        ("Zürich Søren Århus", "zurich zürich zuerich soren søren soeren arhus århus aarhus"),
        ("in 2024: 1,000 and 3.14", "2024 1000 3.14 3 14"),
        ("1,250.50 km 12,50,000", "1250.50 1250 50 km 1250000 12 50 000"),
        ("100,200,300 1.250.000", "100200300 100 200 300 1.250.000 1 250 000 1250000"),
        ("2024,100 1,2 10.0.0.1", "2024 100 1 2 10.0.0.1 10 0 0 1"),
        ("1\u202f250\xa0000 ١٬٢٥٠ १२", "1250000 1250 12"),
        ("IT it It The Who US-based", "^IT ^It ^Who us-based ^US base"),
        ("AT&T R&D a=1&b=2 A&C++", "^at&t ^r&d r 1 b 2 c++"),
        ("inter\xadnational con\xad\nference", "internat confer"),
        ("数\u200b据\u2060库 x\ufe0f", "数 数据 据 据库 库 x"),
        ("किताब रोज़", "किताब रोज रोज\u093c"),
        ("กินข้าว ณ", "กิ ข้า กิน นข้า ข้าว ณ"),
        ("ကျောင်းသွား", "ကျောင်း သွား ကျောင်းသွား"),
        ("བོད་ཡིག", "བོད ཡིག བོདཡིག"),
        ("می\u200cخواهم", "ميخواهم مي خواهم"),
        ("שָׁלוֹם مُحَمَّد", "שלום שָׁלוֹם محمد مُحَمَّد"),
        ("й ё за́мок İstanbul", "й е ё замок за́мок istanbul i\u0307stanbul"),
        ("well-known", "well-known well known"),
        ("snake_cases", "snake_cases snake case"),
        ("ŠKODA caféCrème", "skoda škoda cafecrem cafécrèm cafe café creme crème"),
        ("getHTTPResponses", "gethttprespons get http respons"),
        ("JSONResponse jsonresponse", "jsonrespons json respons jsonrespons"),
        ("URLs IDs", "url id"),
        ("HTTP_404_NOT_FOUND", "http_404_not_found http 404 not found"),
        ("E4102", "e4102 4102"),
        ("sha256 OAuth2", "sha256 sha 256 oauth2 auth"),
        ("os.path.join", "os.path.join os path join"),
        ("docs/en/index.md", "docs/en/index.md doc en index.md index md"),
        (r"C:\tmp\a.txt", r"c:\tmp\a.txt c tmp a.txt txt"),
        ("std::vector", "std::vector std vector"),
        ("https://x.org/a?b=1", "https://x.org/a https x.org x org b 1"),
        ("__init__.py", "__init__.py __init__ init py"),
        ("_ __ -- ...", ""),
        ("C++, C# and C; i++;", "c++ c# c i++"),
        ("使用C++开发", "使 使用 用 c++ 开 开发 发"),
        ("使用FastAPI部署", "使 使用 用 fastapi fast api 部 部署 署"),
        ("目的，了解", "目 目的 了解 解"),
        ("人々のカナ", "人 人々 々 々の の のカ カ カナ ナ"),
        ("ｶﾅ 한국", "カ カナ ナ 한 한국 국"),
        ("的", ""),
    ],
)
def test_terms_of_a_text(text: str, expected: str) -> None:
    """Words are stemmed and folded, texts without spaces give bigrams, identifiers are split."""
    assert indexed_terms(text) == expected.split()


def test_the_terms_to_compare_texts_by_are_the_first_forms() -> None:
    """Each word gives one term, whatever its accents, and stop words give none."""
    assert terms("Zürich café IT AT&T") == ["zurich", "cafe"] == terms("zurich cafe")


def test_a_change_of_terms_needs_a_new_version() -> None:
    """The terms of a sample keep their digest as long as VERSION stays the same.

    A new digest needs a higher VERSION, so that old indexes are rebuilt.
    """
    sample = (
        "The Quick's jumps café naïve 2024 3.14 well-known snake_case getHTTPResponse URLs C++ C# "
        "E4102 std::vector os.path docs/en/a.md https://x.org/a 使用FastAPI部署 目的 ｶﾅ 한국 "
        "The Who IT AT&T Zürich 1,250,000 किताब กินข้าว ကျောင်းသွား שָׁלוֹם مُحَمَّد می\u200cخواهم ١٢"
    )
    said = tokens.parts("green tea", "leaf.py", "tea", ["Tea.pour", "pour"])
    kept = b"".join(["\n".join(indexed_terms(sample)).encode(), *map(tokens.hashes, said)])
    kept += str(tokens.title_keys("The tea of 茶 tea")).encode()
    digest = hashlib.sha256(kept).hexdigest()[:12]
    assert {tokens.VERSION: digest} == {5: "b549f5b9446d"}


@pytest.mark.parametrize(
    ("encoded", "count"),
    [
        ("x" * 65, 0),
        ("x" * 64, 1),
        ("x" * 40 + "Y" * 40, 0),
        ("aB" * 32, 1),  # has more parts than names have
        (hashlib.sha256(b"").hexdigest(), 1),
        (base64.b64encode(random.Random(3).randbytes(75)).decode().replace("/", "x"), 2),
        ("abc." * 40 + "abc", 41),  # the parts without the whole
    ],
)
def test_encoded_data_does_not_flood_the_vocabulary(encoded: str, count: int) -> None:
    """A hash is one term, and a word that is longer than any name is none."""
    found = terms(encoded)
    assert len(found) == count
    assert all(len(term) <= tokens.MAX_TERM for term in found)


@given(texts)
@example("Ａ")
@settings(deadline=None)
def test_spelling_variants_of_one_text_have_the_same_terms_and_script(text: str) -> None:
    """Compatibility forms, repetition and text before it do not change the terms of a text."""
    found = terms(text)
    plain = unicodedata.normalize("NFKC", text)
    assert terms(plain) == found
    assert script_of(plain) == script_of(text)
    # Not one line break: behind a soft hyphen it is within a word.
    assert terms(f"{text}\n\n{text}") == found * 2
    assert terms(f"é {text}") == ["e", *found]


@pytest.mark.parametrize(
    "hostile",
    [
        "a",
        "é",
        "a.",
        "é.",
        "a'",
        "_",
        "/",
        "aB",
        "a1",
        "中",
        "中a",
        ":/",
        "C++",
        "ー",
        "\ufdfa",
        "\u1100\u1161\u11a8",
        " é",
        "a" * 63 + "/",
        "\ud800",
    ],
)
def test_time_is_linear_in_hostile_text(hostile: str) -> None:
    """30,000 hostile characters are encoded in less than three seconds."""
    text = "é" + hostile * (30_000 // len(hostile))
    start = time.thread_time()
    encode(text)
    query_terms(text)
    assert time.thread_time() - start < 3


def test_a_long_run_of_combining_marks_is_cut_short() -> None:
    """A run of 100,000 combining marks is cut, and the letter keeps its own mark."""
    start = time.thread_time()
    assert terms("e" + "\u0301\u0316" * 50_000 + "x") == ["e", "x"]
    assert time.thread_time() - start < 3


def test_hashes_are_the_same_everywhere_and_never_reserved() -> None:
    """A hash is BLAKE2b's first 8 bytes, little endian, and the ends of the range stay free."""
    digest = hashlib.blake2b("café".encode(), digest_size=8).digest()
    assert term_hash("café") == int.from_bytes(digest, "little")
    assert 0 < term_hash("\ud800") < 2**64 - 1


@pytest.mark.parametrize(("digest", "expected"), [(b"\0" * 8, 1), (b"\xff" * 8, 2**64 - 2)])
def test_reserved_hashes_are_moved_inwards(
    digest: bytes, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A term whose digest is 0 or 2**64 - 1 gets the neighbouring hash."""

    class Digest:
        def digest(self) -> bytes:
            return digest

    monkeypatch.setattr(tokens, "blake2b", lambda *_, **__: Digest())
    assert int.from_bytes(tokens._packed_hash.__wrapped__("any"), "little") == expected


@given(texts)
@settings(deadline=None)
def test_encoding_counts_the_terms(text: str) -> None:
    """Hashes come ascending and once, with the counts of a plain Counter, and the length."""
    hashes, frequencies, length = encode(text)
    found = indexed_terms(text)
    expected = sorted(Counter(map(term_hash, found)).items())
    assert list(zip(hashes.tolist(), frequencies.tolist(), strict=True)) == expected
    assert length == sum(not term.startswith("^") for term in found)
    assert (hashes.dtype.name, frequencies.dtype.name) == ("uint64", "uint16")


def test_frequencies_saturate_and_the_length_does_not() -> None:
    """A term that occurs 70,000 times has the frequency 65,535."""
    _, frequencies, length = encode("word " * 70_000)
    assert frequencies.tolist() == [65_535]
    assert length == 70_000


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("status-code.md", ["status-code.md", "status-code", "status", "code", "md"]),
        ("会议.md", ["会", "会议", "议", "md"]),
        ("2024-05-01", ["2024-05-01", "2024", "05", "01"]),
        ("0001", []),
        ("", []),
    ],
)
def test_the_name_of_a_file_is_indexed_unless_it_is_an_ordinal(name: str, found: list[str]) -> None:
    """A name counts whole and in parts, and a name of digits alone does not count."""
    hashes, _, length = encode("body", name)
    assert set(hashes.tolist()) == {term_hash(term) for term in ["bodi", *found]}
    assert length == 1 + len(found)


def test_a_full_cache_is_emptied_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache never has more words than its bound."""
    words = [f"word{number}" for number in range(50)]
    expected = [terms(word) for word in words]
    monkeypatch.setattr(tokens, "_CACHED", 10)
    memo = tokens._Memo(tokens._piece_terms)
    assert [list(memo[word]) for word in words] == expected
    assert 0 < len(memo) <= 10
    memo["y" * 1000]
    assert "y" * 1000 not in memo


@given(texts)
@settings(deadline=None)
def test_query_terms_go_together(text: str) -> None:
    """Terms, hashes and weights are aligned, ascending by hash; a word weighs 1 in all forms."""
    query = query_terms(text)
    assert [term_hash(term) for term in query.terms] == query.hashes.tolist()
    assert query.hashes.tolist() == sorted(query.hashes.tolist())
    words = [term for term in query.terms if not term.startswith("^")]
    assert set(words) <= set(indexed_terms(text))
    weights = dict(zip(query.terms, query.weights.tolist(), strict=True))
    if not tokens._SPACELESS.search(text):  # the bigrams of clusters alone are asked for
        assert sum(map(weights.__getitem__, words)) == pytest.approx(len(terms(text)))
    assert (query.hashes.dtype.name, query.weights.dtype.name) == ("uint64", "float32")


IDENTIFIERS = [
    "E4102",
    "FastAPI",
    "HTTPException",
    "getName",
    "snake_case",
    "__init__",
    "README.md",
    "main.c",
    "a.py",
    "1.md",
    "asyncio.sleep",
    "std::vector",
    "main.py:42",
    "src/a/b",
    "/etc/passwd",
    "HTTP",
    "https://x.org/a",
    "EACCES",
    "RFC-7231",
    "HTTP_404",
    "v1.2",
    "utf8",
    "me@x.org",
    "dérivéeÀ.txt",
    "IT",
    "WHO",
    "AT&T",
    "q&a",
]


@pytest.mark.parametrize("identifier", IDENTIFIERS)
@pytest.mark.parametrize("form", ["{}", "({}),", "「{}」", "“{}”?", "  {}\n"])
def test_an_identifier_alone_is_told(identifier: str, form: str) -> None:
    """A code, a symbol or a file name is an identifier, with or without punctuation around it."""
    (hashed,) = query_terms(form.format(identifier)).identifiers
    for text in ("see {} there", "用{}的", "({}).", "`{}`"):
        assert hashed in encode(text.format(identifier))[0]


@pytest.mark.parametrize(
    "query",
    [
        "fastapi",
        "Hello",
        "How do I",
        "2024",
        "3.14",
        "10:30",
        "2024-05-01",
        "24/7",
        "2nd",
        "e.g.",
        "i.e",
        "U.S.",
        "a.m.",
        "well-known",
        "covid-19",
        "and/or",
        "I",
        "A",
        "I'M",
        "Note:",
        "It",
        "HELP ME PLEASE",
        "10am",
        "US-based",
        "URLs",
        "C++",
        "",
        "*",
        "的",
        "错误E4102",
        "E4102错误",
        "FastAPI tutorial",
        "what is E4102",
        "a_b=1",
        "_",
        "x/y",
        "don't",
        "X" * 65,
        "ab." * 30 + "c",
    ],
)
def test_other_words_are_no_identifiers(query: str) -> None:
    """Words, numbers, abbreviations and mixed queries are no identifiers."""
    assert query_terms(query).identifiers == ()


def test_several_identifiers_are_told_once_each_in_order() -> None:
    """A query of identifiers gives the hash of each whole identifier once, in order."""
    query = query_terms("HTTPException, E4102 HTTPException snake_case")
    assert query.identifiers == tuple(map(term_hash, ["httpexcept", "e4102", "snake_case"]))
    assert query_terms("GDPR E4102").identifiers == (term_hash("gdpr"), term_hash("e4102"))


def test_a_heading_counts_three_times() -> None:
    """The heading of a passage or of an abstract counts three times."""
    passage = IndexedText(
        1, 1, 1, "Tea > Green\nwater and leaves", b"", True, "Tea > Green", 0, "water and leaves"
    )
    abstract = IndexedText(2, 0, 1, "Tea\nAll about it", b"", True)
    bare = IndexedText(3, 1, 1, "water", b"", True, "", 0, "water")
    assert heading_of(passage, "") == "Tea > Green\n"
    assert heading_of(abstract, "All about it") == "Tea\n"
    assert heading_of(bare, "") == heading_of(abstract, "") == ""
    found, counts, length = encode(passage.text, "", heading_of(passage, ""))
    tea, water = term_hash("tea"), term_hash("water")
    assert counts[found.tolist().index(tea)] == 3
    assert counts[found.tolist().index(water)] == 1
    assert length == len(terms(passage.text)) + 2 * len(terms("Tea > Green"))
