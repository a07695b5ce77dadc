"""Text that a page holds but does not show, which is how instructions for models are smuggled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PreformattedString, Tag

from vikingd.ingest.formats.elements import below, is_removed
from vikingd.ingest.formats.style_rules import Rule, Rules, rules_of

_FAR = 999  # pixels outside of the screen
_TINY = 2  # pixels of a font that nobody reads
_LIKE = 10  # difference of two colors in each channel that nobody sees
_KEPT = frozenset({"html", "body", "main", "head", "title", "style", "link", "meta"})
# Values that may hide an element; most style sheets have few of them.
_MAY_HIDE = re.compile(
    r"none|hidden|collapse|:\s*-|(?<![\d.])-\d{3,}|clip|scale|transparent|(?<![-\w])color"
    r"|opacity|font|height|width|\\|/\*",
    re.I,
)
_LENGTH = re.compile(r"(-?\d*\.?\d+(?:e[+-]?\d+)?)\s*(px|pt|em|rem|%|vw|vh|vmin|vmax|ex|ch)?")
_PIXELS = {"pt": 1.33, "em": 16, "rem": 16, "ex": 8, "ch": 8, "%": 0.16, "vw": 10, "vh": 10}
_FILL = "-webkit-text-fill-color"
_STROKE = "-webkit-text-stroke"
_STROKE_WIDTH, _STROKE_COLOR = f"{_STROKE}-width", f"{_STROKE}-color"
_WIDTHS = ("thin", "medium", "thick")
_WORD = re.compile(r"[^\s(]+(?:\([^)]*\))?")  # of a value, such as "1px" and "rgb(0, 0, 0)"
_INHERITED = ("currentcolor", "inherit", "initial", "unset", "revert")
_RGB = re.compile(r"rgba?\(([^)]*)\)")
# A color without opacity: #fff0, rgba(0, 0, 0, 0), hsl(0 0% 0% / 0%).
_CLEAR = re.compile(
    r"#(?:[\da-f]{3}0|[\da-f]{6}00)"
    r"|(?:rgb|hsl)a?\([^,/()]+(?:,[^,/()]+,[^,/()]+,|/)\s*0*(?:\.0*)?%?\s*\)",
    re.I,
)
_NAMES = {
    "white": (255, 255, 255),
    "snow": (255, 250, 250),
    "ivory": (255, 255, 240),
    "whitesmoke": (245, 245, 245),
    "ghostwhite": (248, 248, 255),
    "black": (0, 0, 0),
}
_WHITE = _NAMES["white"]
Color = tuple[int, int, int]


def remove_hidden(soup: BeautifulSoup) -> int:
    """Remove the text that a page does not show, and return the number of removed parts.

    Hidden is what `hidden`, `aria-hidden` or a style says: no display, no visibility, no opacity,
    no size, a place outside of the screen, or the color of the background. Styles are those of
    `style` attributes and of the page's own style sheets. What a click unfolds by `<details>` is
    shown.
    """
    return _Page(soup).hidden


class _Page:
    """A page and its styles.

    Args:
        soup: the page, which is changed.
    """

    def __init__(self, soup: BeautifulSoup) -> None:
        self.hidden = 0
        sheets = [one for one in soup.find_all("style") if _is_for_screens(one)]
        rules = [rule for one in sheets for rule in rules_of(one.get_text())]
        self._rules = Rules(rules)
        hiding = Rules(rule for rule in rules if _may_hide(rule))
        self._paints: dict[int, tuple[Tag, dict[str, str]]] = {}
        self._has_sheets_elsewhere = any(
            "stylesheet" in (link.get("rel") or ()) for link in soup.find_all("link")
        )
        for element in list(self._candidates(soup, hiding)):
            if not is_removed(element) and element.parent is not None:
                self._hide(element, soup)

    def _candidates(self, soup: BeautifulSoup, hiding: Rules) -> Iterator[Tag]:
        """Yield the elements that may be hidden, outer ones first."""
        for element in below(soup):
            if not isinstance(element, Tag):
                continue
            given = element.attrs
            if (not given and not hiding) or element.name in _KEPT or is_of_formula(element):
                continue
            if (
                "hidden" in given
                or "aria-hidden" in given
                or ("style" in given and _MAY_HIDE.search(str(given["style"])))
                or "color" in given
                or (hiding and next(hiding.of(element), None))
            ):
                yield element

    def _hide(self, element: Tag, soup: BeautifulSoup) -> None:
        style = self._rules.style(element)
        if (
            ("hidden" in element.attrs and element.get("hidden") != "until-found")
            or _is_gone(style)
            or (str(element.get("aria-hidden")).lower() == "true" and _is_minor_part(element, soup))
        ):
            self._remove(element)
        elif style.get("visibility") in ("hidden", "collapse"):
            self._remove_text(element, lambda _, one: one.get("visibility") == "visible")
        elif _has_tiny_font(style):
            self._remove_text(
                element, lambda _, one: "font-size" in one and not _has_tiny_font(one)
            )
        elif self._is_invisible(element, style):
            self._remove_text(
                element,
                lambda below, one: (
                    "color" in one or _background(one) is not None or self._is_painted(below, one)
                ),
            )

    def _remove(self, element: Tag) -> None:
        """Remove an element with all below it."""
        texts = (
            element.get_text(),
            *(str(one.get("alt") or "") for one in element.find_all("img")),
        )
        self.hidden += any(map(_has_words, texts))
        element.decompose()

    def _remove_text(self, element: Tag, is_shown: Callable[[Tag, dict[str, str]], bool]) -> None:
        """Remove the text of an element, except in parts whose own style makes them visible."""
        texts = [one for one in element.find_all(string=True) if _is_text(one)]
        if not any(map(_has_words, texts)):
            return
        shown = [one for one in element.find_all(True) if is_shown(one, self._rules.style(one))]
        kept = {id(text) for one in shown for text in one.find_all(string=True)}
        gone = [text for text in texts if id(text) not in kept]
        self.hidden += any(map(_has_words, gone))
        for text in gone:
            text.extract()

    def _is_invisible(self, element: Tag, style: dict[str, str]) -> bool:
        """Return True for text in the color of its background."""
        stated = style.get("color") or str(element.get("color") or "")
        if not stated or "background-clip" in style or "-webkit-background-clip" in style:
            return False
        paint = self._inherited_paint(element)
        if self._is_painted(element, paint):
            return False
        stated = paint.get(_FILL) or stated
        if _is_transparent(stated):
            return "text-shadow" not in style
        return self._is_like_background(element, stated)

    def _inherited_paint(self, element: Tag) -> dict[str, str]:
        """Return what `_paint` gives for an element, with what it inherits."""
        lineage = [element]
        while id(lineage[-1]) not in self._paints and lineage[-1].parent is not None:
            lineage.append(lineage[-1].parent)
        _, paint = self._paints.get(id(lineage[-1]), (None, {}))
        for one in reversed(lineage):
            if id(one) not in self._paints:
                paint = paint | _paint(self._rules.style(one))
                self._paints[id(one)] = one, paint  # with the element, so that its id stays its own
        return paint

    def _is_painted(self, element: Tag, style: dict[str, str]) -> bool:
        """Return True if a style paints text or its outline in a color that is seen."""
        paint = _paint(style)
        width = paint.get(_STROKE_WIDTH, "")
        outline = paint.get(_STROKE_COLOR, "") if width in _WIDTHS or _pixels(width) else ""
        return any(
            not _is_transparent(color) and not self._is_like_background(element, color)
            for color in (paint.get(_FILL), outline)
            if color
        )

    def _is_like_background(self, element: Tag, stated: str) -> bool:
        """Return True if a color is hardly another one than that behind an element."""
        if (color := _color(stated)) is None:
            return False
        at: Tag | None = element
        while at is not None and isinstance(at, Tag):
            below = self._rules.style(at) if at.attrs or self._rules else {}
            if "background-image" in below or "url(" in below.get("background", ""):
                return False
            if "gradient" in below.get("background", "") or at.has_attr("background"):
                return False
            back = _background(below) or _color(str(at.get("bgcolor") or ""))
            if back is not None:
                return _are_alike(color, back)
            at = at.parent
        return not self._has_sheets_elsewhere and _are_alike(color, _WHITE)


def _is_for_screens(sheet: Tag) -> bool:
    media = str(sheet.get("media") or "all").lower()
    return "all" in media or "screen" in media


def _may_hide(rule: Rule) -> bool:
    style = rule.style
    color = _color(style["color"].removesuffix("!important").strip()) if "color" in style else None
    return (
        _is_gone({name: value.removesuffix("!important").strip() for name, value in style.items()})
        or style.get("visibility", "").startswith(("hidden", "collapse"))
        or _has_tiny_font(style)
        or _is_transparent(style.get("color", "").removesuffix("!important").strip())
        or (color is not None and (_are_alike(color, _WHITE) or color == _background(style)))
    )


def _is_gone(style: dict[str, str]) -> bool:
    """Return True if a style hides an element with all elements below it."""
    if style.get("display") == "none" or style.get("content-visibility") == "hidden":
        return True
    opacity = _LENGTH.fullmatch(style.get("opacity", ""))
    if opacity and float(opacity[1]) * (0.01 if opacity[2] == "%" else 1) <= 0.01:
        return True
    is_cut = any(
        style.get(name, "") in ("hidden", "clip")
        for name in ("overflow", "overflow-x", "overflow-y")
    )
    sizes = [
        size
        for name in ("width", "height", "max-width", "max-height")
        if (size := _pixels(style.get(name, ""))) is not None
    ]
    if is_cut and sizes and min(sizes) <= 1:
        return True
    is_placed = style.get("position") in ("absolute", "fixed")
    if re.search(r"opacity\(\s*0*(?:\.0+)?%?\s*\)", style.get("filter", "")):
        return True
    clip = style.get("clip", "") + style.get("clip-path", "")
    if is_placed and re.fullmatch(r"rect\(\s*([01](?:px)?[\s,]*){4}\)", style.get("clip", "")):
        return True
    if re.search(r"inset\(\s*(?:50|100)%\s*\)|circle\(\s*0(?:px|%)?\b", clip):
        return True
    transform = style.get("transform", "")
    if re.search(r"scale[xy]?\(\s*0(?:\.0+)?\s*[,)]", transform):
        return True
    moved = [_pixels(style.get(name, "")) for name in ("text-indent", "margin-left", "margin-top")]
    if is_placed:
        moved += [_pixels(style.get(name, "")) for name in ("left", "top", "right", "bottom")]
    if style.get("position") == "relative":
        moved += [_pixels(style.get(name, "")) for name in ("left", "top")]
    moved += [_pixels(value) for value in re.findall(r"-\d+(?:\.\d+)?(?:px|em|rem)", transform)]
    return any(size is not None and size <= -_FAR for size in moved) or any(
        size is not None and size >= 5 * _FAR for size in moved[3:]
    )


def _has_tiny_font(style: dict[str, str]) -> bool:
    size = style.get("font-size", "").removesuffix("!important").strip()
    if not size and (
        found := re.search(
            r"(?<![\w.])0(?:px|pt|em|rem|%)?\s*(?:/\S+)?\s+[\w\"']", style.get("font", "")
        )
    ):
        return bool(found)
    pixels = _pixels(size)
    return pixels is not None and pixels < _TINY


def _pixels(value: str) -> float | None:
    """Return an approximate length in pixels; None if the text is no length."""
    found = _LENGTH.fullmatch(value.strip())
    return float(found[1]) * _PIXELS.get(found[2] or "px", 1) if found else None


def _paint(style: dict[str, str]) -> dict[str, str]:
    """Return the color of the fill of text, and the width and color of its outline, if stated.

    A color that is the one of the text, or of the element around it, is none of them.
    """
    found = {}
    for part in _WORD.findall(style.get(_STROKE, "")):
        is_width = part in _WIDTHS or _pixels(part) is not None
        found[_STROKE_WIDTH if is_width else _STROKE_COLOR] = part
    found |= {name: style[name] for name in (_FILL, _STROKE_WIDTH, _STROKE_COLOR) if name in style}
    return {name: value for name, value in found.items() if value not in _INHERITED}


def _background(style: dict[str, str]) -> Color | None:
    for name in ("background-color", "background"):
        value = style.get(name, "")
        for part in [value, *value.split()]:
            if (color := _color(part)) is not None:
                return color
    return None


def _color(value: str) -> Color | None:
    """Return a color in red, green and blue; None for an unknown or a transparent one."""
    value = value.strip().lower()
    if value in _NAMES:
        return _NAMES[value]
    if re.fullmatch(r"#(?:[\da-f]{3}|[\da-f]{6})", value):
        digits = value[1:] if len(value) == 7 else "".join(digit * 2 for digit in value[1:])
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    if found := _RGB.fullmatch(value):
        parts = [part for part in re.split(r"[\s,/]+", found[1].strip()) if part]
        if len(parts) in (3, 4) and all(re.fullmatch(r"\d{1,3}(?:\.\d+)?", p) for p in parts[:3]):
            red, green, blue = (int(float(part)) for part in parts[:3])
            return (red, green, blue) if parts[3:] not in (["0"], ["0%"], ["0.0"]) else None
    return None


def _is_transparent(value: str) -> bool:
    return value == "transparent" or _CLEAR.fullmatch(value) is not None


def _are_alike(a: Color, b: Color) -> bool:
    return all(abs(x - y) <= _LIKE for x, y in zip(a, b, strict=True))


def _is_minor_part(element: Tag, soup: BeautifulSoup) -> bool:
    """Return True if an element has at most half of the text of a page.

    Larger elements are kept, because a page marks its main part as hidden while a dialog is open.
    """
    return 2 * len(element.get_text()) <= max(len((soup.body or soup).get_text()), 1)


def is_of_formula(element: Tag) -> bool:
    """Return True for the hidden markup of a formula that is also shown as a picture or characters.

    Wikipedia and MathJax write formulas twice: the markup is for programs that read pages aloud.
    """
    if element.name != "math":
        formulas = element.find_all("math", limit=2)
        if len(formulas) != 1 or formulas[0].get_text().split() != element.get_text().split():
            return False
    beside = (element, element.parent)[element.name == "math"]
    siblings = (beside.find_previous_sibling(), beside.find_next_sibling()) if beside else ()
    return any(one is not None and one.get("aria-hidden") == "true" for one in siblings)


def _is_text(found: NavigableString) -> bool:
    return not isinstance(found, PreformattedString)


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))
