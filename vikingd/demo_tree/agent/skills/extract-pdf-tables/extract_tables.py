"""Cuts the words of a page into the rows and columns of a table."""

from collections import defaultdict


def rows(words, tolerance=3.0):
    """Groups words (x, y, text) whose baselines differ by less than the tolerance."""
    lines = defaultdict(list)
    for x, y, text in words:
        lines[round(y / tolerance)].append((x, text))
    return [sorted(line) for _, line in sorted(lines.items())]


def columns(lines, gap=12.0):
    """Begins a cell wherever two words stand further apart than the gap."""
    for line in lines:
        cells, last = [], None
        for x, text in line:
            if last is None or x - last > gap:
                cells.append(text)
            else:
                cells[-1] += " " + text
            last = x + 5.0 * len(text)
        yield cells
