"""HTML that is source: templates and parts of applications keep their markup."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vikingd.domain.contexts import Context, Draft
from vikingd.ingest.abstracts import derive_abstract, derive_title
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.file_syntax import Syntax, syntax_of
from vikingd.ingest.files import file_text, read_tree
from vikingd.ingest.html_templates import holds_source, is_source
from vikingd.ingest.passages import split

PROSE = "This page tells readers how to tie a rope to a post, and what to do if it slips. "
PAGE = "<!doctype html><html><head><title>Ropes</title></head><body>{}</body></html>"
SCRIPT = f"<script>{'let rope = tie(post);' * 40}</script>"

SOURCES = {
    "jinja": '{% extends "base.html" %}\n{% block body %}\n<h1>Log In</h1>\n{% endblock %}\n',
    "jinja in a page": PAGE.format("<h1>{% block title %}{% endblock %}</h1>{{ body }}"),
    "jinja and prose": "{% extends 'base.html' %}\n{% block body %}\n<p>"
    + PROSE * 8
    + "</p>\n{% endblock %}\n",
    "liquid": "<ul>\n{% for post in posts %}\n<li>{{ post.title }}</li>\n{% endfor %}\n</ul>\n",
    "jekyll": f"---\nlayout: default\ntitle: Ropes\n---\n<div><h2>Knots</h2><p>{PROSE}</p></div>\n",
    "ejs": "<html><body><% if (user) { %><h2><%= user.name %></h2><% } %></body></html>",
    "php": "<html><body><?php echo $title; ?><p>Hello</p></body></html>",
    "handlebars": "<div>{{#each people}}<p>{{name}}</p>{{/each}}</div>",
    "go": '{{ define "main" }}\n<main>{{ .Content }}</main>\n{{ end }}\n',
    "vue": '<form><input v-model="q"><button @click="find">Search</button></form>',
    "vue in a page": PAGE.format(
        '<div id="app"><li v-for="one in all" :key="one.id">One</li></div>'
    ),
    "angular": '<li *ngFor="let one of all" (click)="open(one)" [class.on]="one.on">Open it</li>',
    "angularjs": '<div ng-controller="Find"><p ng-repeat="one in all">One</p></div>',
    "alpine": '<div x-data="{ open: false }"><button x-on:click="open = true">More</button></div>',
    "htmx": '<button hx-post="/clicked" hx-swap="outerHTML">Click me</button>',
    "livewire": '<input wire:model.live="query"><ul><li>Results</li></ul>',
    "thymeleaf": PAGE.format('<p th:text="#{home.welcome}">Welcome to our store of ropes</p>'),
    "shell": PAGE.format('<div id="app"></div><script src="/src/main.js"></script>'),
    "application": PAGE.format(f'<input id="q"><button>Find</button><ul id="found"></ul>{SCRIPT}'),
    "fragment": '<nav class="bar bar-top"><ul class="bar-items"><li class="bar-item active">'
    '<a class="bar-link" href="/">Home</a></li></ul></nav>',
    "control": '<input type="text" id="find" placeholder="Find…" aria-label="Find a rope here">',
    "icon": f'<a href="/" class="logo"><svg><path d="{"M0 0l9 9" * 30}"/></svg>Top</a>',
    "layout of pandoc": "<html>\n$if(title)$\n<h1>$title$</h1>\n$endif$\n$body$\n</html>",
    "a byte order mark": "\ufeff{% extends 'base.html' %}\n<p>Hello</p>\n",
    "windows": '{% extends "base.html" %}\r\n{% block body %}\r\n<h1>Log In</h1>\r\n',
    "comment first": "<!-- A part of the page -->\n<p>{{ text }}</p>\n",
}
PAGES = {
    "article": PAGE.format(f"<h1>Knots</h1><p>{PROSE * 3}</p>"),
    "short": PAGE.format("<h1>Knots</h1><p>Tie it.</p>"),
    "fragment of prose": f"<h2>Knots</h2><p>{PROSE * 3}</p>",
    "hello": "<h1>Hello World!</h1>",
    "text alone": "Hello from a page without any markup",
    "scripts beside it": PAGE.format(f"<p>{PROSE * 9}</p>{SCRIPT}<script src='a.js'></script>"),
    "data of a search engine": PAGE.format(
        f'<p>{PROSE}</p><script type="application/ld+json">{"{}" * 900}</script>'
    ),
    "about templates": PAGE.format(
        f"<p>{PROSE * 3}</p><pre>{{% for one in all %}}\n{{{{ one }}}}\n{{% endfor %}}</pre>"
        "<p>Write <code>v-for</code> or <code>{{ one }}</code>.</p>"
    ),
    "about attributes": PAGE.format(
        f"<p>{PROSE * 3}</p><pre><code>&lt;li v-for='a in b'&gt;</code></pre><p>Use v-for=</p>"
    ),
    "templates in scripts": PAGE.format(
        f"<p>{PROSE * 9}</p><script type='text/x-template'><b>{{{{ a }}}}</b></script>"
    ),
    "a mark in prose": PAGE.format(f"<p>{PROSE * 9} Write {{{{ name }}}} into it.</p>"),
    "alpine on a page": PAGE.format(f'<nav x-data="{{}}">Top</nav><p>{PROSE * 9}</p>'),
    "table": "<table><tr><td>Rope</td><td>9 m</td></tr><tr><td>Post</td><td>2 m</td></tr></table>",
    "xhtml": '<?xml version="1.0"?>\n' + PAGE.format(f"<p>{PROSE * 3}</p>"),
    "angular quotes": PAGE.format(f"<p>{PROSE} Costs 5 $ or 6 $. 50% of {{them}}.</p>"),
    "slides": PAGE.format(f"<script src='s5.js'></script><h1>Ropes</h1><p>{PROSE * 2}</p>"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_source(name: str) -> None:
    """Templates, fragments and applications are source, and their stored content shows it."""
    assert is_source(SOURCES[name])
    assert holds_source(SOURCES[name])
    assert syntax_of("a.html", SOURCES[name]) is Syntax.CODE


@pytest.mark.parametrize("name", PAGES)
def test_pages(name: str) -> None:
    """Pages that people read are none, whatever code they show and scripts they have."""
    assert not is_source(PAGES[name])


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with each source and page as a file."""
    path = tmp_path_factory.mktemp("pages")
    for name, text in (SOURCES | PAGES).items():
        (path / f"{name.replace(' ', '-')}.html").write_text(text, newline="")
    return path


