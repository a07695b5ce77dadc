"""The order in which contexts wait for their description."""

from __future__ import annotations

import random

from vikingd.domain.uri import ancestors, is_within
from vikingd.engine.description_queue import PAUSE, DescriptionQueue

TOP = "viking://resources/a"


def taken(queue: DescriptionQueue, now: float = 0.0) -> list[str]:
    """Take and end all contexts that have their turn, and return them."""
    found = []
    while (uri := queue.take(now)) is not None:
        found.append(uri.removeprefix("viking://"))
        queue.done(uri)
    return found


def test_files_come_first_then_the_directories_from_below() -> None:
    """A file lets the directories above it wait, and each waits for all below it."""
    queue = DescriptionQueue()
    queue.add(f"{TOP}/b/one.md", False)
    queue.add(f"{TOP}/two.md", False)
    assert len(queue) == 6
    assert taken(queue) == [
        *("resources/a/b/one.md", "resources/a/two.md"),
        *("resources/a/b", "resources/a", "resources", ""),
    ]
    assert len(queue) == 0


def test_a_directory_waits_for_a_context_in_work() -> None:
    """Two workers never have a directory and a context below it at once."""
    queue = DescriptionQueue()
    queue.add(f"{TOP}/one.md", False)
    queue.add(f"{TOP}/two.md", False)
    one, two = queue.take(0), queue.take(0)
    assert (one, two) == (f"{TOP}/one.md", f"{TOP}/two.md")
    queue.done(f"{TOP}/one.md")
    assert queue.take(0) is None
    queue.put_back(f"{TOP}/two.md")
    assert queue.take(0) == f"{TOP}/two.md"
    queue.done(f"{TOP}/two.md")
    assert queue.take(0) == TOP


def test_a_context_that_changes_in_work_waits_again() -> None:
    """The description of an older state is not the last one."""
    queue = DescriptionQueue()
    queue.add(f"{TOP}/one.md", False)
    assert queue.take(0) == f"{TOP}/one.md"
    queue.add(f"{TOP}/one.md", False)
    queue.done(f"{TOP}/one.md")
    assert taken(queue)[:2] == ["resources/a/one.md", "resources/a"]


def test_a_directory_in_the_place_of_a_file_waits_for_what_is_below() -> None:
    """A file that becomes a directory while it waits or is in work has its turn after that."""
    for in_work in (False, True):
        queue = DescriptionQueue()
        queue.add(TOP, False)
        if in_work:
            assert queue.take(0) == TOP
        queue.add(f"{TOP}/one.md", False)
        if in_work:
            queue.done(TOP)
        order = ["resources/a/one.md", "resources/a", "resources", ""]
        assert taken(queue) == order
        assert len(queue) == 0


def test_no_context_is_asked_about_twice_in_a_minute() -> None:
    """A second question is postponed unless it is asked for, and no directory waits for it."""
    queue = DescriptionQueue()
    file = f"{TOP}/one.md"
    for now in (0.0, 10.0):
        queue.add(file, False)
        assert queue.take(now) == file
        if now:
            break
        assert queue.may_ask(file, now)
        queue.answered(file, now)
        queue.done(file)
    assert not queue.may_ask(file, 10.0)
    assert taken(queue, 10.0) == ["resources/a", "resources", ""]
    assert queue.due(10.0) == PAUSE - 10
    assert len(queue) == 1
    queue.add(file, False)  # another change
    assert taken(queue, PAUSE - 0.1) == ["resources/a", "resources", ""]
    assert taken(queue, PAUSE)[0] == "resources/a/one.md"
    assert queue.due(PAUSE) is None
    queue.answered(file, PAUSE)
    queue.ask_for(file, False, again=True)
    assert queue.take(PAUSE) == file
    assert queue.may_ask(file, PAUSE)
    assert queue.is_again(file)
    queue.answered(file, PAUSE)
    queue.done(file)
    assert not queue.is_again(file)
    queue.add(file, False)
    queue.add(file, False)
    assert queue.take(PAUSE) == file
    assert not queue.may_ask(file, PAUSE)
    queue.ask_for(file, False, again=False)  # the one that is postponed
    assert queue.take(PAUSE) == file
    assert queue.may_ask(file, PAUSE)


def test_the_queue_ends_whatever_happens() -> None:
    """Of random calls: no directory is taken before what waits below it, and all are taken."""
    rng = random.Random(49)
    for _ in range(60):
        queue, now = DescriptionQueue(), 0.0
        working: set[str] = set()
        waiting: set[str] = set()
        asked: dict[str, float] = {}
        postponed: dict[str, float] = {}
        for step in range(400):
            now += rng.random()
            postponed = {uri: due for uri, due in postponed.items() if due > now}
            if step < 200 and rng.random() < 0.5:
                depth = rng.randint(0, 3)
                directory = "/".join([TOP, *(rng.choice("xy") for _ in range(depth))])
                file = f"{directory}/{rng.randint(0, 3)}.md"
                queue.add(file, False)
                waiting |= {file, *ancestors(file)}
                continue
            uri = queue.take(now)
            if uri is None:
                if not working:
                    break
                uri = working.pop()
                queue.done(uri)
                continue
            waits = (waiting | working) - set(postponed) - {uri}
            assert not any(is_within(one, uri) for one in waits)
            waiting.discard(uri)
            if rng.random() < 0.1:
                queue.put_back(uri)
                waiting.add(uri)
            elif rng.random() < 0.5:
                if queue.may_ask(uri, now):
                    assert now - asked.get(uri, -PAUSE) >= PAUSE
                    asked[uri] = now
                    queue.answered(uri, now)
                    working.add(uri)
                else:
                    waiting.add(uri)
                    postponed[uri] = asked[uri] + PAUSE
            else:
                queue.done(uri)
        while working:
            queue.done(working.pop())
        while (due := queue.due(now)) is not None or len(queue):
            now += due or 0
            assert taken(queue, now)
        assert len(queue) == 0
