"""Recognition of Chinese requests to forget, see forget_requests.

"忘了我住在上海" is a request. A clause is one if it consists of a verb of forgetting, a topic,
and words of an order, such as 请. The topic follows the verb or 把, or precedes the verb or the
clause.
"""

from __future__ import annotations

import re

from vikingd.domain.extract import Meant
from vikingd.domain.traditional_chinese import simplified
from vikingd.memory.forget_forms import Asked, Patterns

_FORM = Patterns("chinese_requests")


def request(sentence: str) -> Asked | None:
    """Return the request to forget in a sentence; None if it has none."""
    sentence = _FORM.QUOTED_NAME.sub(r"「\1」", sentence)
    text = simplified(sentence)
    if _FORM.UNREAL.search(text):
        return None
    starts = [(0, 0), *(one.span() for one in _FORM.CLAUSE.finditer(text))]
    for number, (begin, end) in enumerate(starts):
        at = _FORM.LEAD.match(text, end).end()  # type: ignore[union-attr]
        until = starts[number + 1][0] if number + 1 < len(starts) else len(text)
        asked = _clause(text[at:until], text[:begin])
        if asked and asked.topic not in text[:begin] and text[begin : begin + 1] in (":", "："):
            return None
        if asked is not None:
            at = max(0, text.find(asked.topic, 0 if asked.topic in text[:begin] else at))
            front = sentence[:begin].strip(" ，,；;：:") if asked.meant is Meant.BEFORE else ""
            return asked._replace(topic=sentence[at : at + len(asked.topic)], front=front)
    return None


def _clause(clause: str, front: str) -> Asked | None:
    """Return the request that a clause in simplified characters makes; None for no request.

    `front` is the part of the sentence before the clause.
    """
    end = _FORM.END.search(clause)
    assert end
    body, ends = re.sub(r"\A(.{1,3})\1\Z", r"\1", clause[: end.start()]), end[0]
    if found := _FORM.NEVER_SAID.match(body):
        return _asked(body[found.end() :], front, is_named=True, is_sure=True)
    if re.fullmatch("[这那刚我].{0,8}(?:不算|作废)", body):
        return Asked("", Meant.BEFORE, True)
    for verb in _FORM.VERB.finditer(body):
        before, topic = body[: verb.start()], body[verb.end() :]
        kind, word = str(verb.lastgroup), verb[0]
        if word[:1] in "撤收":
            before = before.removeprefix("我")
        order = _FORM.ORDER.match(before)
        assert order
        left, told = before[order.end() :], order[0]
        is_soft = "吧" in ends or "呗" in ends or bool(_FORM.SOFT.search(told))
        if topic and left:
            continue
        if re.search("[吗？?]", ends) and not (
            _FORM.SOFT.search(told + left) or re.search("好吗|可以吗|行吗|不", ends)
        ):
            return None
        is_named = _FORM.NAMES_MEMORY.search(clause) is not None
        is_reproach = told in ("你", "您") and not _FORM.EVERY.search(left)
        if (
            is_reproach
            and (kind == "forget" or "吧" not in ends)
            and (left or topic)
            and (kind == "forget" or "了" in word + ends)
        ):
            return None
        if not left:
            return _topic_after_verb(
                topic, kind, word, front, ends, is_soft=is_soft, is_named=is_named
            )
        marks = _FORM.MARKS.search(left)
        assert marks
        topic = left[: marks.start()]
        if topic[:1] in ("把", "将"):
            is_told = word in ("忘了", "忘掉了", "忘记了", "忘") and not is_soft
            doubt = is_told and (
                "都" in marks[0] or not re.search("[这那](?:件事|事|条)|说过?的", topic)
            )
            return _asked(
                topic[1:], front, is_named=is_named, is_sure=not doubt, deletes=kind == "delete"
            )
        if re.search("把|将|(?:我(?:都|已经|全|也)?|[别不没])$", topic):
            return None
        if not (kind == "keep" or re.search("请|麻烦|可以|就|你|全|都|我|能", marks[0]) or is_soft):
            return None
        is_kept = kind == "keep" and word[-1] in "着得"
        is_known = is_named or is_kept or "给我" in marks[0] or topic[-1:] == "个"
        is_sure = is_named or is_kept or kind == "forget" or _FORM.BEGINS.match(topic) is not None
        return _asked(topic, front, is_named=is_known, is_sure=is_sure)
    return None