def stored(draft: Draft) -> Context:
    """Return the context that a store holds after a put of the draft."""
    written = prepare(draft)
    return Context(
        uri=draft.uri,
        is_directory=False,
        abstract=written.abstract,
        title=draft.title,
        metadata=draft.metadata,
        time=draft.time or 0,
        created_at=0,
        updated_at=0,
        reinforcement=0,
        access_count=0,
        content_hash=written.content_hash,
        revision=1,
        content=draft.content,
        passages=tuple(draft.passages or ()),
    )


def drafts(path: Path) -> Iterator[Draft]:
    """Yield the drafts of the files of a directory."""
    for one in read_tree(path, "viking://resources/t"):
        if isinstance(one, Draft) and not one.is_directory:
            yield one


def test_an_export_is_read_again_as_it_was(tree: Path, tmp_path: Path) -> None:
    """Source is stored as it is, a page as Markdown; files of an export give the same."""
    found = {draft.uri.rpartition("/")[2]: draft for draft in drafts(tree)}
    assert len(found) == len(SOURCES) + len(PAGES)
    for name, text in SOURCES.items():
        draft = found[f"{name.replace(' ', '-')}.html"]
        metadata = {"kind": draft.metadata["kind"]}
        assert (draft.content, draft.metadata) == (text.removeprefix("\ufeff"), metadata)
    for name in PAGES:
        draft = found[f"{name.replace(' ', '-')}.html"]
        assert draft.metadata["format"] == "html"
        assert syntax_of("a.html", draft.content) is Syntax.MARKDOWN
    for name, draft in found.items():
        (tmp_path / name).write_text(file_text(stored(draft)), newline="")
    again = {draft.uri.rpartition("/")[2]: draft for draft in drafts(tmp_path)}
    for name, draft in found.items():
        read = again[name]
        assert read.title == draft.title
        assert read.metadata.get("format") == draft.metadata.get("format")
        if "format" not in draft.metadata:
            assert read == draft
        (tmp_path / name).write_text(file_text(stored(read)), newline="")
    assert again == {draft.uri.rpartition("/")[2]: draft for draft in drafts(tmp_path)}


