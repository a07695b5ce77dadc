"""Walks over the elements of a page, faster than those of its parser."""

from __future__ import annotations

from collections.abc import Iterator

from bs4.element import PageElement, Tag


def below(element: Tag) -> Iterator[PageElement]:
    """Yield all elements and texts below an element, in the order of the page."""
    stack = element.contents[::-1]
    while stack:
        one = stack.pop()
        yield one
        if isinstance(one, Tag):
            stack += one.contents[::-1]


def tags_below(element: Tag, *names: str) -> list[Tag]:
    """Return the elements of these names below an element, in the order of the page."""
    return [one for one in below(element) if isinstance(one, Tag) and one.name in names]


def is_removed(element: PageElement) -> bool:
    """Return True for a decomposed element; this is faster than the parser's own test."""
    return "_decomposed" in vars(element)
