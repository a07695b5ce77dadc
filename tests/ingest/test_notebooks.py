"""Notebooks: cells of code are cut by their syntax, those of Markdown by headings."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from vikingd.ingest.code.headings import defined_names
from vikingd.ingest.code.outline import outline
from vikingd.ingest.formats.ipynb import read
from vikingd.ingest.passages import split

CELLS: list[dict[str, Any]] = [
    {"cell_type": "markdown", "source": "# Tides\n\nHow they are computed, in short."},
    {
        "cell_type": "code",
        "source": "%matplotlib inline\n!pip install x\ndef tide(day):\n    return day % 2\ntide(1)",
        "outputs": [
            {"output_type": "execute_result", "data": {"text/plain": "1", "image/png": "iVB" * 999}}
        ],
    },
    {"cell_type": "markdown", "source": "## Model\n\nA class that learns the tides."},
    {
        "cell_type": "code",
        "source": ["class Model(Base):\n", "    def fit(self, x):\n", "        return x\n"],
        "outputs": [{"output_type": "stream", "text": "loss 0.1\n" * 900}],
    },
    {"cell_type": "code", "source": "print(Model().fit(1))", "outputs": []},
    {"cell_type": "markdown", "source": "The end.\n\n### A heading, with names"},
    {"cell_type": "code", "source": "%%bash\nls | wc -l", "outputs": []},
]


def text_of(cells: list[dict[str, Any]], language: str = "python") -> str:
    """Return the content of a notebook."""
    made = {"nbformat": 4, "metadata": {"kernelspec": {"language": language}}, "cells": cells}
    return read(io.BytesIO(json.dumps(made).encode())).text


def names(content: str) -> dict[str, list[str]]:
    """Return the names that each passage defines, by its section."""
    return {one.section: defined_names(one.section, "a.ipynb") for one in split(content, "a.ipynb")}


@pytest.mark.parametrize(
    ("metadata", "title"),
    [({"title": " Tides  at sea"}, "Tides at sea"), ({"title": 5}, ""), ({}, ""), (None, "")],
)
def test_a_notebook_has_the_title_that_it_states(metadata: object, title: str) -> None:
    """The title of the metadata is that of the document."""
    made = {"nbformat": 4, "metadata": metadata, "cells": CELLS}
    assert read(io.BytesIO(json.dumps(made).encode())).title == title


def test_cells_are_cut_by_their_syntax() -> None:
    """A function is below the headings of its cell, with the words before it and its output."""
    content = text_of(CELLS)
    assert names(content) == {
        "Tides > code > tide": ["tide"],
        "Tides > Model > code > Model, fit": ["Model", "fit"],
        "Tides > Model": [],
        "Tides > Model > A heading, with names": [],
    }
    first = split(content, "a.ipynb")[0]
    shown = content[first.start : first.end]
    assert shown.startswith("How they are computed")
    assert shown.endswith("```text\n1\n```")
    assert "iVB" not in content
    assert content.count("loss") < 300


def test_the_outline_has_headings_and_definitions() -> None:
    """Lines are those of the content."""
    content = text_of(CELLS)
    lines = content.split("\n")
    found = outline(content, "a.ipynb") or []
    assert [(one.kind, one.heading) for one in found] == [
        ("heading", "Tides"),
        ("function", "Tides > code > tide"),
        ("heading", "Tides > Model"),
        ("class", "Tides > Model > code > Model"),
        ("function", "Tides > Model > code > Model > fit"),
        ("heading", "Tides > Model > A heading, with names"),
    ]
    for one in found:
        assert one.name in lines[one.first_line - 1]


@pytest.mark.parametrize(
    ("language", "source", "wanted"),
    [
        ("python3", "async def a():\n    await b", ["a"]),
        ("javascript", "function a() { return 1 }", ["a"]),
        ("scala", "def a(b: Int) = b", ["a"]),
        ("c++17", "int a() { return 1; }", None),
        ("julia", "a(x) = x", None),
        ("python", "def a(:\n  ((", None),
        ("python", "```\nx\n```\n", None),
        ("python", "x = '```'\ndef a():\n    return x", ["x", "a"]),
    ],
)
def test_kernels_have_languages(language: str, source: str, wanted: list[str] | None) -> None:
    """A language without a grammar, or code with faults, is Markdown as before."""
    cells = [{"cell_type": "code", "source": source, "outputs": []}]
    (section, found), *_ = names(text_of(cells, language)).items()
    assert section == (f"code > {', '.join(wanted)}" if wanted else "")
    assert found == (wanted or [])
