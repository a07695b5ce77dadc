"""HTML as its readers see it: tables, marks above and below the line, ruby, and hidden text."""

from __future__ import annotations

import time

import pytest

from vikingd.ingest.formats.document import Failed
from vikingd.ingest.formats.hypertext import markdown, parse
from vikingd.ingest.formats.style_rules import rules_of

MARKS = [
    ("10<sup>5</sup> cells", "10^5 cells"),
    ("3 cm<sup>2</sup>", "3 cm^2"),
    ("10<sup>−3</sup> mol", "10^-3 mol"),
    ("5 mol<sup>-1</sup>", "5 mol^-1"),
    ("x<sup>n+1</sup>", "x^(n+1)"),
    ("2<sup>n</sup>", "2^n"),
    ("(a+b)<sup>2</sup>", "(a+b)^2"),
    ("E = mc<sup>2</sup>", "E = mc^2"),
    ("sin<sup>2</sup> x", "sin^2 x"),
    ("see Lee<sup>12</sup>.", "see Lee [12]."),
    ("Berlin.<sup>[1]</sup>", "Berlin. [1]"),
    ("word<sup>1,2</sup>", "word [1,2]"),
    ("word<sup><a href='#f1'>a</a></sup>", "word [a]"),
    ("in 2019<sup class='footnote'>7</sup>", "in 2019 [7]"),
    ("说明<sup>3</sup>", "说明 [3]"),
    ("1<sup>st</sup> of 3<sup>ème</sup>", "1st of 3ème"),
    ("M<sup>me</sup> M<sup>c</sup>Donald", "Mme McDonald"),
    ("Acme<sup>TM</sup>", "Acme™"),
    ("<sup>14</sup>C", "14C"),
    ("H<sub>2</sub>O and CO<sub>2</sub>", "H2O and CO2"),
    ("C<sub>6</sub>H<sub>12</sub>O<sub>6</sub>", "C6H12O6"),
    ("Ca(OH)<sub>2</sub>", "Ca(OH)2"),
    ("SO<sub>4</sub><sup>2−</sup>", "SO4^2-"),
    ("Ca<sup>2+</sup>", "Ca^2+"),
    ("x<sub>i</sub><sup>2</sup>", "x_i^2"),
    ("a<sub>1</sub> v<sub>max</sub> log<sub>2</sub> n", "a_1 v_max log_2 n"),
    ("<math><msup><mi>x</mi><mn>2</mn></msup></math>", "x^2"),
    ("<math><msqrt><mi>a</mi><mo>+</mo><mi>b</mi></msqrt></math>", "√(a+b)"),
    ("<math><munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover><mi>x</mi></math>", "∑_i^nx"),
    ("<math alttext='{\\displaystyle E=mc^{2}}'></math>", "$E=mc^{2}$"),
    # Formulas of Wikipedia and MathJax are hidden beside the picture that shows them.
    (
        "<span><span style='display:none'><math><semantics><mi>A</mi>"
        "<annotation encoding='application/x-tex'>{\\displaystyle A}</annotation></semantics>"
        "</math></span><img aria-hidden=true alt='{\\displaystyle A}'></span> holds",
        "$A$ holds",
    ),
    (
        "if <mjx-math aria-hidden=true><mjx-mi>S</mjx-mi></mjx-math>"
        "<mjx-mml style='clip:rect(1px,1px,1px,1px);position:absolute'><math><mi>a</mi></math>"
        "</mjx-mml>",
        "if a",
    ),
    ("<ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>", "漢字(かんじ)"),
    ("<ruby>漢<rt>かん</rt>字<rt>じ</rt></ruby>を", "漢字（かんじ）を"),
    ("<ruby>東<rt>とう</rt></ruby><ruby>京<rt>きょう</rt></ruby>", "東京（とうきょう）"),
    ("<ruby>汉<rt>hàn</rt>字<rt>zì</rt></ruby>", "汉字（hàn zì）"),
    ("枣红色，\n  下肉", "枣红色，下肉"),
    ("one\nline", "one\nline"),
]
HEAD = "<tr><th>A</th><th>B</th><th>C</th></tr>"
TABLES = [
    (
        f"{HEAD}<tr><td rowspan=2>EU</td><td>Cable</td><td>1</td></tr>"
        "<tr><td>Hub</td><td>7</td></tr>",
        ["A B C", "EU Cable 1", "EU Hub 7"],
    ),
    (
        f"{HEAD}<tr><td>1</td><td rowspan=0>x</td><td>2</td></tr><tr><td>3</td><td>4</td></tr>",
        ["A B C", "1 x 2", "3 x 4"],
    ),
    (
        "<tr><th rowspan=2>N</th><th colspan=2>2023</th></tr><tr><th>Q1</th><th>Q2</th></tr>"
        "<tr><td>x</td><td>5</td><td>6</td></tr>",
        ["N 2023 2023", "N Q1 Q2", "x 5 6"],
    ),
    (f"{HEAD}<tr><td colspan=2>both</td><td>c</td></tr>", ["A B C", "both - c"]),
    (f"{HEAD}<tr><td rowspan=1000000>a</td><td>b</td></tr><tr><td>c</td></tr>", None),
    (f"{HEAD}<tr><td colspan=999999999>a</td></tr>", ["A B C", "a"]),
    (
        "<thead><tr><th>A</th><th>B</th></tr></thead><tbody><tr><td rowspan=9>a</td><td>b</td></tr>"
        "</tbody><tbody><tr><td>c</td><td>d</td></tr></tbody>",
        ["A B", "a b", "c d"],
    ),
    (
        "<tr><th>K</th><th>V</th></tr><tr><td>x<table><tr><td>in</td><td>2</td></tr><tr><td>3</td>"
        "</tr></table></td><td>y</td></tr>",
        ["K V", "x-in,-2;-3 y"],
    ),
]
HIDDEN = [
    '<p style="display:none">S</p>',
    '<p style="DISPLAY : none !important">S</p>',
    '<p style="visibility: hidden">S</p>',
    "<p><span style='display:none'><math><mtext>S</mtext></math></span></p>",
    "<p><span style='display:none'>S <math><mi>x</mi></math></span><img aria-hidden=true></p>",
    '<p style="opacity:0">S</p>',
    '<p style="opacity:0.00">S</p>',
    '<p style="font-size:0px">S</p>',
    '<p style="font-size:1px">S</p>',
    '<p style="font:0/0 a">S</p>',
    '<p style="position:absolute;left:-9999px">S</p>',
    '<p style="position:fixed;top:-100em">S</p>',
    '<p style="text-indent:-9999px">S</p>',
    '<p style="transform:scale(0)">S</p>',
    '<p style="height:0;overflow:hidden">S</p>',
    '<p style="position:absolute;clip:rect(0,0,0,0)">S</p>',
    '<p style="clip-path: inset(50%)">S</p>',
    '<p style="color:#fff">S</p>',
    '<p style="color:white;background:#FFFFFF">S</p>',
    '<p style="color:rgb(254,254,254);font-size:0">S</p>',
    '<p style="color:transparent">S</p>',
    '<div style="background:#000"><p style="color:#010101">S</p></div>',
    '<font color="white">S</font>',
    "<p hidden>S</p>",
    '<span aria-hidden="true">S</span>',
    "<template><p>S</p></template>",
    "<noscript>S</noscript>",
    "<noscript><!-- a --><script>S</script><svg><!-- b --><text>防\n波</text></svg></noscript>",
    "<style>.x{display:none}</style><p class='a x'>S</p>",
    "<style>#x{visibility:hidden}</style><p id=x>S</p>",
    "<style>b , i{opacity:0}</style><p><i>S</i></p>",
    "<style>.a .b > i{font-size:0}</style><div class=a><p class=b><i>S</i></p></div>",
    "<style>@media screen{.m{display:none}}</style><p class=m>S</p>",
    "<style>/* .x{} */ .x{display:block} .x.y{display:none}</style><p class='x y'>S</p>",
    "<style>[data-a=b]{display:none}</style><p data-a=b>S</p>",
    "<style>.x{display:none!important}</style><p class=x style='display:block'>S</p>",
    '<p style="display:/* a */none">S</p>',
    '<p style="d\\69splay:n\\6f ne">S</p>',
    '<p style="display:n\\00006f ne">S</p>',
    '<p style="display:\\6e\\6f\\6e\\65">S</p>',
    '<p style="display:none;display:block\\9">S</p>',
    "<style>.x{visibility:hidden;visibility:visible\\0/}</style><p class=x>S</p>",
    '<p style="color:#0000">S</p>',
    '<p style="color:#12345600">S</p>',
    '<p style="color:rgba(0,0,0,0)">S</p>',
    '<p style="color:rgb(0 0 0 / 0%)">S</p>',
    '<p style="color:hsla(0, 0%, 0%, .0)">S</p>',
    '<p style="filter:opacity(0)">S</p>',
    '<p style="filter:blur(1px) opacity(0%)">S</p>',
    '<span aria-hidden="TRUE">S</span>',
    "<style><!-- .x{display:none} --></style><p class=x>S</p>",
    "<style>@media all and (min-width:1px){.x{display:none}}</style><p class=x>S</p>",
    "<style>@media (max-width:99999px){.x{display:none}}</style><p class=x>S</p>",
    "<style>@media print, screen{.x{display:none}}</style><p class=x>S</p>",
    "<style>@supports (display:grid){.x{display:none}}</style><p class=x>S</p>",
    "<style>.a{color:red;.x{display:none}}</style><div class=a><p class=x>S</p></div>",
    "<style>.a{&.x{display:none}}</style><p class='a x'>S</p>",
    "<style>.x{@media screen{display:none}}</style><p class=x>S</p>",
    "<style>i{.y{color:red}} .x{display:none}</style><p class=x>S</p>",
    f"<style>.a{{{'.b' * 500},i{{.x{{display:none}}}}}}</style><p class=a><i><b class=x>S</b></i>",
    f"<style>{'.b,' * 99}.a{{.x{{display:none}}}}</style><div class=a><p class=x>S</p></div>",
    "<style>@media screen{@layer a{.a{.x{display:none}}}}</style><p class=a><b class=x>S</b></p>",
    "<style>@supports (margin:0 -1px){.x{display:none}}</style><p class=x>S</p>",
    "<style>@supports (width:calc(1px - 2px)){.x{display:none}}</style><p class=x>S</p>",
    '<p style="color:transparent;-webkit-text-stroke:0">S</p>',
    '<p style="color:transparent;-webkit-text-stroke:0px #333">S</p>',
    '<p style="color:transparent;-webkit-text-stroke-color:#333">S</p>',
    '<p style="color:transparent;-webkit-text-stroke:1px transparent">S</p>',
    '<p style="color:transparent;-webkit-text-fill-color:transparent">S</p>',
    '<p style="color:red;-webkit-text-fill-color:transparent">S</p>',
    '<p style="color:#fff;-webkit-text-fill-color:white">S</p>',
    '<p style="color:transparent;-webkit-text-stroke:1px">S</p>',
    '<p style="color:transparent;-webkit-text-stroke:thin currentcolor">S</p>',
    '<p style="color:transparent"><b style="-webkit-text-stroke:1px">S</b></p>',
    '<p style="color:transparent"><b style="-webkit-text-fill-color:#fff">S</b></p>',
    f"<style>{'@media screen{' * 50}.x{{display:none}}{'}' * 50}</style><p class=x>S</p>",
    f"<style>{'.a{' * 8}.x{{display:none}}{'}' * 8}</style>{'<div class=a>' * 8}<p class=x>S</p>",
    "<canvas>S</canvas>",
    "<video src=a.mp4>S</video>",
    "<datalist id=a><option>S</option></datalist>",
    "<noframes>S</noframes>",
]
SHOWN = [
    '<p style="display:block">S</p>',
    '<p style="opacity:0.5;color:#333">S</p>',
    '<p style="color:#fff;background:#000">S</p>',
    '<table><tr><td bgcolor="#000000"><font color="white">S</font></td></tr></table>',
    '<link rel="stylesheet" href="a.css"><p style="color:white">S</p>',
    '<p style="visibility:hidden"><b style="visibility:visible">S</b></p>',
    '<p style="font-size:0"><b style="font-size:12px">S</b></p>',
    '<p hidden="until-found">S</p>',
    "<details><summary>T</summary>S</details>",
    "<style>@media print{p{display:none}}</style><p>S</p>",
    "<style>p:hover{display:none}</style><p>S</p>",
    "<style>.x{display:none} .x.on{display:block}</style><p class='x on'>S</p>",
    "<style>.a > .b{display:none}</style><div class=a><i><b class=b>S</b></i></div>",
    "<style>body{visibility:hidden;opacity:0}</style><p>S</p>",
    "<style>.x{background:linear-gradient(red,blue)} b{color:#fff}</style><p class=x><b>S</b></p>",
    "<style>.x{display:none</style><p>S</p>",
    "<style>}}{{{</style><p>S</p>",
    '<div aria-hidden="true"><p>S is most of the page.</p></div>',
    '<p style="position:relative;left:-2px">S</p>',
    '<p style="height:0">S</p>',
    '<p style="color:#0001">S</p>',
    '<p style="color:#1230ff">S</p>',
    '<p style="color:rgba(0,0,0,.5)">S</p>',
    '<p style="color:rgba(0,0,0)">S</p>',
    '<p style="color:rgb(0 0 0 / 50%)">S</p>',
    '<p style="filter:opacity(0.5)">S</p>',
    '<p style="content:\\64isplay;/* display:none */">S</p>',
    '<p style="display:none\\9">S</p>',
    '<p style="display:none\\0">S</p>',
    '<p style="display:none\\20 ">S</p>',
    '<p style="display:none\\3000">S</p>',
    '<p style="display:none\\9 !important">S</p>',
    '<p style="display:none\\ ;color:red">S</p>',
    '<p style="content:a\\;display:none">S</p>',
    "<style>.x{content:'\\3b display:none'}</style><p class=x>S</p>",
    "<style>.x{background:url('a\\20 b.png');color:#fff}</style><p class=x>S</p>",
    "<style>.x{display:none\\9;visibility:hidden\\0/}</style><p class=x>S</p>",
    "<style>@media (max-width:600px){.x{display:none}}</style><p class=x>S</p>",
    "<style>@media (min-width:768px){.x{display:none}}</style><p class=x>S</p>",
    "<style>@media (prefers-color-scheme:dark){.x{display:none}}</style><p class=x>S</p>",
    "<style>@media not screen{.x{display:none}}</style><p class=x>S</p>",
    "<style>@media not all{.x{display:none}}</style><p class=x>S</p>",
    "<style>@supports not (display:grid){.x{display:none}}</style><p class=x>S</p>",
    "<style>@supports (-ms-ime-align:auto){.x{display:none}}</style><p class=x>S</p>",
    "<style>.a{.x{display:none}}</style><p class=x>S</p>",
    "<style>.a{&:hover{display:none}}</style><p class=a>S</p>",
    "<style>.x{color:red;.y{display:none}}</style><p class=x>S</p>",
    f"<style>.a{{{'.b' * 500}{{.x{{display:none}}}}}}</style><p class=x>S</p>",
    f"<style>.a{{{'.b' * 500}{{@media screen{{.x{{display:none}}}}}}}}</style><p class=x>S</p>",
    "<style>.a{@media print{.x{display:none}}}</style><p class='a x'>S</p>",
    '<p style="color:transparent;-webkit-text-stroke:1px #333">S</p>',
    '<p style="color:#0000;-webkit-text-stroke-width:1px;-webkit-text-stroke-color:red">S</p>',
    '<p style="color:transparent;-webkit-text-fill-color:#333">S</p>',
    '<p style="color:#fff;-webkit-text-fill-color:#333">S</p>',
    '<p style="color:#fff;-webkit-text-stroke:1px black">S</p>',
    '<div style="-webkit-text-stroke:1px #333"><p style="color:transparent">S</p></div>',
    '<p style="color:transparent"><b style="-webkit-text-fill-color:red">S</b></p>',
    "<style>.x{color:#0000;-webkit-text-stroke:1px rgb(9, 9, 9)}</style><p class=x>S</p>",
    '<p style="background:#000;color:#0000;-webkit-text-fill-color:#fff">S</p>',
    "<style>@supports (display:-ms-grid){.x{display:none}}</style><p class=x>S</p>",
    "<style>@supports (position:sticky) and (width:-moz-fit-content){p{display:none}}</style><p>S",
    "<style>@supports (display : -webkit-box){.x{display:none}}</style><p class=x>S</p>",
    "<style>@keyframes f{from{opacity:0}}</style><p class=f>S</p>",
    "<div><template shadowrootmode=open><p>S</p></template></div>",
]


