"""Directives of site generators: no text of abstracts, headings and first passages."""

from __future__ import annotations

import re

import pytest

from vikingd.ingest.abstracts import derive_abstract, derive_title
from vikingd.ingest.directives import without_directives, without_templates
from vikingd.ingest.passages import split

PROSE = "This page tells how to cut words into pieces."


@pytest.mark.parametrize(
    "directive",
    [
        # MkDocs and its extensions.
        "{* ../../docs_src/first_steps/tutorial001_py39.py hl[3:4] *}",
        "{*../x.py*}",
        "::: fastapi.FastAPI",
        "::: fastapi.FastAPI\n    options:\n        members:\n            - version",
        ":::fastapi.FastAPI",
        "[TOC]",
        "[[toc]]",
        "[[_TOC_]]",
        "{:toc}",
        "* TOC\n{:toc}",
        "{: .no_toc #anchor }",
        "{ .annotate }",
        "{ #anchor .class }",
        '--8<-- "docs/intro.md"',
        "--8<--\ndocs/intro.md\ndocs/more.md\n--8<--",
        '!!! note ""',
        "/// tip\n///",
        "/// details | Title of the tip for nobody here\n    type: note\n    open: True\n///",
        # MDX.
        "import Tabs from '@theme/Tabs';",
        'import {Tabs, TabItem} from "@theme/Tabs"',
        "import * as React from 'react'\nimport Tabs from '@theme/Tabs'",
        "import {\n  Tabs,\n  TabItem,\n} from '@theme/Tabs';",
        "import './styles.css';",
        "import Intro, {Other} from './_intro.mdx';",
        "export const meta = { title: 'A very long title of the whole page, and more' };",
        "export const toc = [\n  { value: 'One' },\n\n  { value: 'Two' },\n];",
        "export default ({ children }) => <Layout>{children}</Layout>",
        "export * from './other';",
        "{/* a comment of MDX with many words, that no reader ever sees */}",
        "{/* a comment of MDX\n\nover several lines\n*/}",
        "<Tabs>\n<TabItem value='a'>\n</TabItem>\n</Tabs>",
        "<Tabs groupId='os' values={[{label: 'A', value: 'a'}, {label: 'B > C', value: 'b'}]} />",
        "<Tabs\n  default=\"js\"\n  values={[\n    {label: 'JS'},\n\n  ]}>\n</Tabs>",
        "<Card title=\"A\" href={`/docs/${version}/x`} icon={<Icon name='x' />} />",
        "<Foo.Bar baz={1 > 2} />",
        # HTML.
        "<!-- prettier-ignore-start with many words that no reader ever sees -->",
        "<!-- a comment with <b>tags</b> and > signs that no reader ever sees -->",
        "<!--\nmultiple lines\n\nof a comment that no reader ever sees\n-->",
        '<a name="x"></a>',
        '<p align="center">\n  <img src="x.png" alt="The logo of the whole project">\n</p>',
        # Badges.
        "[![Build status of the main branch of it](https://a.b/x.svg)](https://a.b/y)",
        "[![A](https://a.b/x.svg)](https://a.b/y) [![B](https://a.b/x.svg)](https://a.b/y)\n"
        "[![C](https://a.b/x.svg)](https://a.b/y)",
        "![Build status of the main branch of it](https://img.shields.io/x.svg)",
        "[![Build status of the main branch of it][badge]][url]",
        '<a href="https://a.b"><img src="https://a.b/x.svg" alt="Build status of the main"></a>',
        # Jekyll, Liquid, Nunjucks, Hexo, Hugo.
        "{% include toc.html with many words that no reader ever sees %}",
        "{% include figure.html\n   src='x.png'\n   caption='With words that no reader sees' %}",
        "{%- assign x = 'many words that no reader ever sees' -%}",
        "{% comment %}\nSome words that no reader of this page ever sees.\n{% endcomment %}",
        "{# a comment of Jinja with many words that no reader ever sees #}",
        "{{ site.data.things | where: 'a', 'b' | map: 'some more words here' }}",
        '{{< figure src="x.png" caption="Words of a caption that are not prose here" >}}',
        "{{< toc >}}",
        '{{% children depth=2 style="some words that no reader ever sees" %}}',
        "{{</* comment of some more words than eight tokens */>}}",
        # VitePress, Docusaurus, Obsidian.
        "<<< @/snippets/a_long_name_of_a_snippet_that_is_included.js{2,4}",
        ":::\n",
        "::::",
        "%% a comment of Obsidian with many words that no reader ever sees %%",
        "%%\na comment of Obsidian\n\nwith many words that no reader ever sees\n%%",
    ],
)
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_a_directive_is_no_text(directive: str, eol: str) -> None:
    """Neither the abstract, the title nor the first passage begins with a directive."""
    content = f"{directive}\n\n# Title\n\n{directive}\n\n{PROSE}\n".replace("\n", eol)
    assert derive_title(content, "a.md") == "Title"
    assert derive_abstract(content, "a.md") == PROSE
    passages = split(content, "a.md")
    assert [(p.section, content[p.start : p.end]) for p in passages] == [("Title", PROSE)]


