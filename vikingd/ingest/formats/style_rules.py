"""The rules of a page's own style sheets, matched by tag, class, id and attribute."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from bs4.element import Tag

_MAX_CSS = 1 << 20  # characters of style sheets that are read
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.S)
_BRACE = re.compile(r"[{}]")
_ESCAPE = re.compile(r"\\(?:([\da-f]{1,6})\s?|([^\n]))", re.I)
# A layer, and a test of properties that each browser knows.
_SHOWN = re.compile(
    r"@(?:layer\b|supports\b(?!.*(?:\bnot\b|selector|\(\s*-|(?<![\w-])-[a-z])))", re.I | re.S
)
_MEDIA = re.compile(r"(?:only\s+)?(?:(?:all|screen)\b)?(?P<conditions>.*)$", re.I | re.S)
_MAX_RULES = 50_000  # of a page
_MAX_NESTED = 16  # levels of rules
_MAX_SELECTORS = 100  # of a nested rule
_MAX_SELECTOR = 1000  # characters
# A condition that each screen fulfils.
_ANY_SCREEN = re.compile(
    r"(?:and\s*)?\(\s*(?:min-(?:device-)?(?:width|height)\s*:\s*(?:[012]?\d{1,2}(?:\.\d+)?px|0)"
    r"|max-(?:device-)?(?:width|height)\s*:\s*\d{5,}(?:\.\d+)?px)\s*\)\s*",
    re.I,
)
# A compound of a selector: "p.note#top[lang=en]".
_COMPOUND = re.compile(r"(?P<tag>[a-z][\w-]*|\*)?(?P<rest>(?:[.#][\w-]+|\[[^\]]*\])*)", re.I)
_PART = re.compile(r"([.#])([\w-]+)|\[\s*([\w-]+)\s*(?:=\s*[\"']?([^\"'\]]*)[\"']?\s*)?\]")
_COMBINATOR = re.compile(r"\s*>\s*|\s+")
_IMPORTANT = "!important"
_NO_NAME = "\ufffd"  # for an escaped character that no name of CSS has
_HAS_STRING = re.compile(r"[\"']|url\(")  # of a value, which may have any characters


def declarations(text: str) -> dict[str, str]:
    """Return the properties of a `style` attribute or of a rule, in lower case."""
    found: dict[str, str] = {}
    for one in _unescaped(_COMMENT.sub(" ", text)).lower().split(";"):
        name, colon, value = one.partition(":")
        name, value = name.strip(), value.strip()
        if _NO_NAME in value and not _HAS_STRING.search(value):
            continue  # as browsers ignore it
        if colon and (value.endswith(_IMPORTANT) or not found.get(name, "").endswith(_IMPORTANT)):
            found[name] = value
    return found


@dataclass(frozen=True, slots=True)
class _Compound:
    tag: str
    needed: tuple[tuple[str, str, str | None], ...]

    def matches(self, element: Tag) -> bool:
        if self.tag not in ("", "*", element.name):
            return False
        for kind, name, value in self.needed:
            if kind == ".":
                if name not in (element.get("class") or ()):
                    return False
            elif kind == "#":
                if element.get("id") != name:
                    return False
            elif not element.has_attr(name) or value not in (None, element.get(name)):
                return False
        return True

    def key(self) -> str:
        """Return an id such as "#menu", else a class, else the tag, to look up the rule by."""
        for kind in "#.":
            for one, name, _ in self.needed:
                if one == kind:
                    return kind + name
        return self.tag or "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for one selector.

    Attributes:
        compounds: (compound, is_parent) of each compound of the selector, from right to left. With
            is_parent the compound must match the parent of the element before it, else any
            ancestor. `nav > p em` gives (em, False), (p, False), (nav, True).
        weight: the specificity and the place in the style sheet. The rule with the largest weight
            decides.
        style: the declarations.
    """

    compounds: tuple[tuple[_Compound, bool], ...]
    weight: tuple[int, int, int, int]
    style: dict[str, str]

    def matches(self, element: Tag) -> bool:
        """Return True if the selector matches the element."""
        (last, _), *above = self.compounds
        if not last.matches(element):
            return False
        at: Tag | None = element
        for compound, is_parent in above:
            at = at.parent if at else None
            while at is not None and not compound.matches(at):
                at = None if is_parent else at.parent
            if at is None:
                return False
        return True