def text_of(html: str) -> str:
    """Return a page as Markdown."""
    return markdown(parse(html)[0])


@pytest.mark.parametrize(("html", "text"), MARKS)
def test_marks_are_written_as_people_type_them(html: str, text: str) -> None:
    """Exponents, indices, footnote marks and readings neither join words nor change numbers."""
    assert text_of(f"<p>{html}</p>") == text


@pytest.mark.parametrize(("rows", "wanted"), TABLES)
def test_cells_stay_in_their_columns(rows: str, wanted: list[str] | None) -> None:
    """A cell over several rows stands in each of them, and each row has a cell in each column."""
    lines = text_of(f"<table>{rows}</table>").split("\n")
    del lines[1]  # below the header
    cells = [
        [cell.strip().replace(" ", "-") or "-" for cell in line.split("|")[1:-1]] for line in lines
    ]
    assert [" ".join(row) for row in cells] == (wanted or ["A B C", "a b", "a c"])


def test_the_text_of_a_drawing_is_read() -> None:
    """A drawing in a page has its labels; what it only defines is left out."""
    svg = (
        "<p>Level:</p><svg><defs><text>no</text></defs><title>icon</title>"
        "<text><tspan y='1'>Haute</tspan><tspan y='1'> mer</tspan><tspan y='9'>à 7</tspan></text>"
        "<foreignObject><p>m</p></foreignObject></svg><svg><path/></svg>"
    )
    assert markdown(parse(svg)[0]) == "Level:\n\nHaute mer à 7 m"