@pytest.mark.parametrize(
    ("source", "title", "abstract"),
    [
        (
            "<title>{% block title %}{% endblock %} - Flaskr</title>\n<h1>{{ x }}</h1>"
            f"<p>{PROSE}</p>\n",
            "Flaskr",
            PROSE.strip(),
        ),
        (
            '{% extends "base.html" %}\n{% block header %}\n'
            "<h1>{% block title %}Log In{% endblock %}</h1>\n{% endblock %}\n"
            '<form method="post"><label>Username</label> <input name="u"></form>\n',
            "Log In",
            "Log In Username; u",
        ),
        ("{% extends 'a' %}\n{% block title %}Log In{% endblock %}\n", "Log In", "Log In"),
        ("---\ntitle: Ropes\ndescription: All of them.\n---\n<h1>Knots</h1>\n", "Ropes", "Knots"),
        (
            f"<style>a {{}}</style>\n<!-- {PROSE} -->\n<p>{{{{ a }}}} and <b>so</b>&nbsp;on</p>\n",
            "",
            "and so on",
        ),
        (f"<!--\n  {PROSE}\n-->\n<b>So</b>\n", "", PROSE.strip()),
        (f"{{# {PROSE} #}}\n<b>So</b>\n", "", PROSE.strip()),
        (f"{{{{- /*\n  {PROSE}\n  {{{{ x }}}}\n*/ -}}}}\n<b>So</b>\n", "", f"{PROSE}{{{{ x }}}}"),
        (f"{{% comment %}}\n{PROSE}\n{{% endcomment %}}\n<b>So</b>\n", "", PROSE.strip()),
        (f"<!-- Copyright of all the ropes and of {PROSE} -->\n<b>So</b> | =\n", "", "So | ="),
        ("<p>{{ a }} = {{ b }}</p>\n<p>So</p>", "", "So"),
        (f"<div>\n<script>{PROSE}</script>\n<p>首页和\n导航栏</p></div>", "", "首页和导航栏"),
        ("<div v-if='a > b'>Shown</div>", "", "Shown"),
    ],
)
def test_titles_and_abstracts(source: str, title: str, abstract: str) -> None:
    """Title and abstract of source are those of its text, without tags and marks."""
    assert (derive_title(source, "a.html"), derive_abstract(source, "a.html")) == (title, abstract)


def test_an_exported_page_is_markdown_whatever_it_begins_with() -> None:
    """Front matter of an export tells that a content is Markdown."""
    content = "---\nformat: html\n---\n\n<b>Knots</b> hold.\n"
    assert syntax_of("a.html", content) is Syntax.MARKDOWN


def test_passages_hold_the_markup() -> None:
    """The passages of source are its lines."""
    source = SOURCES["vue"] + "\n"
    assert [source[p.start : p.end] for p in split(source, "a.html")] == [source.strip()]


@pytest.mark.deep_after(8)
@pytest.mark.parametrize(
    "text",
    [
        "<" * 300_000,
        "<a " * 100_000,
        "<a '\"" * 80_000,
        "{%" * 200_000,
        "{{" * 200_000,
        "{{ a " * 80_000,
        "<% " * 100_000,
        "<? " * 100_000,
        "<script" * 60_000,
        "<script>" * 60_000,
        "<!--" * 100_000,
        "<pre>" * 80_000,
        "<head>" * 80_000,
        "<title>" * 60_000,
        "<title" * 60_000,
        "{% block title %}" * 20_000,
        "$if(" + "a" * 300_000,
        " " * 300_000 + "x",
        "\n" * 300_000,
        " @a" * 100_000,
        "<a" + " :b" * 100_000 + ">",
        "&" * 300_000,
        "{{/*" * 80_000,
        "{{/* a " * 50_000,
        "{% comment %}" * 30_000,
        "{% comment %} a" * 30_000,
        "{% x" + " " * 300_000,
    ],
    ids=range(27),
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    """No text of some hundred kilobytes takes seconds."""
    start = time.process_time()
    is_source(text)
    derive_title(f"<p>{text}", "a.html")
    derive_abstract(f"<p>{text}", "a.html")
    assert time.process_time() - start < 2
