"""The comparison tells small differences of replies, and masks chance alone."""

from __future__ import annotations

import time

from tests.kept_replies.kept_calls import KeptReply
from tests.kept_replies.reply_differences import Difference, differences
from tests.kept_replies.wire_masks import masked
from vikingd.pb.contexts_pb2 import GetResponse
from vikingd.pb.retrieval_pb2 import FindResponse


def told(before: bytes, after: bytes) -> list[Difference]:
    """Return the differences of two replies to one request."""
    kept = [
        KeptReply("a", "Find", b"", "OK", "", b"", (), (masked(one, FindResponse.DESCRIPTOR),))
        for one in (before, after)
    ]
    return list(differences(kept[:1], kept[1:]))


def found(score: float, milliseconds: int = 5) -> bytes:
    """Return the bytes of a reply."""
    timing = {"stage": "score", "duration": {"nanos": milliseconds * 1_000_000}}
    return FindResponse(
        resources=[{"uri": "viking://resources/a", "score": score}], timings=[timing]
    ).SerializeToString()


def test_a_small_difference_of_a_score_is_told() -> None:
    """Each number counts to its last digit."""
    [one] = told(found(0.5), found(0.5 + 1e-9))
    assert not one.is_in_bytes_alone
    assert "+  score: 0.500000001" in one.text


def test_durations_are_masked() -> None:
    """The length of a stage is chance, but not its name."""
    assert told(found(0.5, 5), found(0.5, 6)) == []
    assert len(told(found(0.5), found(0.5).replace(b"score", b"other"))) == 1


def test_other_bytes_of_the_same_message_are_told_apart() -> None:
    """The order of fields counts by itself."""
    one, two = (FindResponse(**{name: 7}).SerializeToString() for name in ("total", "revision"))
    assert [each.is_in_bytes_alone for each in told(one + two, two + one)] == [True]


def test_times_of_the_clock_are_masked_and_others_are_kept() -> None:
    """A time of a request is no chance."""
    context = {
        "create_time": {"seconds": int(time.time())},
        "time": {"seconds": 1_760_000_000},
        "metadata": {"b": 1, "a": 2},
    }
    shown = GetResponse.FromString(
        masked(GetResponse(context=context).SerializeToString(), GetResponse.DESCRIPTOR)
    )
    assert shown.context.time.seconds == 1_760_000_000
    assert shown.context.HasField("create_time")
    assert shown.context.create_time.seconds == 0
    assert dict(shown.context.metadata) == {"a": 2, "b": 1}