def test_blocks_keep_their_form() -> None:
    """Layout tables, captions, definitions and folded parts are read one after the other."""
    inner = "<table><tr><td>1</td><td>2</td></tr></table>"
    page = f"<table><tr><td><h2>Menu</h2><p>one</p></td><td>{inner}</td></tr></table>"
    assert text_of(page) == "## Menu\n\none\n\n| 1 | 2 |\n| --- | --- |"
    assert text_of("<table><caption>Fees</caption><tr><td>1</td></tr></table>").startswith(
        "Fees\n\n|"
    )
    assert text_of("<dl><dt>Reef</dt><dd>A ridge</dd></dl>") == "Reef\n:   A ridge"
    assert text_of("<dl><dt>Reef<dd>A ridge<dd>A bank<dt>Key<dd>An isle</dl>") == (
        "Reef\n:   A ridge\n:   A bank\n\nKey\n:   An isle"
    )
    assert text_of("<details><summary>More</summary>text</details>") == "More\n\ntext"
    foot = "<tfoot><tr><td>9</td></tr></tfoot>"
    rows = f"<thead><tr><th>Sum</th></tr></thead>{foot}<tbody><tr><td>4</td></tr></tbody>"
    assert text_of(f"<table>{rows}</table>") == "| Sum |\n| --- |\n| 4 |\n| 9 |"


