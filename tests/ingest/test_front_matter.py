"""Front matter: YAML 1.2, TOML and JSON, and blocks with a bad value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vikingd.ingest.abstracts import derive_title, stated_abstract
from vikingd.ingest.frontmatter import faults, front_matter, with_front_matter
from vikingd.ingest.limits import as_sent

# Values that YAML 1.2 reads as texts, YAML 1.1 partly as others.
_TEXTS = (
    "NO No no n N Y y yes Yes YES on On ON off Off OFF tRUE nULL nil none None "
    "10:30 14:00 06:20 1:30:00 -1:30 12:30:45.5 190:20:30 20:30.15 "
    "1_000 1_000.5 0b101 0b1_0 02134 007 00 -012 0777 08 0o8 0xZZ 0x 0b2 ++1 +-1 "
    "2024-03-01 2024-3-1 2024-02-31 2024-03-01T10:00:00Z 2024-13-45 1.2.3 1,5 1,000 "
    "= << ~x 1e 1e+ e5 . .. .e5 -- -a +a 192.168.0.1 v1.0 .infinity Inf nan NaN 12abc"
)
_BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def canonical(values: Any) -> str:
    """Return values as JSON, which tells True from 1."""
    return json.dumps(as_sent(values))


def read(block: str) -> dict[str, Any]:
    """Return the values of a block of YAML."""
    return front_matter(f"---\n{block}\n---\nBody.")[0]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        # What YAML 1.1 takes for something else is text.
        *[(text, text) for text in _TEXTS.split()],
        ("2024-03-01 10:00:00 +02:00", "2024-03-01 10:00:00 +02:00"),
        ("2001-12-14 21:59:43.10 -5", "2001-12-14 21:59:43.10 -5"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        # Numbers, booleans and nulls of YAML 1.2.
        ("0", 0),
        ("-0", 0),
        ("12", 12),
        ("+12", 12),
        ("-7", -7),
        ("0x1F", 31),
        ("0o17", 15),
        ("1.5", 1.5),
        ("1.10", 1.1),
        (".5", 0.5),
        ("5.", 5),
        ("-.5", -0.5),
        ("1e3", 1000),
        ("1.5E-3", 0.0015),
        ("0.0", 0),
        *[(text, True) for text in ("true", "True", "TRUE")],
        *[(text, False) for text in ("false", "False", "FALSE")],
        *[(text, None) for text in ("null", "Null", "NULL", "~", "")],
        # Numbers that the store would round stay text.
        ("1234567890123456789", "1234567890123456789"),
        ("-9007199254740993", "-9007199254740993"),
        ("9007199254740991", 9007199254740991),
        ("0xfffffffffffffffff", "0xfffffffffffffffff"),
        ("1e400", "1e400"),
        ("1234e56", "1234e56"),
        (".inf", ".inf"),
        ("-.Inf", "-.Inf"),
        (".NaN", ".NaN"),
        ("9" * 9000, "9" * 9000),
        # Quotes and tags say that it is text.
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("!!float 3", 3),
        ("!!int x", "x"),
        ("!!bool foo", "foo"),
        ("!!timestamp foo", "foo"),
        ('!!int ""', ""),
        ("!!binary aGk=", "aGk="),
        ("!include other.yml", "!include other.yml"),
        ("!important", "!important"),
        ("!!set {a, b}", {"a": None, "b": None}),
        ("[NO, 10:30, 5, true]", ["NO", "10:30", 5, True]),
        ("{on: off, 02: 03}", {"on": "off", "02": "03"}),
        ("# comment", None),
        ("a # comment", "a"),
        ("a#b", "a#b"),
    ],
)
def test_a_value_is_that_of_yaml_1_2(written: str, value: object) -> None:
    """A value is read by YAML 1.2; what it would change, and YAML 1.1 reads otherwise, is text."""
    block = f"x: {written}\ntitle: T"
    assert canonical(read(block)) == canonical({"x": value, "title": "T"})
    lists = read(f"x:\n  - {written}\n  - 1\ntitle: T")
    assert canonical(lists) == canonical({"x": [value, 1], "title": "T"})


@pytest.mark.parametrize(
    ("block", "x"),
    [
        # An unquoted colon is read as people mean it.
        ("x: Use this when: a PDF has tables", "Use this when: a PDF has tables"),
        ("x: Meeting: budget", "Meeting: budget"),
        ("x: a: b: c", "a: b: c"),
        ("x: Note: see http://a.b/c: it", "Note: see http://a.b/c: it"),
        ("x: ends with a colon:", "ends with a colon:"),
        ("x: Use when: one\n  or when: two\n  and three", "Use when: one or when: two and three"),
        ("x: Use when: one # really", "Use when: one"),
        ("x: 用法: 当用户问\n  表格时: 用", "用法: 当用户问表格时: 用"),
        ('x: "Quoted": rest', '"Quoted": rest'),
        # A line that has lost its indent.
        ("x: This is long\nand goes on here", "This is long and goes on here"),
        # Characters that YAML keeps for itself.
        ("x: @handle", "@handle"),
        ("x: `code` first", "`code` first"),
        ("x: %done", "%done"),
        ("x: *Important*", "*Important*"),
        ("x: [Draft] My title", "[Draft] My title"),
        ("x: {{ page.title }}", "{{ page.title }}"),
        ("x: {braces} first", "{braces} first"),
        ("x: - dash", "- dash"),
        ("x: 'it's here'", "it's here"),
        ('x: "He said "hi" to her"', 'He said "hi" to her'),
        ('x: "Quoted" start', '"Quoted" start'),
        # Unclosed.
        ('x: "Hello', "Hello"),
        ("x: 'Hello", "Hello"),
        ("x: [a, b", "[a, b"),
        ("x: {a: b", "{a: b"),
        # Bad escapes.
        (r'x: "C:\Users\me"', r"C:\Users\me"),
        (r'x: "\d+\s"', r"\d+\s"),
        (r'x: "\ud800"', r"\ud800"),
        (r'x: "a\0b"', r"a\0b"),
        (r'x: "\UFFFFFFFF"', r"\UFFFFFFFF"),
        # Tabs.
        ("x:\tHello", "Hello"),
        ("x: Hello\t", "Hello"),
        ("x:\t12", 12),
        ("x:\ttrue\t# yes", True),
        ("x:\n\t- a\n\t- b", ["a", "b"]),
        ("x:\n-\ta\n-\tb", ["a", "b"]),
        ("x: [a,\tb]", ["a", "b"]),
        ("x:\n\ta: 1\n\tb: 10:30", {"a": 1, "b": "10:30"}),
        # Lists with signs of tags, and deeper values.
        ("x: [#one, #two]", ["#one", "#two"]),
        ("x: [@a, 'b, c']", ["@a", "b, c"]),
        ("x:\n  - a: b: c\n  - d", ["a: b: c", "d"]),
        ("x:\n- @a\n- b", ["@a", "b"]),
        ("x:\n  short: Use when: y\n  version: 1", {"short": "Use when: y", "version": 1}),
        ("x:\n  y:\n    z: a: b\n    w: [1]\n  v: 2", {"y": {"z": "a: b", "w": [1]}, "v": 2}),
        # A key twice, aliases.
        ("x: 1\nx: 2", 2),
        ("x: {a: 1, a: 2}", {"a": 2}),
        ("y: &n Ana\nx: *n", "Ana"),
        ("y: &n [1, 2]\nx: {a: *n}", {"a": [1, 2]}),
        ("x: *missing", "*missing"),
        ("x:no space", "no space"),
        ("x: |\n  one\n  two: 2\nbad: a: b", "one\ntwo: 2\n"),
        ("x: >-\n  one\n  two\nbad: a: b", "one two"),
    ],
)
def test_a_bad_value_loses_only_itself(block: str, x: object) -> None:
    """A value that is no YAML is read as people mean it; the values around it are read."""
    for content in (
        f"---\ntitle: T\n{block}\ndate: 2024-03-01\ntags: [tea]\n---\nBody.",
        f"---\n# c\n\ntitle: T\ntags:\n  - tea\ndate: 2024-03-01\n{block}\n---\nBody.",
    ):
        values, end = front_matter(content)
        kept = {key: values.get(key) for key in ("title", "date", "tags", "x")}
        assert kept == {"title": "T", "date": "2024-03-01", "tags": ["tea"], "x": x}
        assert content[end:] == "\nBody."


@pytest.mark.parametrize(
    ("block", "named"),
    [
        ("x: 1\nx: 2", "x"),
        ("x: " + "[" * 33 + "]" * 33, "x"),
        pytest.param("x: " + "[" * 2000, "x", marks=pytest.mark.deep),
        ("x: &r [*r]", "x"),
        (_BOMB, "g"),
        (r'"\ud800": a', r"\ud800"),
        ('x: "Hello', "x"),
        ("x: [a, b", "x"),
        (r'x: "C:\Users\me"', "x"),
        ("x: [a, b}", "x"),
        ("x:\n  y: [a", "x.y"),
        ("x:\n  - a\n  - 'b", "x[1]"),
        ("x: 1234567890123456789", "x"),
        ("x: .inf", "x"),
        ("x: {b: [1, .nan]}", "x.b[1]"),
    ],
)
def test_a_value_that_is_lost_or_text_is_told_by_name(block: str, named: str) -> None:
    """The report names each value that is dropped, or is text against its look."""
    content = f"---\ntitle: T\n{block}\ndate: 2024-03-01\ntags: [tea]\n---\nBody."
    values = front_matter(content)[0]
    assert (values["title"], values["date"], values["tags"]) == ("T", "2024-03-01", ["tea"])
    told = faults(content)
    assert any(one.startswith(f"{named}: ") for one in told), told
    assert all(len(one) <= 400 for one in told)


@pytest.mark.parametrize(
    ("block", "values"),
    [
        ("title：红烧肉\nauthor: 王明", {"title": "红烧肉", "author": "王明"}),
        ("author: 王明\n标题：红烧肉：家常做法", {"author": "王明", "标题": "红烧肉：家常做法"}),
        ("x: 1\ntags：[甲, 乙]", {"x": 1, "tags": ["甲", "乙"]}),
        ("title:\u00a0Tea\nx: 1", {"title": "Tea", "x": 1}),
        ("title:\u3000茶\nx: 1", {"title": "茶", "x": 1}),
        ("x: 注意：这是茶", {"x": "注意：这是茶"}),
        ("a：b: c", {"a：b": "c"}),
    ],
)
def test_a_colon_of_chinese_text_ends_a_key(block: str, values: dict[str, object]) -> None:
    """A key that is typed with a wide colon, or a hard space after it, loses nothing."""
    assert front_matter(f"---\n{block}\n---\nBody.")[0] == values


@pytest.mark.parametrize(
    "block",
    [
        "",
        "a: 1.5",
        "x: Use when: y",
        "x:\tHello",
        "x: *Important*",
        "country: NO\nstart: 10:30\nzip: 02134",
        "date: 2024-03-01",
        "y: &n Ana\nx: *n",
    ],
)
def test_what_is_read_as_meant_is_not_told(block: str) -> None:
    """Values that are read as people mean them are no faults."""
    content = f"---\n{block}\n---\nBody."
    assert front_matter(content)[1] > 0
    assert faults(content) == []


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("just words", False),
        ("- a\n- b", False),
        ("Some words: here\n\nAnd a paragraph of prose.\n\nAnd another: one: here", True),
        ("[" * 200, True),
        ("* a\n* b", True),
        ("注意：这是一段话。", False),
        ("注意：这是一段话。\n说明：这也是一段话。", False),
    ],
)
def test_a_block_that_is_no_mapping_is_text(block: str, told: bool) -> None:
    """Prose or a list between two rules is text."""
    content = f"---\n{block}\n---\nText"
    assert front_matter(content) == ({}, 0)
    assert bool(faults(content)) == told


@pytest.mark.parametrize(
    ("block", "title", "abstract"),
    [
        ("title: 10:30\nsummary: 1.10", "10:30", "1.10"),
        ("title: 1.10\ndescription: 02134", "1.10", "02134"),
        ("title: 2024\ndescription: true", "2024", "true"),
        ("title: 0x1F\ndescription: 1e3", "0x1F", "1e3"),
        ("title: NO\ndescription: null", "NO", ""),
        ("title: 2024-03-01\ndescription: ~", "2024-03-01", ""),
        ("title: >\n  枣红色，\n  下肉\ndescription: 前端 后端", "枣红色，下肉", "前端 后端"),
        ("title: 枣红色，\n  下肉\ndescription: |\n  大火\n  小火", "枣红色，下肉", "大火小火"),
        ("title: one\n  two\ndescription: >\n  a\n  b", "one two", "a b"),
        ("title: [a]\ndescription: {a: b}", "", ""),
        ("title: Meeting: budget\ndescription: Use when: x", "Meeting: budget", "Use when: x"),
    ],
)
def test_title_and_abstract_are_as_written(block: str, title: str, abstract: str) -> None:
    """A title or abstract that looks like a number is shown as it was written."""
    content = f"---\n{block}\n---\nBody."
    assert (derive_title(content, "a.md"), stated_abstract(content, "a.md")) == (title, abstract)


@pytest.mark.parametrize(
    ("block", "values"),
    [
        ('title = "T"\ntags = ["a", "b"]', {"title": "T", "tags": ["a", "b"]}),
        ("date = 2024-05-27T07:32:00Z", {"date": "2024-05-27T07:32:00Z"}),
        ("date = 2024-05-27T07:32:00+02:00", {"date": "2024-05-27T07:32:00+02:00"}),
        ("date = 2024-05-27 07:32:00", {"date": "2024-05-27T07:32:00"}),
        ("date = 2024-05-27\nstart = 10:30:00", {"date": "2024-05-27", "start": "10:30:00"}),
        ("draft = true\nweight = 10\nx = 1.5", {"draft": True, "weight": 10, "x": 1.5}),
        ("[params]\na = 1\n[params.b]\nc = 2", {"params": {"a": 1, "b": {"c": 2}}}),
        ('[[m]]\na = 1\n[[m]]\na = "2"', {"m": [{"a": 1}, {"a": "2"}]}),
        ("id = 1234567890123456789", {"id": "1234567890123456789"}),
        ("x = inf\ny = nan", {"x": "inf", "y": "nan"}),
        ('t = """\none\ntwo"""', {"t": "one\ntwo"}),
        # A bad value loses only itself.
        ("title = Hello\ndate = 2024-05-27", {"title": "Hello", "date": "2024-05-27"}),
        ('title = "T\ndraft = false', {"title": "T", "draft": False}),
        ('p = "C:\\Users"\ntags = [\n  "a",\n]', {"p": "C:\\Users", "tags": ["a"]}),
        ("a = 1\na = 2", {"a": 2}),
        (
            "[params]\na = x y\nb = 1\n[other]\nc = 2",
            {"params": {"a": "x y", "b": 1}, "other": {"c": 2}},
        ),
        ("", {}),
    ],
)
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_toml(block: str, values: dict[str, object], eol: str) -> None:
    """TOML between lines of `+++` is front matter; a bad value loses only itself."""
    content = f"+++\n{block}\n+++\n\n# H\n".replace("\n", eol)
    found, end = front_matter(content)
    assert canonical(found) == canonical(values)
    assert content[end:] == f"{eol}{eol}# H{eol}"


@pytest.mark.parametrize(
    ("content", "values", "rest"),
    [
        ('{\n  "title": "T",\n  "x": 1\n}\n\nBody.', {"title": "T", "x": 1}, "\n\nBody."),
        ('{"title": "T"}\nBody.', {"title": "T"}, "\nBody."),
        ('{"id": 1234567890123456789}\nB', {"id": "1234567890123456789"}, "\nB"),
        ('{"x": NaN, "y": 1e999}\nB', {"x": "NaN", "y": "1e999"}, "\nB"),
        ('{"title": "T"} is JSON', {}, '{"title": "T"} is JSON'),
        ('{"title": "T"}\n', {}, '{"title": "T"}\n'),
        ('{"title": }\nBody.', {}, '{"title": }\nBody.'),
        ("{% raw %}\nBody.", {}, "{% raw %}\nBody."),
        ("{{ x }}\nBody.", {}, "{{ x }}\nBody."),
        ("{}\nBody.", {}, "{}\nBody."),
        ("+++\nno end", {}, "+++\nno end"),
        ("+++\njust words\n+++\nB", {}, "+++\njust words\n+++\nB"),
    ],
)
def test_json(content: str, values: dict[str, object], rest: str) -> None:
    """A JSON object at the beginning, with text below it, is front matter."""
    found, end = front_matter(content)
    assert found == values
    assert content[end:] == rest


@pytest.mark.parametrize(
    ("block", "changes", "wanted"),
    [
        (
            "title: Office # the room\nstart: 10:30\n\n# places\nzip: 02134\nversion: 1.10\n",
            {"owner": "ana"},
            "title: Office # the room\nstart: 10:30\n\n# places\nzip: 02134\nversion: 1.10\n"
            "owner: ana\n",
        ),
        (
            "title: A\ntags:\n- x\n- 'y'\n# about\nn: 0x1F\n",
            {"tags": ["z"]},
            "title: A\ntags:\n- z\n# about\nn: 0x1F\n",
        ),
        ("at: 2024-05-01 10:00:00 +02:00\n", {"x": 1}, "at: 2024-05-01 10:00:00 +02:00\nx: 1\n"),
        ("d: Use when: x\nc: NO\n", {"x": "NO"}, "d: Use when: x\nc: NO\nx: 'NO'\n"),
        ("a: 1\n", {"a": "1e3", "b": "0o17", "c": "10:30"}, "a: '1e3'\nb: '0o17'\nc: '10:30'\n"),
        ("{a: 1, b: 10:30}\n", {"c": 2}, "a: 1\nb: '10:30'\nc: 2\n"),
        ('t: "unclosed\na: 1\n', {"a": 2}, 't: "unclosed\na: 2\n'),
    ],
)
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_an_export_keeps_the_lines_of_unchanged_values(
    block: str, changes: dict[str, object], wanted: str, eol: str
) -> None:
    """Only lines of changed values are written anew; each value reads as before."""
    content = f"---\n{block}---\nBody.".replace("\n", eol)
    values = {**front_matter(content)[0], **changes}
    text = with_front_matter(content, values)
    assert text == f"---\n{wanted}---\nBody.".replace("\n", eol)
    assert canonical(front_matter(text)[0]) == canonical(values)


def test_values_of_other_front_matter_are_written_as_yaml() -> None:
    """TOML and JSON with a new value, and a text without front matter, get YAML."""
    for content in ('+++\ntitle = "NO"\n+++\nBody.', '{"title": "NO"}\nBody.'):
        values = {**front_matter(content)[0], "x": "10:30"}
        assert with_front_matter(content, values) == "---\ntitle: 'NO'\nx: '10:30'\n---\nBody."
    assert with_front_matter("Body.", {"a": 1}) == "---\na: 1\n---\n\nBody."
