"""Chinese requests to forget, see forget_requests.

A clause is an order if all beside its verb of forgetting and its topic are words of an order. The
topic is behind the verb, behind 把, or in front of the verb or of the clause.
"""

from __future__ import annotations

import re

from vikingd.domain.extract import Meant
from vikingd.domain.text import lazy
from vikingd.domain.traditional import simplified
from vikingd.memory.forget_forms import Asked

_LEAD = lazy(
    r"(?:(?:那么?(?!个|条|些|件|句|段|次)|哦|噢|啊|嗯|欸|诶|对了?|好的?|另外|还有|顺便(?:说一下|说一句)?|其实|算了|不好意思|"
    r"抱歉|对不起|谢谢|等等|等一下|不对|哎|唉|行(?!程)|所以|然后|最后|以后(?!的))[，,。！!、…\s]*)*"
)
_FROM = (
    r"(?:从|在)?(?:[你您]?的?(?:记忆|记录|备忘录?|档案|笔记|记忆库|数据库)(?:里面?|中|上|那里)|"
    r"[你您](?:那儿|那里|这儿|这里|那边|这边|脑子里|脑海里))"
)
_PLEASE = r"我?(?:请|麻烦|拜托|劳烦|烦请|希望|想让|想请|要)"
_MAY = r"能不能|可不可以|可否|能否|能"
_SOFT = (
    rf"{_PLEASE}|{_MAY}|可以|就|还是|帮我|帮忙|给我|替我|先|也|都|赶紧|马上|立刻|直接|最好|一定要|"
    r"务必|现在|彻底|完全|尽快|应该|全部?|统统|通通|一并|顺便"
)
_ORDER = lazy(rf"(?:{_SOFT}|[你您]|{_FROM})*")
_MARKS = lazy(rf"(?:{_SOFT}|[你您给]|{_FROM})*\Z")
_VERB = lazy(
    r"(?P<forget>忘(?:了|掉|记|干净|光)?(?:掉|了)?)|"
    r"(?P<delete>(?:删|清|抹|擦|划)(?:掉|除|去|空|干净)?(?:了|一下)*|去掉|移除|消除|销毁|[撤收](?:回|掉|销))了?|"
    r"(?P<keep>(?:我?不再?(?:想|希望|需要)(?:让|要)?[你您]?|不要|别|不用|不必|无需|用不着|没必要|停止)(?:再|继续)?(?:帮我)?"
    r"(?:记得|记着|记住|记|保留|存着|留着|保存|存|留))"
)
_END = lazy(
    r"(?:吧|了|啦|它|好了|就好|就行|谢谢|好吗|可以吗|行吗|行不行|好不好|吗|嘛|呗|哈|哦|啊|呀|"
    r"[。！!？?～~…\s])*\Z"
)
_CLAUSE = lazy(r"[，,；;：:]\s*(?:所以|那(?!个|条)|然后|就)?")
_LAST = lazy(
    r"(?:我?(?:刚才|刚刚|刚|上面|前面|之前)?我?(?:跟你)?说过?的(?:话|那句话?|这句话?|那些|内容|事)?|"
    r"[这那](?:个|句话?|件?事情?|事儿?|条(?:记忆|记录)?|些|段)?|(?:刚才|刚刚)[那这](?:句话?|个|条)|上一[句条]话?|"
    r"我?(?:刚才|刚刚)的话|它)"
)
_NEVER_SAID = lazy(
    r"(?:[这那刚]\w{0,4}?)?[你您]?就?[当作只]+我?(?:刚才|刚刚|从来)*(?:什么都|啥都)?没(?:有)?(?:跟你)?(?:说|讲|提)过?"
)
_UNREAL = lazy(
    r"如果|要是|假如|万一|的话(?![吧忘删都全])|假设|怎么|如何|为什么|什么时候|会不会|是不是|例如|"
    r"比如|开玩笑|翻译|[“”『』\"]"
)
_ASKS = lazy(r"哪|谁|什么|啥|几[点号个岁楼]|多少|多[大高重]|怎")
_FORGOT = lazy(
    r"告诉|说|带|问|提|拿|关(?!于)|锁|买|写|做|吃|交|给|打|回|发|要|在|把|了|去|跟|和|密码"
)
_NAMES_MEMORY = lazy(rf"{_FROM}|[那这]一?个?(?:条|栏|类|标题|分类)|记忆|记录")
_SURELY = lazy(r"关于|有关|所有|一切|这件事|这回事|这一点|的事|这事|这个事|说过?的|说过我")
_EVERY = lazy(r"所有|一切|全部|任何|统统|通通")
_BEGINS = lazy(r"我|关于|有关|那|这|之前|刚才|刚刚|以前|所有|上次|「")
_THING = (
    r"(?:的?(?:上的?)?[这那]一?(?:件|个|回|些|条|句|项|点)(?:的?(?:事实|事情?|事儿|信息|记忆|记录|"
    r"内容|话))?|的?[这那](?:事情?|事儿)|上?的(?:事情?|事儿|事实|内容|记忆|记录|信息|东西|话|部分|"
    r"情况|一切)|的)"
)
_BEHIND = lazy(rf"{_THING}+\Z")
_SAID = lazy(
    r"(?:(?:所有|一切|全部|任何)的?)?(?P<said>我?(?P<just>刚才|刚刚)?(?:之前|以前|上次|昨天)?我?"
    r"(?:(?:(?:跟|和|对|给)你)?(?:说|提|讲)(?:过|起)?|告诉过?你|你[记存知保][得着住了道]?(?=的))的?)?(?:所有|一切|全部|任何)?的?"
    r"(?:(?:关于|有关)|(?P<with>[跟和与])(?=.+(?:有关|相关)))?(?P<now>(?<!说的)(?:我?刚[才刚](?:的|那个|这个)*))?"
)
_PREDICATE = lazy(
    r"(?:已经|早就|都|现在)?(?:作废|没用|过期|失效|是误会|[是不]+真的|是假的|误诊)了?\Z"
)
_SECTION = lazy(
    r"(?P<what>.+?)(?:的?[这那]一?(?:个)?(?:栏目?|标题|分类|类别?|板块|部分|节)|(?:栏目?|标题|"
    r"分类|板块)(?=下|里|底|的|$))(?:下面?|底下|里面?|中)?的?(?:所有|全部|一切)?的?(?:记忆|内容|"
    r"东西|信息|记录)?|(?P<under>.+?)(?:下面?|底下|里面?)的?(?:所有|全部|一切)?的?(?:记忆|内容|东西|信息|记录)"
)
_GENERIC = lazy(
    r"(?:我|你|一切|所有|全部|的|这|那|些|个|条|事情?|东西|记忆|信息|关于|内容|什么|知道|说|过|刚才)*"
)
_TASK = lazy(
    r".*(?:问题|请求|指令|提示词|规则|代码|文件|段落?|行|句子|例子|笑话|草稿|上面|以上|对话|聊天|设定|列|"
    r"邮件|文章|任务|作业|单词|标点|空格|烦恼|压力|不快|难过|痛苦)(?:的?内容)?"
)
_EXTERNAL = lazy(
    r".*(?:账号|帐号|日程|会议|闹钟|提醒|预约|订单|订阅|照片|图片|视频|应用|文件夹|目录|数据库|表格|"
    r"评论|好友|群)"
)
_MINE = lazy(r"我|咱|[那这]个|(?:以前|之前|旧)的|「")
_STATES = lazy(
    r"(?:我们?|咱们?)(?!的)\w{0,6}?(?:住|在|是|叫|喜欢|讨厌|不|有|对|会|想|要|吃|喝|养|姓|去|学|爱|"
    r"怕|搬|得|做|当|打算|结婚|离婚|辞|换|买|卖|用|过敏|戒|抽|怀|坐|离|失|考)"
)
_NOUN = lazy(r"(?:生日|地址|住址|名字|电话|号码?|邮箱|密码|年龄|工资|月薪|收入|体重|身高|薪水)\Z")
_QUOTED_NAME = lazy(r"[“\"](\w{1,12})[”\"](?=[的]?(?:下|底下|里|[这那]|栏|标题|分类))")