ITEMS = "<li>x</li><li>y</li>"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (f"<ol>{ITEMS}</ol>", "1. x\n2. y"),
        (f"<ol start=5>{ITEMS}</ol>", "5. x\n6. y"),
        (f"<ol type=1>{ITEMS}</ol>", "1. x\n2. y"),
        ("<ol><li>x</li><li value=9>y</li><li>z</li></ol>", "1. x\n\n9. y\n10. z"),
        ("<ol><li value=0>x</li><li value=''>y</li></ol>", "0. x\n1. y"),
        (f"<ol type=a start=3>{ITEMS}</ol>", "- c. x\n- d. y"),
        (f"<ol type=I>{ITEMS}</ol>", "- I. x\n- II. y"),
        (f"<ol reversed>{ITEMS}</ol>", "2. x\n\n1. y"),
        (f"<ol type=a><li>o<ol>{ITEMS}</ol></li></ol>", "- a. o\n  1. x\n  2. y"),
        ("<ul type=a><li value=4>x</li></ul>", "- x"),
        ("<ol type=a></ol><p>x</p>", "x"),
    ],
)
def test_items_keep_their_numbers(html: str, text: str) -> None:
    """An item has the number or letter that a browser shows."""
    assert text_of(html) == text


@pytest.mark.parametrize("html", HIDDEN)
def test_hidden_text_is_left_out(html: str) -> None:
    """Text that a page does not show is no part of it, and is counted."""
    soup, hidden = parse(f"<html><body><p>Shown and read.</p>{html}</body></html>")
    assert markdown(soup) == "Shown and read."
    assert hidden == ("<template" not in html and "<noscript" not in html)


