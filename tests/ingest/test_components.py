"""Components of one file by their parts: passages, outlines and defined names."""

from __future__ import annotations

import time

import pytest

from vikingd.ingest.code.components import sections
from vikingd.ingest.code.headings import defined_names
from vikingd.ingest.code.outline import outline
from vikingd.ingest.passages import split

SETUP = """\
<script setup lang="ts" generic="T extends Array<string>">
import { ref } from 'vue';

// The state of the form.
const state = ref<T>();

function setupForm(name: string): void {
  state.value = name as T;
}
</script>

<template>
  <!-- <script> is no script here -->
  <form v-if="a > b"><template #head><b /></template></form>
  <template v-else />
</template>

<style lang="less">
.form { color: red }
</style>
"""
OPTIONS = """\
<template lang="pug">
.form
</template>
<script>
export default defineComponent({
  name: 'OldForm',
  data() { return { a: 1 }; },
  watch: { route() { this.load(); } },
  methods: {
    loadAll(page) { return page; },
    other: async () => 2,
  },
});
</script>
"""
SVELTE = """\
<!-- <script>const gone = 1;</script> -->
<script context="module">
  export function preload() { return 1; }
</script>
<script lang="ts">
  class Cart { total(): number { return 1; } }
</script>
<svelte:head><title>Shop</title></svelte:head>
<p>{total}</p>
<style>p { margin: 0 }</style>
"""
ASTRO = """\
---
import Layout from './Layout.astro';
interface Props { title: string }
const { title } = Astro.props;
function slugOf(text: string) { return text; }
---
<Layout><h1>{title}</h1></Layout>
"""
HTML = """\
{% extends "base.html" %}
{% block body %}<form v-model="x"></form>{% endblock %}
<script type="application/json">{"function": "noCode"}</script>
<script>
function sendForm() { return 1; }
</script>
"""
CASES: dict[str, tuple[str, list[tuple[str, str]], list[str]]] = {
    # name: content, the headings and beginnings of the passages, the names that are defined
    "Form.vue": (
        SETUP,
        [
            ("script > state, setupForm", "<script setup"),
            ("template, style", "<template>"),
        ],
        ["state", "setupForm"],
    ),
    "OldForm.vue": (
        OPTIONS,
        [("template", "<template"), ("script > loadAll, other", "<script>")],
        ["loadAll", "other"],
    ),
    "Shop.svelte": (
        SVELTE,
        [
            ("template", "<!-- <script>"),
            ("script > preload, Cart, total", "<script context"),
            ("template, style", "<svelte:head>"),
        ],
        ["preload", "Cart", "total"],
    ),
    "Page.astro": (
        ASTRO,
        [("script > Props, slugOf", "---"), ("template", "<Layout>")],
        ["Props", "slugOf"],
    ),
    "form.html": (
        HTML,
        [("", "{% extends"), ("script > sendForm", "<script type")],
        ["sendForm"],
    ),
    "bare.vue": ("<script src='./a.js'></script>\n", [("script …", "<script src")], []),
    "open.vue": (
        "<template>\n<b>\n<script>\nconst a = 1\n",
        [("template", "<template>")],
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "bom"])
def test_a_component_is_cut_into_its_parts(name: str, end: str, mark: str) -> None:
    """Each part has its heading, and the script the names that it defines."""
    content, wanted, names = CASES[name]
    content = mark + content.replace("\n", end)
    found = split(content, name)
    shown = [(one.section, content[one.start : one.end]) for one in found]
    assert [section for section, _ in shown] == [section for section, _ in wanted]
    for (_, text), (_, beginning) in zip(shown, wanted, strict=True):
        assert text.startswith(beginning)
    defined = [each for one in found for each in defined_names(one.section, f"viking://a/{name}")]
    assert [one for one in defined if "." not in one] == names


def test_an_outline_has_the_lines_of_the_file() -> None:
    """A name in a script has the line where it stands in the component."""
    found = {one.heading: one for one in outline(SETUP, "Form.vue") or ()}
    lines = {heading: (one.kind, one.first_line, one.last_line) for heading, one in found.items()}
    assert lines == {
        "script": ("part", 1, 10),
        "script > state": ("value", 5, 5),
        "script > setupForm": ("function", 7, 9),
        "template": ("part", 12, 16),
        "style": ("part", 18, 20),
    }
    options = {one.heading: one for one in outline(OPTIONS, "OldForm.vue") or ()}
    assert options["script > methods > loadAll"].first_line == 10
    assert options["script > methods > loadAll"].signature == "loadAll(page)"
    assert options["script > data"].first_line == 7
    page = {one.heading: one.first_line for one in outline(HTML, "form.html") or ()}
    assert page == {"script": 4, "script > sendForm": 5}


def test_a_page_of_markdown_defines_nothing() -> None:
    """The headings of a page are no definitions, nor are the styles of a component."""
    assert defined_names("Guide > setup", "viking://a/page.html") == []
    assert defined_names("script > setup", "viking://a/page.md") == []
    assert defined_names("style", "viking://a/Form.vue") == []
    assert defined_names("script > Cart > total", "viking://a/Form.vue") == ["total", "Cart.total"]


@pytest.mark.parametrize(
    "content",
    [
        '<script "' * 40_000,
        "<!--" * 80_000,
        "<template>" * 30_000,
        "<script></script>" * 20_000,
        "<script " + "a='b' " * 60_000,
        "---\n" * 60_000,
    ],
    ids=["quotes", "comments", "templates", "scripts", "attributes", "fences"],
)
def test_hostile_components_take_little_time(content: str) -> None:
    """The time grows with the length alone."""
    begun = time.process_time()
    for name in ("a.vue", "a.astro"):
        assert sum(one.end - one.start for one in sections(content, name)) <= len(content)
    assert time.process_time() - begun < 5