def _topic_after_verb(
    topic: str, kind: str, word: str, front: str, ends: str, *, is_soft: bool, is_named: bool
) -> Asked | None:
    """Return the request of a clause whose topic follows its verb: "请忘了我的地址"; or None."""
    if not topic:
        if kind == "keep" and not (front and _names(front)):
            return None
        return _request_without_topic(front, is_sure=kind != "forget" or "掉" in word)
    if kind == "keep" and not (re.search("[再续着了得想]|保", word + ends)):
        return None
    may_tell = kind == "forget" and "掉" not in word and not is_soft  # 忘了带钥匙
    tells = _FORM.FORGOT.match(topic) or _FORM.ASKS.search(topic)
    if may_tell and (tells or not _FORM.SURELY.search(topic)):
        return None
    is_mine = _FORM.MINE.match(topic) is not None or re.search("关于|有关|说|「", topic) is not None
    if kind == "delete" and not (is_named or is_mine):
        return None
    return _asked(topic, front, is_named=is_named, is_sure=True, deletes=kind == "delete")


def _asked(
    topic: str, front: str, *, is_named: bool, is_sure: bool, deletes: bool = False
) -> Asked | None:
    if not topic or _FORM.LAST.fullmatch(topic):
        return _request_without_topic(front, is_sure=is_sure or not front)
    made = _topic(topic, is_named=is_named)
    if made is None:
        return None
    is_else = deletes and not is_named and _FORM.EXTERNAL.match(made[0])
    return Asked(*made, is_sure and not is_else)


def _names(front: str) -> tuple[str, Meant] | None:
    """Return the topic in the last clause of `front`: "我的地址，忘了吧"; None if it names none."""
    last = _FORM.CLAUSE.split(front)[-1]
    last = _FORM.PREDICATE.sub("", last[_FORM.LEAD.match(last).end() :])  # type: ignore[union-attr]
    said = _FORM.SAID.match(last)
    is_named = not _FORM.VERB.search(last) and (
        _FORM.BEHIND.search(last)
        or (said and said[0])
        or (last != front and _FORM.PREDICATE.search(front))
        or re.fullmatch(r"我.*(?:哪|谁|什么|多少|几\w).*", last)
    )
    return _topic(last, is_named=True) if is_named and last else None


def _request_without_topic(front: str, *, is_sure: bool) -> Asked | None:
    """Return the request of a clause without a topic, such as "忘了吧".

    It means the topic in `front` if that names one, else the user's previous statement.
    """
    found = _names(front) if front else None
    return Asked(*found, True) if found else Asked("", Meant.BEFORE, is_sure)


def _topic(topic: str, *, is_named: bool) -> tuple[str, Meant] | None:
    """Return the topic without connecting words, and the kind of thing that it means.

    None for none.
    """
    topic = re.sub(r"[了吧啦啊哈]+\Z", "", topic.strip(" ，,。！!、：:"))
    if topic in ("", "掉") or _FORM.TASK.fullmatch(topic):
        return None
    is_every = _FORM.EVERY.search(topic) is not None
    if _FORM.GENERIC.fullmatch(topic):
        return ("", Meant.EVERYTHING) if is_every and "我" in topic else None
    if found := _FORM.SECTION.fullmatch(topic):
        return (found["what"] or found["under"]).strip("「」 "), Meant.ALL_OF
    said = _FORM.SAID.match(topic)
    assert said
    inner = topic[said.end() :]
    if said["with"]:
        inner = re.sub(r"(?:有关|相关).*\Z", "", inner)
    core = _FORM.BEHIND.sub("", inner).strip("「」 ")
    if _FORM.GENERIC.fullmatch(core):
        return ("", Meant.EVERYTHING) if said[0] or is_every else None
    if said["just"] or said["now"]:
        return core, Meant.BEFORE
    is_fact = re.search(r"[这那](?:件|个|回|一)?(?:事|点|条|句)", inner[len(core) :]) is not None
    if _is_statement(core) or (
        is_fact and re.match("我(?!.*的)", core) and not _FORM.NOUN.search(core)
    ):
        return core, Meant.STATEMENT
    if is_every:
        return core, Meant.ALL_OF
    is_topic = is_named or said[0] or core != inner or _FORM.MINE.match(topic)
    return (core, Meant.TOPIC) if is_topic else None


def _is_statement(text: str) -> bool:
    """Return True for a topic that is a statement, such as "我住在上海", and not a noun."""
    return bool(_FORM.STATES.match(text)) and not (
        _FORM.ASKS.search(text) or _FORM.NOUN.search(text)
    )
