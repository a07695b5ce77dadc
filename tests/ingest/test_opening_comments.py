"""The comments at the beginning of source code."""

from __future__ import annotations

import pytest

from vikingd.ingest.abstracts import derive_abstract
from vikingd.ingest.opening_comments import first_comment

HEADERS = [
    ("#!/usr/bin/python\n# -*- coding: utf-8 -*-\n# Reads tea leaves.\nimport os  # noqa\n", "#"),
    ("#!/bin/sh\n\n  # shellcheck disable=SC2086\n# Brews tea.\nset -e\n", "#"),
    ("/* eslint-disable */\n/** Pours tea. */\nimport x from 'y'; // eslint-disable-line\n", "//"),
    ("// +build linux\r\n\r\n// Package tea brews.\r\npackage tea\r\n", "//"),
]


@pytest.mark.parametrize(
    ("text", "mark", "first"),
    [
        (*HEADERS[0], "Reads tea leaves."),
        (*HEADERS[1], "Brews tea."),
        (*HEADERS[2], "Pours tea."),
        (*HEADERS[3], "Package tea brews."),
        ("x = 1\n# Not at the beginning.\n", "#", ""),
        ("import os  # noqa\n# For tools is no code.\n", "#", "For tools is no code."),
    ],
)
def test_the_first_comment(text: str, mark: str, first: str) -> None:
    """Lines for tools are passed over; the comments end at the first line of code."""
    assert first_comment(text, mark) == first


@pytest.mark.parametrize(("text", "mark"), HEADERS)
def test_a_text_may_end_anywhere(text: str, mark: str) -> None:
    """A file or the part of it that is read can end within a line for tools."""
    for end in range(len(text) + 1):
        found = first_comment(text[:end], mark)
        assert found in text, end


@pytest.mark.parametrize("name", ["run", "run.sh", "a.py", "a.js"])
@pytest.mark.parametrize("content", ["#!/bin/sh", "x = 1  # noqa", "// eslint-disable-line"])
def test_a_file_that_is_one_line_for_tools(name: str, content: str) -> None:
    """Its abstract is made at once, whatever it is."""
    assert derive_abstract(content, name).count("\n") == 0