class Rules:
    """The rules of a page, with an index by tag, class and id.

    Args:
        rules: the rules.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_key: dict[str, list[Rule]] = defaultdict(list)
        for rule in rules:
            self._by_key[rule.compounds[0][0].key()].append(rule)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def of(self, element: Tag) -> Iterator[Rule]:
        """Yield the rules that match an element."""
        keys = [element.name, "*", *(f".{name}" for name in element.get("class") or ())]
        if id_ := element.get("id"):
            keys.append(f"#{id_}")
        for key in keys:
            for rule in self._by_key.get(key, ()):
                if rule.matches(element):
                    yield rule

    def style(self, element: Tag) -> dict[str, str]:
        """Return the declarations that apply to an element, with those of its `style` attribute."""
        found: dict[str, str] = {}
        rules = sorted(self.of(element), key=lambda rule: rule.weight)
        own = declarations(str(element.get("style") or ""))
        for style in (*(rule.style for rule in rules), own):
            for name, value in style.items():
                if value.endswith(_IMPORTANT) or not found.get(name, "").endswith(_IMPORTANT):
                    found[name] = value
        return {name: value.removesuffix(_IMPORTANT).strip() for name, value in found.items()}


def rules_of(css: str) -> Iterator[Rule]:
    """Yield the rules of a style sheet with simple selectors, for screens of any size.

    Selectors with states, such as `:hover`, are left out, because they do not match before a reader
    acts. Selectors with siblings are left out, too.
    """
    css = _COMMENT.sub("", css[:_MAX_CSS]).replace("<!--", " ").replace("-->", " ")
    count = 0
    for selectors, style in _blocks(css, (), 0):
        for selector in selectors if style else ():
            if compounds := _compounds(selector):
                if count == _MAX_RULES:
                    return
                count += 1
                yield Rule(compounds, (*_specificity(compounds), count), style)


def _blocks(
    css: str, above: Sequence[str], depth: int
) -> Iterator[tuple[Sequence[str], dict[str, str]]]:
    """Yield the selectors and the declarations of each block.

    Args:
        css: rules, and perhaps declarations between them.
        above: the selectors of the block that holds the rules; () at the top.
        depth: the number of blocks that hold the rules.
    """
    at = 0
    while (start := css.find("{", at)) >= 0:
        head = " ".join(css[at:start].replace("}", " ").rpartition(";")[2].split())
        is_group = head.startswith("@")
        is_applied = is_group and _applies(head)
        if is_applied and not above:
            at = start + 1  # its rules stand as if it were not there, however deep
            continue
        at = _end(css, start)
        if is_group and not is_applied:
            continue
        body = css[start + 1 : at].removesuffix("}")
        selectors = above if is_group else _nested(head, above)
        if not selectors:
            continue  # they are too long; what it holds is not at the top
        own = body.partition("{")[0].rpartition(";")[0] if "{" in body else body
        yield selectors, declarations(own)
        if "{" in body and depth < _MAX_NESTED:
            yield from _blocks(body, selectors, depth + 1)


def _nested(head: str, above: Sequence[str]) -> Sequence[str]:
    """Return the selectors of a rule, with those of the rule that holds it in front.

    These are the first `_MAX_SELECTORS` ones, without those that are too long.
    """
    selectors = [one.strip() for one in head.split(",")]
    if not above:
        return selectors
    return [
        one.replace("&", outer) if "&" in one else f"{outer} {one}"
        for outer, one in islice(product(above[:_MAX_SELECTORS], selectors), _MAX_SELECTORS)
        if len(one) + len(outer) * max(1, one.count("&")) < _MAX_SELECTOR
    ]


def _applies(rule: str) -> bool:
    """Return True for the head of a block, such as "@media screen", that each screen applies.

    A condition on the size of a screen counts if it holds for the smallest and the largest ones.
    """
    if _SHOWN.match(rule):
        return True
    name, _, queries = rule.partition(" ")
    found = map(_MEDIA.match, map(str.strip, queries.split(",")))
    return name.lower() == "@media" and any(
        one is not None and one[0] and not _ANY_SCREEN.sub("", one["conditions"].strip())
        for one in found
    )


def _unescaped(text: str) -> str:
    """Return CSS with its escapes as characters: `d`, a backslash and `69splay` are "display".

    An escaped character is always a part of a name or a string. One that is no letter, digit, "-"
    or "_" becomes U+FFFD, so that it is neither a space nor a sign of the syntax.
    """
    return (
        _ESCAPE.sub(lambda one: _character(ord(one[2]) if one[2] else int(one[1], 16)), text)
        if "\\" in text
        else text
    )


def _character(code: int) -> str:
    is_valid = 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    one = chr(code) if is_valid else _NO_NAME
    is_of_name = one.isalnum() or one in "-_" or (code >= 0xA0 and not one.isspace())
    return one if is_of_name else _NO_NAME


def _end(css: str, start: int) -> int:
    """Return the position after the brace that closes the block opened at `start`."""
    depth = 0
    for brace in _BRACE.finditer(css, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return len(css)


def _compounds(selector: str) -> tuple[tuple[_Compound, bool], ...]:
    """Return the compounds of a selector, see `Rule`; () for a selector that is not simple."""
    found: list[tuple[_Compound, bool]] = []
    if not selector or len(selector) > _MAX_SELECTOR:
        return ()
    is_parent = False
    parts = _COMBINATOR.split(selector)
    between = _COMBINATOR.findall(selector)
    for part, combinator in zip(reversed(parts), [*reversed(between), ""], strict=True):
        match = _COMPOUND.fullmatch(part)
        if not part or not match:
            return ()
        needed = []
        for kind, name, attribute, value in _PART.findall(match["rest"]):
            has_value = f"[{attribute}" in part and "=" in part
            needed.append((kind, name or attribute, value if attribute and has_value else None))
        if match["rest"].count("[") != sum(not kind for kind, *_ in needed):
            return ()
        found.append((_Compound((match["tag"] or "").lower(), tuple(needed)), is_parent))
        is_parent = ">" in combinator
    return tuple(found)


def _specificity(compounds: Iterable[tuple[_Compound, bool]]) -> tuple[int, int, int]:
    ids = classes = tags = 0
    for compound, _ in compounds:
        ids += sum(kind == "#" for kind, *_ in compound.needed)
        classes += sum(kind != "#" for kind, *_ in compound.needed)
        tags += compound.tag not in ("", "*")
    return ids, classes, tags