@pytest.mark.parametrize("html", SHOWN)
def test_shown_text_is_kept(html: str) -> None:
    """A style that hides nothing at rest on a screen loses no text."""
    soup, hidden = parse(f"<html><head></head><body>{html}</body></html>")
    assert "S" in markdown(soup)
    assert hidden == 0


FRAMES = '<frameset cols="20%,*"><frame src="a.html"><frame src="b.html">{}</frameset>'


@pytest.mark.parametrize(
    "html",
    [
        f"<html><head><title>T</title></head>{FRAMES.format('<noframes>berth</noframes>')}</html>",
        FRAMES.format("<noframes><body><h1>berth</h1><p>seven</p></body></noframes>"),
        FRAMES.format("<noframes><p>berth</p></noframes><noframes>seven</noframes>"),
        "<script>var a = 1</script><body><noframes><p>berth</p></noframes></body>",
    ],
)
def test_a_page_of_frames_keeps_the_text_for_programs_without_frames(html: str) -> None:
    """A page without other text has the text that stands in for its frames, as markup."""
    soup, hidden = parse(html)
    if soup.head:
        soup.head.decompose()
    text = markdown(soup)
    assert text.replace("# ", "").split() == ["berth", "seven"][: 1 + ("seven" in html)]
    assert hidden == 0


