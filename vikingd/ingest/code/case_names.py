"""The names of the cases in a file of tests."""

from __future__ import annotations

from collections.abc import Iterator

from vikingd.domain.text import lazy, one_line
from vikingd.ingest.file_kind_names import TEST_NAME
from vikingd.ingest.file_syntax import ending

_READ = 1 << 15  # characters that are searched
_LEAST = 2  # cases; one alone is told by its signature
_WORDED = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".rb", ".coffee")
"""The suffixes of test files whose cases are named by a text, as in `it("adds numbers")`."""

# The names that mocha, Jest, RSpec and the like describe in words.
_DESCRIBED = lazy(
    r"^[ \t]*(?:describe|context|suite|it|test|specify|should|scenario)(?:\.(?!each)\w+)*[ \t(]+"
    r"(?:([\"'`])((?:(?!\1)[^\\\n]|\\.)+)\1|[A-Z][\w:.]*(?= do\b))",
    8,
)
# The functions that pytest, `go test`, JUnit, xUnit and the like run.
_FUNCTION = lazy(
    r"^[ \t]*(?:async[ \t]+)?"
    r"(?:def[ \t]+(test_\w+)|func[ \t]+((?:Test|Benchmark|Fuzz|Example)\w*)\()"
    r"|@(?:\w*Test|Property)\b(?:\([^()\n]*\))?\s+(?:@[^\n]*\n\s*){0,8}(?:public[ \t]+)?"
    r"(?:[\w<>]+|fun)[ \t]+(\w+|`[^`\n]+`)[ \t]*\("
    r"|#\[(?:\w+::)?test(?:\([^\]\n]*\))?\]\s+(?:#\[[^\n]*\n\s*){0,8}"
    r"(?:pub )?(?:async )?fn[ \t]+(\w+)"
    r"|^[ \t]*\[(?:Fact|Theory|Test(?:Method|Case)?|Property)\b[^\n]*\n"
    r"(?>(?:[ \t]*(?:\[|//)[^\n]*\n){0,64})[ \t]*(?:public[ \t]+)?(?:async[ \t]+)?"
    r"[\w<>]+[ \t]+(\w+)[ \t]*\("
    r"|public[ \t]+function[ \t]+(test\w+)[ \t]*\(",
    8,
)


def case_names(content: str, name: str, limit: int) -> str:
    """Return the names of a file's test cases, at most `limit` characters; "" if it has none."""
    is_test = TEST_NAME(name)
    is_worded = is_test or ending(name) in _WORDED
    if not is_worded:
        return ""
    kept, length = dict[str, None](), 0
    for one in _names(content[:_READ], is_test=is_test):
        if one in kept:
            continue
        length += len(one) + 2
        if kept and length > limit - 1:
            kept["…"] = None
            break
        kept[one] = None
    return "; ".join(kept)[:limit] if len(kept) >= _LEAST else ""


def _names(text: str, *, is_test: bool) -> Iterator[str]:
    for found in _DESCRIBED.finditer(text):
        yield one_line(found[2] or found[0].split()[-1].rpartition("(")[2])
    if is_test:
        for found in _FUNCTION.finditer(text):
            yield next(filter(None, found.groups())).strip("`")