@pytest.mark.parametrize(
    ("source", "abstract"),
    [
        (f":::note\n\n{PROSE}\n\n:::", PROSE),
        (f":::note\n{PROSE}\n:::", PROSE),
        (f":::tip[A title]\n{PROSE}\n:::", PROSE),
        (f"::: warning Mind this\n{PROSE}\n:::", PROSE),
        (f"::::info\n:::note\n{PROSE}\n:::\n::::", PROSE),
        (f"/// tip\n\n{PROSE}\n\n///", PROSE),
        (f"/// note | Title\n{PROSE}\n///", PROSE),
        (f"!!! note\n    {PROSE}", PROSE),
        (f'!!! note "A title"\n\n    {PROSE}', PROSE),
        (f"??? question\n\n    {PROSE}", PROSE),
        (f"???+ tip inline end\n    {PROSE}", PROSE),
        (f"!!! note\n\n    !!! tip\n\n        {PROSE}", PROSE),
        (f'=== "Tab"\n\n    {PROSE}', PROSE),
        (f"{{{{< notice tip >}}}}\n{PROSE}\n{{{{< /notice >}}}}", PROSE),
        (f"{{{{% notice tip %}}}}\n\n{PROSE}\n\n{{{{% /notice %}}}}", PROSE),
        (f"{{% raw %}}\n{PROSE}\n{{% endraw %}}", PROSE),
        (f"{{% note %}}{PROSE}{{% endnote %}}", PROSE),
        (f"<Note>\n{PROSE}\n</Note>", PROSE),
        (f"<Note>\n\n{PROSE}\n\n</Note>", PROSE),
        (f"<Note type='x' on={{true}}>\n  {PROSE}\n</Note>", PROSE),
        (f"<Tabs>\n  <TabItem value='a'>\n\n  {PROSE}\n\n  </TabItem>\n</Tabs>", PROSE),
        (f"<!-- a comment --> {PROSE}", PROSE),
        (f"<!-- a comment -->\n{PROSE}", PROSE),
        (f"{{/* a comment */}}\n{PROSE}", PROSE),
        (f"[![A](x.svg)](y)\n{PROSE}", PROSE),
        (f"[![A](x.svg)](y) {PROSE}", PROSE),
        (
            "Version {{ site.version }} of the page tells how words are cut.",
            "Version of the page tells how words are cut.",
        ),
        (
            'See {{< ref "page.md" >}} how words are cut into their pieces.',
            "See how words are cut into their pieces.",
        ),
        (
            "{{ site.name }} tells how words are cut into their pieces.",
            "tells how words are cut into their pieces.",
        ),
        (
            "In a template {{date}} and {{ title }} are replaced by their values.",
            "In a template {{date}} and {{ title }} are replaced by their values.",
        ),
        (
            "{{date}} is replaced by the date of the day on which it is used.",
            "{{date}} is replaced by the date of the day on which it is used.",
        ),
        (
            "See [the page]({{ site.url | relative }}) of words that are cut into pieces.",
            "See the page of words that are cut into pieces.",
        ),
        (f'[a]: https://a.b/c\n[d e]: <https://f.g> "A title of the page"\n\n{PROSE}', PROSE),
        (f"[a]: https://a.b/c\n{PROSE}", PROSE),
        (
            "[^1]: A footnote is a text that a reader of the page will see.",
            "[^1]: A footnote is a text that a reader of the page will see.",
        ),
        (f"{{{{< code-toggle config=x />}}}}\n\n{PROSE}", PROSE),
        (
            "{{< code-toggle >}}\ntitle = 'A title of a page with words'\n"
            f"{{{{< /code-toggle >}}}}\n\n{PROSE}",
            PROSE,
        ),
        (
            "Write `{{ name }}` and `{% raw %}` where the name has to stand.",
            "Write {{ name }} and {% raw %} where the name has to stand.",
        ),
        ("> [!NOTE]\n> Words.\n\n" + PROSE, PROSE),
        (
            "> [!info]- Mind\n> Only words that are quoted stand on this page.",
            "Mind Only words that are quoted stand on this page.",
        ),
        (
            "The `<!-- more -->` comment of a post ends its excerpt on a page.",
            "The <!-- more --> comment of a post ends its excerpt on a page.",
        ),
        # No directives.
        ("import the module first, and export what you need from 'here' later.", "="),
        ("export of goods is the sale of goods to a buyer in another land.", "="),
        ("100 % {of} a set in braces is what this page tells a reader of.", "="),
        (
            "!!! That is what people write when they are excited about this.",
            "!!! That is what people write when they are excited about this.",
        ),
        ("{a, b} is a set in braces, which this page tells a reader of.", "="),
        ("枣红色的皮，\n下肉的时候要小心一些才好。", "枣红色的皮，下肉的时候要小心一些才好。"),
    ],
)
def test_text_within_and_beside_directives_is_text(source: str, abstract: str) -> None:
    """The text of an admonition, a tab, a component or a block is text, and so is the rest."""
    abstract = source if abstract == "=" else abstract
    assert derive_abstract(f"# T\n\n{source}\n", "a.md") == abstract
    assert derive_abstract(f"{source}\n", "a.md") == abstract


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("# Title { #anchor }", "Title"),
        ("# Title {#anchor .class}", "Title"),
        ("# Title {#anchor .class key=value}", "Title"),
        ("# Title { .class }", "Title"),
        ("# Title {: #anchor }", "Title"),
        ("# Title { data-toc-label='Short' }", "Title"),
        ("# Title {/* #anchor */}", "Title"),
        ("# Title #", "Title"),
        ("# Title ##", "Title"),
        ("# Title ## {#anchor}", "Title"),
        ("# Title # { #anchor }", "Title"),
        ("Title\n=====", "Title"),
        ("Title {#anchor}\n===", "Title"),
        ("Two\nlines\n===", "Two lines"),
        ("两行\n标题\n===", "两行标题"),
        ("# Title <!-- comment -->", "Title"),
        ('# <a name="x"></a>Title', "Title"),
        ("# Title [![Badge](x.svg)](y)", "Title"),
        ("# C#", "C#"),
        ("# F# and C#", "F# and C#"),
        ("# Use {braces}", "Use {braces}"),
        ("# Set {a = 1}", "Set {a = 1}"),
        ("# The `{#anchor}` syntax", "The {#anchor} syntax"),
        ("# **Bold** *title* `code`", "Bold title code"),
        ("# {{ page.title }} Title", "Title"),
        ("# A \\# B", "A # B"),
        ("# [Link](x) title", "Link title"),
        ("  # Indented", "Indented"),
        ("# Title   ", "Title"),
    ],
)
def test_an_anchor_is_no_part_of_a_heading(heading: str, title: str) -> None:
    """A heading ends before its anchor, its classes and its closing signs."""
    content = f"{heading}\n\n{PROSE}\n"
    assert derive_title(content, "a.md") == title
    assert [p.section for p in split(content, "a.md")] == [title]


