"""Number formats of spreadsheets: a value as the spreadsheet program shows it.

The grammar is that of ECMA-376, part 1, 18.8.31. Separators are those of English.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import cache, cached_property

# The tokens of "[>=100]#,##0.00 \"EUR\"": a bracket, digits, other characters, a quoted text.
_TOKEN = re.compile(
    r"\"(?P<quoted>[^\"]*)\"?|\\(?P<escaped>.)|_(?P<space>.)|\*(?P<fill>.)"
    r"|\[(?P<bracket>[^\]]*)\]|(?P<general>general)|(?P<exponent>e[+-])"
    r"|(?P<clock>am/pm|a/p|上午/下午)|(?P<second>s+(?:\.0+)?)|(?P<date>[ymdhgb]+)"
    r"|(?P<digit>[0#?])|(?P<other>.)",
    re.I | re.S,
)
_SECTIONS = re.compile(r"(?:\"[^\"]*\"?|\\.|\[[^\]]*\]|[^;\"\\\[])*", re.S)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d+(?:\.\d+)?)")
_ELAPSED = re.compile(r"h+|m+|s+", re.I)
_MAX_DIGITS = 30
_MAX_FORMAT = 1000  # characters of a format; longer ones are no formats


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


@dataclass(frozen=True)
class _Section:
    tokens: tuple[_Token, ...]
    condition: tuple[str, float] | None

    def holds(self, value: float) -> bool:
        """Return True if the section has a condition such as `[>=100]`, and the value meets it."""
        if self.condition is None:
            return False
        sign, limit = self.condition
        return {
            "<": value < limit,
            "<=": value <= limit,
            ">": value > limit,
            ">=": value >= limit,
            "=": value == limit,
            "<>": value != limit,
        }[sign]

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of the tokens in the section."""
        return frozenset(token.kind for token in self.tokens)

    @cached_property
    def text(self) -> str:
        """The characters of the section that are format codes, without literal text."""
        return "".join(t.text for t in self.tokens if t.kind in ("digit", "other"))


@cache
def _sections(code: str) -> tuple[_Section, ...]:
    sections = []
    place = 0
    while True:
        found = _SECTIONS.match(code, place)
        assert found
        sections.append(_section(found[0]))
        place = found.end() + 1
        if place > len(code):
            return tuple(sections)


def _section(code: str) -> _Section:
    tokens = []
    condition = None
    for found in _TOKEN.finditer(code):
        kind = found.lastgroup or "other"
        text = found[kind]
        if kind == "bracket":
            if limit := _CONDITION.fullmatch(text):
                condition = limit[1], float(limit[2])
            elif text.startswith("$"):
                tokens.append(_Token("literal", text[1:].partition("-")[0]))
            elif _ELAPSED.fullmatch(text):
                tokens.append(_Token("elapsed", text.lower()))
        elif kind in ("quoted", "escaped"):
            tokens.append(_Token("literal", text))
        elif kind == "space":
            tokens.append(_Token("literal", " "))
        elif kind != "fill":
            tokens.append(_Token(kind, text))
    return _Section(tuple(tokens), condition)


def is_shown_with_time(code: str) -> tuple[bool, bool]:
    """Return (True if a format shows a day, True if it shows a time of the day)."""
    tokens = [token for section in _sections(code)[:1] for token in section.tokens]
    letters = "".join(token.text.lower() for token in tokens if token.kind == "date")
    has_time = "h" in letters or any(t.kind in ("second", "clock", "elapsed") for t in tokens)
    return bool(set(letters) & set("ydg")) or ("m" in letters and not has_time), has_time


def shown_number(value: float, code: str) -> str:
    """Return a number as a format shows it; "" for a format that hides it."""
    if len(code) > _MAX_FORMAT or code.strip().lower() in ("", "general", "@"):
        return general(value)
    sections = _sections(code)
    section, shown = _chosen(sections, value)
    if section is None:
        return "#" * 3
    if "general" in section.kinds:
        return _filled(section, general(shown), "general")
    if "digit" not in section.kinds:
        sign = "-" if shown < 0 and section.tokens else ""
        if any(token.text == "@" for token in section.tokens):
            return general(value)
        return sign + _literals(section)
    if "exponent" in section.kinds:
        return _scientific(section, shown)
    if re.search(r"[0#?]\s*/\s*[0-9#?]", section.text):
        return _fraction(section, shown)
    return _decimal(section, shown)


