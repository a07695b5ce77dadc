"""The end of failed calls: their errors keep nothing of the request and hold up nothing."""

from __future__ import annotations

from vikingd.wire.call_interceptor import _clear


def test_an_error_that_is_its_own_cause_is_cleared_once() -> None:
    """Errors that several calls share can form a circle; the frames of each are dropped."""
    one, other = ValueError("one"), ValueError("other")
    for error in (one, other):
        try:
            raise error
        except ValueError:
            pass
    one.__cause__, other.__context__ = other, one
    _clear(one)
    assert one.__traceback__ is None
    assert other.__traceback__ is None