def request(sentence: str) -> Asked | None:
    """Return what a sentence asks to forget; None for no request."""
    sentence = _QUOTED_NAME.sub(r"「\1」", sentence)
    text = simplified(sentence)
    if _UNREAL.search(text):
        return None
    starts = [(0, 0), *(one.span() for one in _CLAUSE.finditer(text))]
    for number, (begin, end) in enumerate(starts):
        at = _LEAD.match(text, end).end()  # type: ignore[union-attr]
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
    """Return what a clause asks to forget, in simplified characters."""
    end = _END.search(clause)
    assert end
    body, ends = re.sub(r"\A(.{1,3})\1\Z", r"\1", clause[: end.start()]), end[0]
    if found := _NEVER_SAID.match(body):
        return _asked(body[found.end() :], front, is_named=True, is_sure=True)
    if re.fullmatch("[这那刚我].{0,8}(?:不算|作废)", body):
        return Asked("", Meant.BEFORE, True)
    for verb in _VERB.finditer(body):
        before, topic = body[: verb.start()], body[verb.end() :]
        kind, word = str(verb.lastgroup), verb[0]
        if word[:1] in "撤收":
            before = before.removeprefix("我")
        order = _ORDER.match(before)
        assert order
        left, told = before[order.end() :], order[0]
        is_soft = "吧" in ends or bool(re.search(_SOFT, told))
        if topic and left:
            continue
        if re.search("[吗？?]", ends) and not (
            re.search(_SOFT, told + left) or re.search("好吗|可以吗|行吗|不", ends)
        ):
            return None
        is_named = _NAMES_MEMORY.search(clause) is not None
        is_reproach = told in ("你", "您") and not _EVERY.search(left)
        if (
            is_reproach
            and (kind == "forget" or "吧" not in ends)
            and (left or topic)
            and (kind == "forget" or "了" in word + ends)
        ):
            return None
        if not left:
            return _behind(topic, kind, word, front, ends, is_soft=is_soft, is_named=is_named)
        marks = _MARKS.search(left)
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
        if not (
            kind == "keep" or re.search("请|麻烦|可以|就|你|全|都|我|能", marks[0]) or "吧" in ends
        ):
            return None
        is_kept = kind == "keep" and word[-1] in "着得"
        is_known = is_named or is_kept or "给我" in marks[0] or topic[-1:] == "个"
        is_sure = is_named or is_kept or kind == "forget" or _BEGINS.match(topic) is not None
        return _asked(topic, front, is_named=is_known, is_sure=is_sure)
    return None


