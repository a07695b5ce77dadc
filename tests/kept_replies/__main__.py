"""`python -m tests.kept_replies`: keep the replies of all RPCs, and compare them after a change."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.kept_replies import kept_calls
from tests.kept_replies.kept_calls import KeptReply
from tests.kept_replies.kept_daemons import DAEMONS, kept_replies, possible
from tests.kept_replies.reply_differences import differences


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.kept_replies", description=__doc__)
    parser.add_argument(
        "command",
        choices=["record", "compare"],
        help="record: write the replies of this code to FILE; compare: exit with 1 if a reply of "
        "this code differs from FILE",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="of kept replies, gzipped JSON")
    parser.add_argument(
        "--with", dest="other", type=Path, metavar="OTHER", help="compare two files"
    )
    parser.add_argument(
        "--only", action="append", choices=DAEMONS, help="a daemon; may be repeated"
    )
    parser.add_argument("--lines", type=int, default=60, help="most lines of a difference; 0: all")
    return parser.parse_args()


def recorded(names: Sequence[str]) -> list[KeptReply]:
    """Return the replies of some daemons of this code."""
    kept = []
    for name in names:
        began = time.monotonic()
        replies = kept_replies(name)
        print(f"{name}: {len(replies)} replies in {time.monotonic() - began:.1f} s", flush=True)
        kept += replies
    return kept


def daemon_of(kept: KeptReply) -> str:
    """Return the name of the daemon that replied."""
    return kept.name.partition(",")[0]


def show(kept: Sequence[KeptReply]) -> None:
    """Print the number of replies by RPC and by status."""
    for title, counts in (
        ("RPC", Counter(one.rpc for one in kept)),
        ("status", Counter(one.code for one in kept)),
    ):
        print(f"{title}: " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))


def compare(before: Sequence[KeptReply], after: Sequence[KeptReply], lines: int) -> int:
    """Print the differences; return their number."""
    found = list(differences(before, after))
    for one in found:
        shown = one.text.splitlines()
        print(one.name)
        print("\n".join(shown[: lines or None]))
        if lines and len(shown) > lines:
            print(f"  and {len(shown) - lines} more lines (--lines 0 shows all)")
    in_bytes = sum(one.is_in_bytes_alone for one in found)
    print(f"{len(after)} replies, {len(found)} differences, {in_bytes} of them in bytes alone")
    return len(found)


def main() -> None:
    """Run the command."""
    given = arguments()
    names = given.only or possible()
    if given.command == "record":
        kept = recorded(names)
        kept_calls.write(given.file, kept)
        show(kept)
        return
    after = kept_calls.read(given.other) if given.other else recorded(names)
    before = kept_calls.read(given.file)
    of_both = {daemon_of(one) for one in before} & {daemon_of(one) for one in after}
    before, after = ([one for one in kept if daemon_of(one) in of_both] for kept in (before, after))
    sys.exit(compare(before, after, given.lines) > 0)


if __name__ == "__main__":
    main()
