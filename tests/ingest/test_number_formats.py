"""Number formats of spreadsheets: a table of values, formats and the texts that programs show."""

from __future__ import annotations

import pytest

from vikingd.ingest.formats.number_formats import (
    is_shown_with_time,
    shown_duration,
    shown_number,
    shown_text,
)

EURO = '_-* #,##0.00\\ "€"_-;-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-'
SIZES = '[>=1000000]0.0,,"M";[>=1000]0.0,"K";0'
NUMBERS = [
    (12, '0"%"', "12%"),
    (12, r"0\%", "12%"),
    (0.12, "0%", "12%"),
    (0.1234, "0.0%", "12.3%"),
    (0.12, '0%" of all"', "12% of all"),
    (0.25, '0%;-0%;"-"', "25%"),
    (1234.5, "#,##0.00", "1,234.50"),
    (-1234.5, "#,##0.00;[Red](#,##0.00)", "(1,234.50)"),
    (-1234.5, "#,##0.00", "-1,234.50"),
    (1e6, "#,###", "1,000,000"),
    (0, "#,###", ""),
    (0, '0;-0;"zero"', "zero"),
    (-3, "0", "-3"),
    (-3, "0_ ;[Red]\\-0\\ ", "-3"),
    (5, "[Blue]+0;[Red]-0", "+5"),
    (-5, "[Blue]+0;[Red]-0", "-5"),
    (1234567, '#,##0,"K"', "1,235K"),
    (1234567, '0.0,,"M"', "1.2M"),
    (1500000, SIZES, "1.5M"),
    (1500, SIZES, "1.5K"),
    (-5, '[>=1000]0.0,"K";0', "-5"),
    (50, '[>=100]"big";[<10]"small";0', "50"),
    (500, '[>=100]"big";[<10]"small";0', "big"),
    (5, "000", "005"),
    (5551234567, "(000) 000-0000", "(555) 123-4567"),
    (20240131, '0000"-"00"-"00', "2024-01-31"),
    (1.5, "# ?/?", "1 1/2"),
    (0.5, "# ?/?", "1/2"),
    (2.75, "# ??/4", "2 3/4"),
    (0.00012, "0.00E+00", "1.20E-04"),
    (12345, "0.00E+00", "1.23E+04"),
    (12345, "##0.0E+0", "12.3E+3"),
    (3.14159, "0.##", "3.14"),
    (0.5, "#.##", ".5"),
    (1.005, "0.00", "1.01"),
    (2.5, "0", "3"),
    (9.99, "[$€-407] #,##0.00", "€ 9.99"),
    (9.99, "#,##0.00\\ [$€-1]", "9.99 €"),
    (1234, EURO, "1,234.00 €"),
    (-100, '"$"#,##0_);\\("$"#,##0\\)', "($100)"),
    (1234.5, "¥#,##0", "¥1,235"),
    (12.5, '0.0"°C"', "12.5°C"),
    (7, '0 "d"', "7 d"),
    (5, '"No. "0', "No. 5"),
    (1000, 'General" kg"', "1000 kg"),
    (1000, "General", "1000"),
    (0.1 + 0.2, "General", "0.3"),
    (3, "@", "3"),
    (5, ";;;", ""),
    (12, "0‰", "12‰"),
    (7, "[DBNum1]0", "7"),
    (10**40, "0", "1" + "0" * 40),
    (1e300, "0" * 1001, "1e+300"),
]


@pytest.mark.parametrize(("value", "code", "text"), NUMBERS)
def test_numbers_are_shown_by_their_format(value: float, code: str, text: str) -> None:
    """Signs, literal text, scales, sections and digits are those that a reader sees."""
    assert shown_number(value, code) == text


@pytest.mark.parametrize(
    ("seconds", "code", "text"),
    [
        (95400, "[h]:mm", "26:30"),
        (95400, "[h]:mm:ss", "26:30:00"),
        (5400, "[mm]", "90"),
        (37800, "h:mm", "10:30"),
        (37800, 'hh"h"mm', "10h30"),
        (50400, "h:mm AM/PM", "2:00 PM"),
        (0, "h AM/PM", "12 AM"),
        (125.5, "mm:ss.0", "02:05.5"),
        (-3600, "[h]:mm", "-1:00"),
    ],
)
def test_times_are_shown_by_their_format(seconds: float, code: str, text: str) -> None:
    """A span of time goes on behind 24 hours; a clock has its halves of the day."""
    assert shown_duration(seconds, code) == text


def test_texts_have_a_section_of_their_own() -> None:
    """The fourth section, or `@`, adds text; `;;;` hides it."""
    assert shown_text("Smith", '"Mr "@') == "Mr Smith"
    assert shown_text("x", "0;0;0;@") == "x"
    assert shown_text("x", ";;;") == ""
    assert shown_text("x", "0.00") == "x"


def test_a_format_shows_a_day_or_a_time() -> None:
    """`m` is a month, but for minutes beside hours or seconds."""
    assert is_shown_with_time("dd/mm/yyyy") == (True, False)
    assert is_shown_with_time("mmm") == (True, False)
    assert is_shown_with_time("h:mm") == (False, True)
    assert is_shown_with_time("yyyy-mm-dd hh:mm") == (True, True)