@pytest.mark.parametrize(
    "code",
    [
        "```\n{}\n```",
        "~~~ jinja\n{}\n~~~",
        "````\n```\n{}\n````",
        "    {}",
        "- item\n\n      {}",
    ],
)
@pytest.mark.parametrize(
    "line",
    ["{% if x %}", "import A from 'a'", "::: x.y", "<Tabs>", "<!-- x", "!!! note", "%% x %%"],
)
def test_code_stays_as_it_is(code: str, line: str) -> None:
    """Directives in code are code."""
    text = code.format(line)
    assert without_directives(text) == text
    content = f"# T\n\n{text}\n\n{PROSE}\n"
    assert derive_abstract(content, "a.md") == PROSE
    passages = split(content, "a.md")
    assert content[passages[0].start : passages[-1].end].endswith(PROSE)
    assert line in content[passages[0].start : passages[-1].end]


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("{% highlight js %}", "{% endhighlight %}"),
        ("{%- highlight python linenos -%}", "{%- endhighlight -%}"),
        ("{% codeblock lang:js %}", "{% endcodeblock %}"),
        ('{{< highlight go "linenos=table" >}}', "{{< /highlight >}}"),
        ("{{< mermaid >}}", "{{< /mermaid >}}"),
    ],
)
def test_a_template_of_code_holds_code(begin: str, end: str) -> None:
    """Code between two templates is code: part of a passage, and of no abstract."""
    content = f"{begin}\n# many words that are no heading\n{end}\n\n# T\n\n{PROSE}\n"
    assert derive_title(content, "a.md") == "T"
    assert derive_abstract(content, "a.md") == PROSE
    first = split(content, "a.md")[0]
    assert "many words" in content[first.start : first.end]


