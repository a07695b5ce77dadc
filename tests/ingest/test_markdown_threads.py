"""Markdown parsers that threads share."""

import subprocess
import sys

_PROGRAM = """
from markdown_it import ruler
from vikingd.ingest import markdown

markdown._parsers()

def compile(rules):
    raise AssertionError("a parse compiles rules that other threads use")

ruler.Ruler.__compile__ = compile
(block,) = markdown.blocks("# A\\n\\n- *b*\\n", 0, lambda *_: True)
assert block.section == "A"
assert markdown.title("# A *b*") == "A b"
assert list(markdown.paragraphs("A `b`")) == [("A b", True)]
"""


def test_no_parse_changes_a_parser() -> None:
    """Parsers compile their rules before any thread has them, so none sees a part of them."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