def shown_text(value: str, code: str) -> str:
    """Return a text as a format shows it, by its fourth section or its section with `@`."""
    if ("@" not in code and code.count(";") < 3) or len(code) > _MAX_FORMAT:
        return value
    sections = _sections(code)
    section = sections[3] if len(sections) > 3 else sections[-1]
    if len(sections) <= 3 and not any(token.text == "@" for token in section.tokens):
        return value
    parts = [
        value if token.kind == "other" and token.text == "@" else token.text
        for token in section.tokens
        if token.kind in ("literal", "other")
    ]
    return "".join(parts).strip()


def shown_duration(seconds: float, code: str) -> str:
    """Return a time of the day, or a span of time (`[h]:mm`), as a format shows it."""
    tokens = _sections(code)[0].tokens
    digits = max((len(t.text.partition(".")[2]) for t in tokens if t.kind == "second"), default=0)
    total = Decimal(repr(abs(seconds))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    whole, part = divmod(total, 1)
    has_clock = any(token.kind == "clock" for token in tokens)
    elapsed = {token.text[0] for token in tokens if token.kind == "elapsed"}
    hours = int(whole) // 3600
    minutes = int(whole) // 60
    parts = []
    for token in tokens:
        text = token.text.lower()
        if token.kind == "elapsed":
            number = {"h": hours, "m": minutes, "s": int(whole)}[text[0]]
            parts.append(f"{number:0{len(text)}}")
        elif token.kind == "date" and text[0] == "h":
            hour = hours % 24
            hour = (hour % 12 or 12) if has_clock else hour
            parts.append(f"{hour:0{len(text)}}")
        elif token.kind == "date" and text[0] == "m":
            parts.append(f"{minutes % 60 if 'm' not in elapsed else minutes:0{min(len(text), 2)}}")
        elif token.kind == "second":
            size = len(text.partition(".")[0])
            shown = f"{int(whole) % 60:0{size}}"
            parts.append(shown + (f"{part:.{digits}f}"[1:] if digits else ""))
        elif token.kind == "clock":
            before, after = token.text.split("/")
            parts.append(after if hours % 24 >= 12 else before)
        elif token.kind in ("literal", "other"):
            parts.append(token.text)
    return ("-" if seconds < 0 else "") + "".join(parts).strip()


def general(value: float) -> str:
    """Return a number as a cell without a format shows it, with up to 15 digits."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _chosen(sections: tuple[_Section, ...], value: float) -> tuple[_Section | None, float]:
    """Return the section of a format for a value, and the value to format.

    The value loses its minus sign if the section writes the sign itself.
    """
    numeric = sections[:3]
    if any(section.condition for section in numeric):
        for section in numeric:
            if section.condition is None or section.holds(value):
                sign, limit = section.condition or ("", 0.0)
                is_own = sign.startswith("<") and limit <= 0 and value < 0
                return section, abs(value) if is_own else value
        return None, value
    if value < 0 and len(numeric) > 1:
        return numeric[1], -value
    if value == 0 and len(numeric) > 2:
        return numeric[2], value
    return numeric[0], value


def _literals(section: _Section) -> str:
    return "".join(t.text for t in section.tokens if t.kind in ("literal", "other")).strip()


def _filled(section: _Section, text: str, kind: str) -> str:
    parts = [
        text if token.kind == kind else token.text
        for token in section.tokens
        if token.kind in (kind, "literal", "other")
    ]
    return "".join(parts).strip()


def _rounded(value: Decimal, digits: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def _decimal(section: _Section, value: float) -> str:
    """Format a number: its digits replace the placeholders `0`, `#` and `?` of the section."""
    tokens = section.tokens
    places = [i for i, token in enumerate(tokens) if token.kind == "digit"]
    point = next(
        (i for i, t in enumerate(tokens) if t.kind == "other" and t.text == "."), len(tokens)
    )
    whole = [i for i in places if i < point]
    part = [i for i in places if i > point][:_MAX_DIGITS]
    commas = [i for i, t in enumerate(tokens) if t.kind == "other" and t.text == ","]
    last = whole[-1] if whole else -1
    scaling = [i for i in commas if i > last and (i < point or i > places[-1])]
    has_groups = any(whole and whole[0] < i < last for i in commas)
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite() or abs(number.adjusted()) > 300:
        return general(value)
    percents = sum(t.kind == "other" and t.text == "%" for t in tokens)
    number = number.scaleb(2 * percents - 3 * len(scaling))
    number = _rounded(abs(number), len(part)) if abs(number) < Decimal(10) ** 20 else abs(number)
    head, _, tail = f"{number:f}".partition(".")
    head = head.lstrip("0")
    tail = tail.ljust(len(part), "0")
    shown = dict.fromkeys(commas, "")
    for order, i in enumerate(reversed(whole)):
        digit = head[-1 - order] if order < len(head) else ""
        if i == whole[0] and len(head) > order:
            digit = head[: len(head) - order]
        if not digit:
            digit = {"0": "0", "#": "", "?": " "}[tokens[i].text]
        shown[i] = _grouped(digit, order) if has_groups else digit
    optional = len(tail.rstrip("0"))
    for order, i in enumerate(part):
        is_kept = order < optional or tokens[i].text == "0"
        is_kept = is_kept or any(tokens[j].text == "0" for j in part[order:])
        shown[i] = tail[order] if is_kept else {"#": "", "?": " "}[tokens[i].text]
    if not whole and point < len(tokens):
        shown[point] = f"{head}."
    text = "".join(
        shown.get(i, "" if token.kind not in ("digit", "literal", "other") else token.text)
        for i, token in enumerate(tokens)
    )
    sign = "-" if value < 0 and number else ""
    return sign + text.strip()


def _grouped(digits: str, order: int) -> str:
    """Return digits with a comma after each group of thousands.

    The last digit has the place value 10 ** `order`.
    """
    text = ""
    for more, digit in enumerate(reversed(digits)):
        place = order + more
        text = digit + ("," if place % 3 == 0 and place else "") + text
    return text


def _scientific(section: _Section, value: float) -> str:
    at = next(i for i, t in enumerate(section.tokens) if t.kind == "exponent")
    front, behind = section.tokens[:at], section.tokens[at + 1 :]
    code = "".join(t.text for t in front if t.kind in ("digit", "other"))
    digits = sum(char in "0#?" for char in code.partition(".")[2])
    step = max(sum(char in "0#?" for char in code.partition(".")[0]), 1)
    number = abs(Decimal(repr(value)) if isinstance(value, float) else Decimal(value))
    power = number.adjusted() if number else 0
    power -= power % step if step > 1 else 0
    mantissa = _rounded(number.scaleb(-power), digits)
    if mantissa >= Decimal(10) ** step:
        power += step
        mantissa = _rounded(number.scaleb(-power), digits)
    sign = "-" if power < 0 else ("+" if section.tokens[at].text[1] == "+" else "")
    size = sum(t.kind == "digit" and t.text == "0" for t in behind)
    text = f"{mantissa:f}E{sign}{abs(power):0{size or 1}}"
    literals = "".join(t.text for t in behind if t.kind == "literal")
    return f"{'-' if value < 0 else ''}{text}{literals}".strip()


def _fraction(section: _Section, value: float) -> str:
    """Format a number as a whole number and a fraction, such as "1 1/2"."""
    found = re.search(r"([0#?]+)\s*/\s*(\d+|[0#?]+)\s*$", section.text.strip().rstrip("%"))
    if not found:
        return general(value)
    number = Fraction(abs(value)).limit_denominator(10**9)
    has_whole = bool(re.search(r"[0#?]", section.text[: found.start()]))
    whole, rest = divmod(number, 1) if has_whole else (0, number)
    if found[2].isdigit() and int(found[2]):
        bottom = int(found[2])
        top = int(rest * bottom + Fraction(1, 2))
    else:
        near = rest.limit_denominator(10 ** min(len(found[2]), 6) - 1)
        top, bottom = near.numerator, near.denominator
    if has_whole and top == bottom:
        whole, top = whole + 1, 0
    parts = [str(whole)] if has_whole and (whole or not top) else []
    parts += [f"{top}/{bottom}"] if top or not has_whole else []
    literals = "".join(t.text for t in section.tokens if t.kind == "literal" and t.text.strip())
    return f"{'-' if value < 0 else ''}{' '.join(parts)}{literals}"