def test_lines_keep_their_number() -> None:
    """Directives become empty lines, whatever stands around them."""
    text = "\r\n".join(["<!-- a", "b -->", "x", "{%", "%}", "<A", "b={", "}>", "export {", "", "}"])
    for part in range(len(text) + 1):
        before, behind = text[:part], without_directives(text[:part])
        assert len(re.findall(r"\r\n?|\n", behind)) == len(re.findall(r"\r\n?|\n", before))


def test_a_page_of_directives_alone_is_still_found() -> None:
    """A page without text has its title, and the directives as its passage."""
    content = "# FastAPI class\n\n::: fastapi.FastAPI\n    options:\n        x: 1\n"
    assert derive_title(content, "a.md") == "FastAPI class"
    assert split(content, "a.md")
    assert split("::: fastapi.FastAPI\n", "a.md")


def test_memories_keep_their_directives() -> None:
    """A memory file is no page of a site: each of its paragraphs is a memory."""
    content = "- one\n\n::: two\n\n{% three %}\n"
    assert [content[p.start : p.end] for p in split(content, "a.md", entries=True)] == [
        "one",
        "::: two\n\n{% three %}",
    ]


ASIDE = "This note stands beside the text, as an aside."


@pytest.mark.parametrize(
    "aside",
    [
        f"/// tip\n\n{ASIDE}\n\n///",
        f"/// note | Title\n{ASIDE}\n///",
        f"//// tab | Python\n\n/// tip\n\n{ASIDE}\n\n///\n\n////",
        f":::tip\n{ASIDE}\n:::",
        f"::: warning Title\n\n{ASIDE}\n\n:::",
        f":::note[Title]\n{ASIDE}\n:::",
        f"!!! note\n    {ASIDE}",
        f"!!! note\n\n    {ASIDE}",
        f'!!! note "Title"\n    {ASIDE}',
        f'!!! note inline end "A "quoted" title"\n    {ASIDE}',
        f'!!!note "Title"\n\t{ASIDE}',
        f"!!! note 'Title'\n    {ASIDE}",
        f"!!! note: Title, without quotes\n    {ASIDE}",
        f'!!! note "Title" {{ .class }}\n    {ASIDE}',
        f'!!! note "Title"\n  {ASIDE}',
        f"??? note\n    {ASIDE}",
        f'???+ tip "Title"\n\n    {ASIDE}',
        f'=== "Tab"\n\n    {ASIDE}',
        f"=== 'Tab'\n\n    {ASIDE}",
        f'===! "Tab"\n    {ASIDE}',
        f'=== "Tab"\n\n    !!! note\n        {ASIDE}',
        f"> {ASIDE}",
        f"<Note>\n{ASIDE}\n</Note>",
        f"<CourseLink href='x'>\n  {ASIDE}\n</CourseLink>",
        f"<Callout type='x'>\n\n{ASIDE}\n\n</Callout>",
        f"<Warning\n  a={{b}}>\n  {ASIDE}\n</Warning>",
    ],
)
def test_an_admonition_is_an_abstract_only_without_other_prose(aside: str) -> None:
    """The text of an admonition is an abstract if the page has no other prose."""
    assert derive_abstract(f"# T\n\n{aside}\n\n{PROSE}\n", "a.md") == PROSE
    assert derive_abstract(f"# T\n\n{aside}\n", "a.md") == ASIDE