def _behind(
    topic: str, kind: str, word: str, front: str, ends: str, *, is_soft: bool, is_named: bool
) -> Asked | None:
    """Return a request with an order alone in front of its verb."""
    if not topic:
        if kind == "keep" and not (front and _names(front)):
            return None
        return _last(front, is_sure=kind != "forget" or "掉" in word)
    if kind == "keep" and not (re.search("[再续着了得想]|保", word + ends)):
        return None
    if kind == "forget" and "掉" not in word and not is_soft:
        if _FORGOT.match(topic) or _ASKS.search(topic) or not _SURELY.search(topic):
            return None
    is_mine = _MINE.match(topic) is not None or re.search("关于|有关|说|「", topic) is not None
    if kind == "delete" and not (is_named or is_mine):
        return None
    return _asked(topic, front, is_named=is_named, is_sure=True, deletes=kind == "delete")


def _asked(
    topic: str, front: str, *, is_named: bool, is_sure: bool, deletes: bool = False
) -> Asked | None:
    if not topic or _LAST.fullmatch(topic):
        return _last(front, is_sure=is_sure or not front)
    made = _topic(topic, is_named=is_named)
    if made is None:
        return None
    is_else = deletes and not is_named and _EXTERNAL.match(made[0])
    return Asked(*made, is_sure and not is_else)


def _names(front: str) -> tuple[str, Meant] | None:
    """Return the topic that the last clause before an order names."""
    last = _CLAUSE.split(front)[-1]
    last = _PREDICATE.sub("", last[_LEAD.match(last).end() :])  # type: ignore[union-attr]
    said = _SAID.match(last)
    is_named = not _VERB.search(last) and (
        _BEHIND.search(last)
        or (said and said[0])
        or last != front
        and _PREDICATE.search(front)
        or re.fullmatch(r"我.*(?:哪|谁|什么|多少|几\w).*", last)
    )
    return _topic(last, is_named=True) if is_named and last else None


def _last(front: str, *, is_sure: bool) -> Asked | None:
    """Return a request for the statement before, or for the topic in front of it."""
    found = _names(front) if front else None
    return Asked(*found, True) if found else Asked("", Meant.BEFORE, is_sure)


def _topic(topic: str, *, is_named: bool) -> tuple[str, Meant] | None:
    """Return the topic without the words that connect it, and how it is meant."""
    topic = re.sub(r"[了吧啦啊哈]+\Z", "", topic.strip(" ，,。！!、：:"))
    if topic in ("", "掉") or _TASK.fullmatch(topic):
        return None
    is_every = _EVERY.search(topic) is not None
    if _GENERIC.fullmatch(topic):
        return ("", Meant.EVERYTHING) if is_every and "我" in topic else None
    if found := _SECTION.fullmatch(topic):
        return (found["what"] or found["under"]).strip("「」 "), Meant.ALL_OF
    said = _SAID.match(topic)
    assert said
    inner = topic[said.end() :]
    if said["with"]:
        inner = re.sub(r"(?:有关|相关).*\Z", "", inner)
    core = _BEHIND.sub("", inner).strip("「」 ")
    if _GENERIC.fullmatch(core):
        return ("", Meant.EVERYTHING) if said[0] or is_every else None
    if said["just"] or said["now"]:
        return core, Meant.BEFORE
    is_fact = re.search(r"[这那](?:件|个|回|一)?(?:事|点|条|句)", inner[len(core) :]) is not None
    if _states(core) or (is_fact and re.match("我(?!.*的)", core) and not _NOUN.search(core)):
        return core, Meant.STATEMENT
    if is_every:
        return core, Meant.ALL_OF
    is_topic = is_named or said[0] or core != inner or _MINE.match(topic)
    return (core, Meant.TOPIC) if is_topic else None


def _states(text: str) -> bool:
    """Return True for a topic that is a sentence of the user, not a noun."""
    return bool(_STATES.match(text)) and not (_ASKS.search(text) or _NOUN.search(text))
