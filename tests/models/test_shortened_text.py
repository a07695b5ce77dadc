"""The shortening of long texts for a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vikingd.domain.text import approximate_tokens
from vikingd.models.describe.shortened_text import GAP, shortened

WORDS = st.sampled_from(["word ", "字", "\n\n", "\n## A heading\n", "long" * 30, " ", "\n", "é"])


@given(st.lists(WORDS, max_size=400).map("".join), st.integers(20, 200))
def test_a_text_has_at_most_these_tokens(text: str, tokens: int) -> None:
    """Whatever fits is unchanged; the rest has the size, its beginning and its end."""
    made = shortened(text, tokens)
    if approximate_tokens(text) <= tokens:
        assert made == text
    else:
        assert approximate_tokens(made) <= tokens
        assert text.startswith(made.partition(GAP)[0])
        assert all(part in text for part in made.split(GAP))


@pytest.mark.parametrize("sections", [10, 40, 400])
def test_sections_are_sampled_fairly(sections: int) -> None:
    """Samples come from all quarters of the text, and the end is there."""
    text = "".join(
        f"## Part {n:03}\n\n{'Some words stand here. ' * 40}\n\n" for n in range(sections)
    )
    made = shortened(text + "The end.", 2000)
    assert made.startswith("## Part 000")
    assert made.endswith("The end.")
    numbers = [int(part[:3]) for part in made.split("## Part ")[1:]]
    quarters = {number * 4 // sections for number in numbers}
    assert quarters == {0, 1, 2, 3}
    assert approximate_tokens(made) > 1600