@pytest.mark.parametrize(
    "line",
    ['!!! note "Title"', "!!! note", '??? note "Title"', "???+ note", '=== "Tab"', '===+ "Tab"'],
)
@pytest.mark.parametrize("prose", [PROSE, f"**{PROSE}**", f"[{PROSE}](a.md)", f"_{PROSE}_"])
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_prose_behind_an_admonition_is_no_part_of_it(line: str, prose: str, eol: str) -> None:
    """An unindented line ends an admonition or a tab, without an empty line too."""
    behind = f"{line}\n    {ASIDE}\n    {ASIDE}\n{prose}\n"
    for source in (behind, f"# T\n\n{behind}", behind + behind, f"=== 'a'\n\n{behind}"):
        source = source.replace("\n", eol)
        assert derive_abstract(source, "a.md") == PROSE
        texts = [source[p.start : p.end] for p in split(source * 8, "a.md")]
        assert not any(text.startswith(line) for text in texts)
    assert derive_abstract(f"{line}\n{prose}\n".replace("\n", eol), "a.md") == PROSE


@pytest.mark.parametrize("below", ["## Next\n\nText.", "- an item", "```\ncode\n```", "> quoted"])
def test_a_block_behind_an_admonition_is_one(below: str) -> None:
    """Headings, lists and code that follow an admonition at once are read as such."""
    source = f"# T\n\n!!! note\n    {ASIDE}\n{below}\n\n{PROSE}\n"
    assert derive_abstract(source, "a.md") == PROSE
    if below.startswith("##"):
        assert "T > Next" in {p.section for p in split(source + PROSE * 20, "a.md")}


def test_the_names_of_modules_are_found() -> None:
    """A name of a module below the beginning stays in the passages, and no options do."""
    content = (
        f"# Security\n\n::: a.first\n\n{PROSE}\n\n## Keys\n\n::: a.b.KeyCookie\n"
        "    options:\n        x: 1\n"
    )
    passages = split(content, "a.md")
    text = content[passages[0].start : passages[-1].end]
    assert text.startswith(PROSE)
    assert text.endswith("::: a.b.KeyCookie")


@pytest.mark.parametrize(
    "text",
    [
        "|a|\n" + " " * 60_000 + "x\n",
        '<a id="">' + " " * 60_000 + "x\n",
        ":" * 60_000 + "\u2028\n",
        "!!! note" + " " * 60_000,
        "/// a" + " " * 60_000,
    ],
    ids=range(5),
)
def test_one_hostile_line_takes_linear_time(text: str) -> None:
    """Patterns whose parts could take the same signs took minutes for such a line."""
    without_directives(text)
    without_templates(text)