@pytest.mark.parametrize(
    ("html", "text", "count"),
    [
        ("<p>berth</p><noframes><p>secret</p></noframes>", "berth", 1),
        ("<noframes><p>secret</p></noframes><img alt=berth>", "berth", 1),
        ("<noframes><p style='display:none'>secret</p>berth</noframes>", "berth", 1),
        ("<noframes><p hidden>secret</p>berth</noframes>", "berth", 1),
        ("<p style='display:none'>gone</p><noframes>berth</noframes>", "berth", 1),
        ("<noframes>berth<script>secret</script><!-- secret --></noframes>", "berth", 0),
        ("<video>secret</video><noframes>berth</noframes>", "berth", 1),
    ],
)
def test_the_text_for_programs_without_frames_is_no_way_around(
    html: str, text: str, count: int
) -> None:
    """It is left out beside other text, and what it hides itself stays hidden."""
    soup, hidden = parse(f"<html><head></head><body>{html}</body></html>")
    assert markdown(soup) == text
    assert hidden == count


def test_spans_and_styles_have_limits() -> None:
    """Cells that span millions of others are refused; style sheets take linear time."""
    row = "<tr>" + "<td rowspan=65534>a</td>" * 900 + "</tr>"
    with pytest.raises(Failed, match="span more than 500,000 others"):
        text_of(f"<table>{row}{'<tr></tr>' * 1_000}</table>")
    started = time.process_time()
    wide = "<tr><td colspan=1000 rowspan=1000000>a</td></tr>" * 1_000
    with pytest.raises(Failed, match="span more than 500,000 others"):
        text_of(f"<table>{wide}</table>")
    assert text_of(f"<table>{'<tr><td colspan=1000>a</td></tr>' * 300}</table>")
    css = ".a .b{display:none}" * 500 + "/*" + "{" * 50_000
    assert text_of(f"<style>{css}</style>" + "<div class=b>x</div>" * 500)
    nested = (
        ".a{" + f"{'& ' * 20}{{" * 16 + "display:none" + "}" * 17
    )  # a selector of 20^16 letters
    assert text_of(f"<style>{nested}</style><p>b") == "b"
    wide = f"{','.join(['.a'] * 9_000)}{{{','.join(['.b'] * 9_000)}{{display:none}}}}"
    long = f"{','.join(['.a'] * 9_000)}{{{','.join(['&' * 500] * 1_000)}{{display:none}}}}"
    assert text_of(f"<style>{wide}{long}</style><p>b") == "b"
    assert text_of("<p style='visibility:hidden'>" * 100 + "a" + "<p>b")
    assert time.process_time() - started < 30


def test_a_page_has_a_bounded_number_of_rules() -> None:
    """A megabyte of nested rules states millions of selectors."""
    outer = ",".join(f".a{i}" for i in range(100))
    css = f"{outer}{{{''.join(f'.b{i}{{color:red}}' for i in range(9_000))}}}"
    assert sum(1 for _ in rules_of(css)) == 50_000
