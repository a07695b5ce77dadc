"""The Chinese forms of a request to forget, see forget_requests."""

from __future__ import annotations

import re

from vikingd.domain.extract import Meant
from vikingd.domain.text import lazy
from vikingd.memory.forget_forms import Asked, end_of, simplified

_LEAD = (
    r"(?:(?:那么?|哦|噢|啊|嗯|欸|诶|对了|好的?|另外|还有|顺便(?:说一下|说一句)?|其实|算了|"
    r"不好意思|抱歉|"
    r"对不起|谢谢|等等|等一下|不对|哎|唉|行|所以|然后|最后|拜托|以后)[，,。！!、…\s]*)*"
)
_ASKS = r"(?:请|麻烦|拜托|劳烦|烦请|希望|想让|想请|要)"
_CAN = (
    r"(?:可以|就|还是|帮我|帮忙|给我|先|也|都|赶紧|直接|最好|一定要|务必|现在|彻底|完全|尽快|"
    r"应该|全|"
    r"统统|通通)"
)
_MAY = r"(?:能不能|可不可以|可否|能否|能)"
_ORDER = rf"(?P<please>我?{_ASKS})?(?P<you>[你您])?(?P<may>{_MAY})?(?P<can>{_CAN}*)"
_DELETES = r"(?:删掉|删除|删了|删一下|删|清除|清掉|清空|抹掉|抹去|抹除|去掉|移除|忘掉|忘干净|忘光)"
_FORGETS = r"(?:忘了|忘记)"
_FROM = (
    r"(?:从|在)?(?:(?:你|您)?的?(?:记忆|记录|备忘录?|档案|笔记|记忆库)(?:里面?|中|上|那里)?|"
    r"(?:你|您)(?:那儿|那里|"
    r"这儿|这里|那边|这边|脑子里))"
)
_END = (
    r"(?P<end>(?:吧|了|啦|掉|它|好了|就好|就行|谢谢|好吗|可以吗|行吗|行不行|好不好|吗|哈+|哦|"
    r"啊|[。！!？?～~…\s])*)"
    r"(?P<tail>[，,].*)?"
)
_UNREMEMBERS = (
    r"(?:不要|别|不用|不必|无需|用不着|不需要|没必要)(?P<again>再|继续)?(?:帮我)?(?:记得|记着|记住|"
    r"记|保留|存着|留着|保存|提起?)"
)
_REQUEST = lazy(
    rf"{_ORDER}(?:(?:{_FROM})?(?P<verb>{_FORGETS}|{_DELETES})(?:掉|了)?(?P<topic>.+?)"
    rf"|(?:{_FROM})?(?:把|将)(?P<ba>.+?)(?:都|全部?|也|给|统统|通通|彻底|完全|{_FROM}|就|我)*"
    rf"(?:{_FORGETS}|{_DELETES})|{_UNREMEMBERS}(?P<keep>.+?)){_END}",
    re.DOTALL,
)
_BEGINS = lazy(r"我|关于|有关|那|这|之前|刚才|刚刚|以前|所有|上次")
_BEHIND = lazy(
    r"(?P<topic>(?:(?:我|关于|有关|那|这|之前|刚才|刚刚|以前|所有|上次).+?|.+?(?:的事情?|"
    r"[那这]件事|"
    r"[那这]一?(?:条|栏|类|个?标题|个?分类).{0,8}?)|.{2,12}?(?=赶紧|马上|立刻|给我|帮我|"
    r"麻烦|(?:不用|别|不要|不必)再?记[着得])|[^，,]{2,12}?[那这]个))[，,、]?"
    rf"(?P<marks>(?:你|您|请|麻烦|{_MAY}|赶紧|马上|立刻|给我|帮我|可以|就|都|全|还是|也|全部|一并|"
    rf"{_FROM})*)"
    rf"(?:(?:{_FORGETS}|{_DELETES})|(?P<not>(?:不用|别|不要|不必|不需要)再?(?:记得|记住|记着|"
    rf"记|保留))){_END}",
    re.DOTALL,
)
_NAMES_MEMORY = rf"{_FROM}|[那这]一?个?(?:条|栏|类|标题|分类)|记忆|记录"
_LAST = (
    r"(?:我?(?:刚才|刚刚|刚|上面|前面|之前)?我?(?:跟你)?说过?的(?:话|那句话?|这句话?|那些|内容|"
    r"事)?|"
    r"[这那](?:个|句话?|件事情?|事儿?|条|些|段)?|(?:刚才|刚刚)[那这](?:句话?|个|条)|上一[句条]话?|"
    r"我?(?:刚才|刚刚)的话|它)"
)
_BEFORE = lazy(
    rf"(?:我?{_ASKS})?[你您]?{_CAN}*(?:(?:把|将){_LAST}(?:都|全|给|{_FROM})*(?:{_FORGETS}|"
    rf"{_DELETES})|(?:{_FORGETS}|{_DELETES}){_LAST}|{_LAST}[，,]?[你您]?(?:就|可以|请|都|还是)*"
    rf"(?:{_FORGETS}|{_DELETES}|(?:不用|别|不要)再?(?:记|留着?|存着?)(?=了|啦|吧|[，。！]|$)|不算|"
    rf"作废)|"
    rf"(?:不要|别|不用)再(?:记得|记着|记住|记){_LAST}|"
    r"就?当我(?:刚才|刚刚)?(?:什么都|啥都)?没(?:有)?(?:说|讲|提)过?|我?收回(?:刚才|刚刚)?(?:的|"
    r"说的|那句)?话)"
    rf"{_END}"
)
_IDLE = lazy(r"(?:那|就|你)*(?:忘了|忘掉|忘记)(?:它|这个)?吧[。！!～~…\s]*(?:[，,].*)?", re.DOTALL)
_UNREAL = lazy(
    r"如果|要是|假如|万一|的话(?![吧忘删都全])|假设|怎么|如何|为什么|什么时候|会不会|是不是|"
    r"例如|比如|开玩笑|[“”『』\"]"
)
_ASKS_BACK = lazy(r"哪|谁|什么|啥|几[点号个岁]|多少|怎")
_FORGOT = lazy(
    r"告诉|说|带|问|提|拿|关(?!于)|锁|买|写|做|吃|交|给|打|回|发|要|在|把|了|去|跟|和|密码"
)
_CLAUSE = lazy(r"[，,；;：:]\s*(?:所以|那|然后|就)?")
_STATED = lazy(
    r"(?:我(?:之前|刚才|以前|昨天|上次|曾经)?(?:跟你|和你|对你|告诉过?你|给你)*(?:说过?的?|"
    r"提过?的?|讲过?的?|"
    r"告诉过?你的?)[，,：:]?)?(?P<that>(?:我|咱).+?)(?:的?(?:这件事情?|这个?事儿?|那个?事儿?|"
    r"这回事|这一点|"
    r"这个(?:信息|事实)?|事实|那件事情?)|的事(?:情|儿)?)?",
    re.DOTALL,
)
_ENTRY = lazy(
    r"(?P<what>.+?)的?[这那]一?(?:条|项)(?:的?(?:记忆|记录|信息|内容))?|"
    r"(?P<memory>.+?)的?(?:这|那)?(?:条|个|些)?的?(?:记忆|记录)"
)
_SECTION = lazy(
    r"(?P<what>.+?)(?:的?[这那]一?(?:个)?(?:栏目?|标题|分类|类别?|板块|部分|节)|(?:栏目?|标题|"
    r"分类|板块)(?=下|里|底|的|$))"
    r"(?:下面?|底下|里面?|中)?的?(?:所有|全部|一切)?的?(?:记忆|内容|东西|信息|记录)?"
    r"|(?P<under>.+?)(?:下面?|底下|里面?)的?(?:所有|全部|一切)?的?(?:记忆|内容|东西|信息|记录)"
)
_EVERY = r"(?:所有|一切|全部|任何)"
_ABOUT = lazy(
    rf"(?:{_EVERY}的?)?(?:我?(?P<just>刚才|刚刚)?(?:之前|以前|上次|昨天)?我?(?:跟你|和你|对你)?"
    rf"(?:说|提|讲|告诉你)过?的?)?(?:{_EVERY}的?)?(?:(?:关于|有关)(?P<what>.+?)|(?:跟|和|"
    rf"与)(?P<with>.+?)"
    rf"(?:有关|相关))(?:的?[那这]?(?:些|件|条|个)?{_EVERY}?的?(?:事情?|事儿|一切|内容|记忆|"
    rf"信息|话|东西|部分|记录)*)?"
    r"|我?(?P<just2>刚才|刚刚)?(?:之前|以前|上次|昨天)?我?(?:跟你|和你|对你|给你)?(?:说|提|"
    r"讲)过?的(?P<named>.+?)"
    r"上?(?:的?[那这]?(?:些|件)?事情?)?",
    re.DOTALL,
)
_JUST = lazy(r"(?:我)?(?:刚才|刚刚)(?:的|那个|这个|说的)*(?P<what>.+)")
_MINE = lazy(
    r"(?:(?:所有|全部|一切)的?)?(?:我|咱|那个|这个|以前的|之前的|旧的|之前跟你说的).+", re.DOTALL
)
_GENERIC = lazy(
    r"(?:我|你|一切|所有|全部|的|这|那|些|个|条|事情?|东西|记忆|信息|关于|内容|什么|知道|说|过|"
    r"刚才)*"
)
_TASK = lazy(
    r".*(?:问题|请求|指令|提示词|规则|代码|文件|段落?|行|句子|例子|草稿|上面|以上|对话|聊天|"
    r"设定|列|邮件|文章|"
    r"任务|作业|单词|标点|空格|烦恼|压力|不快|难过|痛苦)(?:的?内容)?"
)
_EXTERNAL = lazy(
    r".*(?:账号|帐号|日程|会议|闹钟|提醒|预约|订单|订阅|照片|图片|视频|应用|文件夹|目录|数据库|"
    r"表格|评论|好友|群)"
)
_VERB = lazy(
    r"(?:我们?|咱们?)(?!的)\w{0,6}?(?:住|在|是|叫|喜欢|讨厌|不|有|对|会|想|要|吃|喝|养|姓|去|"
    r"学|爱|怕|搬|得|做|当|"
    r"打算|结婚|离婚|辞|换|买|卖|用|过敏|戒|抽|怀)"
)
_NOUN = lazy(r"(?:生日|地址|住址|名字|电话|号码?|邮箱|密码|年龄|工资|月薪|收入|体重|身高|薪水)\Z")


_HEADING = lazy(r"[“\"](\w{1,12})[”\"](?=[的]?(?:下|底下|里|[这那]|栏|标题|分类))")


def before(sentence: str) -> tuple[bool, str] | None:
    """Return (True if it is sure, the text before it) of 忘了刚才说的; None for no such request."""
    plain = simplified(sentence)
    for at in (0, *(one.end() for one in _CLAUSE.finditer(plain))):
        text = plain[at + end_of(_LEAD, plain[at:]) :]
        if not at and _IDLE.fullmatch(text):
            return False, ""
        if _BEFORE.fullmatch(text):
            return None if _UNREAL.search(plain) else (True, sentence[:at].strip(" ，,；;：:"))
    return None


def request(sentence: str) -> Asked | None:
    """Return what a sentence asks to forget; None for no request."""
    text = _HEADING.sub(r"「\1」", simplified(sentence))
    sentence = _HEADING.sub(r"「\1」", sentence)
    if _UNREAL.search(text):
        return None
    starts = [0, *(one.end() for one in _CLAUSE.finditer(text))]
    for at in starts:
        at += end_of(_LEAD, text[at:])
        found = _REQUEST.fullmatch(text, at)
        if found and (made := _ordered(found, text, sentence)):
            return made
    for at in starts:
        found = _BEHIND.fullmatch(text, at + end_of(_LEAD, text[at:]))
        if found and (made := _behind(found, sentence)):
            return made
    return None


def _ordered(found: re.Match[str], text: str, sentence: str) -> Asked | None:
    """Return a request whose verb is before the topic, or that begins with 把."""
    name = next(one for one in ("topic", "ba", "keep") if found[one])
    topic, verb = sentence[slice(*found.span(name))], found["verb"]
    ends = found["end"]
    ordered = bool(found["please"] or found["may"] or found["can"])
    is_soft = "吧" in ends or ordered
    is_all = name == "ba" and re.fullmatch("[^忘了]*(?:「|统统|通通|全部)[^忘了]*", found[0])
    if found["you"] and not (ordered or is_all or ("吧" in ends and verb and "忘" not in verb)):
        return None  # a reproach: "you forgot ..."
    if name == "keep" and not (found["again"] or "着" in found[0] or "了" in ends):
        return None
    asks = re.search(r"[吗？?]|好不好|行不行", ends) is not None
    if asks and not (ordered or re.search("好吗|可以吗|行吗|不", ends)):
        return None
    if verb in ("忘了", "忘记") and not is_soft:
        plain = found["topic"]
        if _FORGOT.match(plain) or _ASKS_BACK.search(plain):
            return None
        if not re.search(
            "关于|有关|所有|一切|这件事|这回事|这一点|的事|这事|这个事|说过?的|说过我",
            text[found.start() :],
        ):
            return None
    is_named = re.search(_NAMES_MEMORY, found[0]) is not None
    is_told = name == "ba" and not is_soft and re.search(rf"{_FORGETS}(?!掉)", found[0])
    made = _topic(topic, anything=is_named)
    if made is None:
        return None
    deletes = verb not in ("忘了", "忘记", "忘掉") if verb else "忘" not in found[0]
    is_else = deletes and not is_named and _EXTERNAL.match(simplified(made[0]))
    is_topic = made[1] in (Meant.TOPIC, Meant.ALL_OF)
    is_mine = _MINE.fullmatch(simplified(topic)) or re.search("关于|有关|说|「", topic)
    if deletes and is_topic and not (is_named or is_mine):
        return None
    if is_told and ("都" in found[0] or not re.search("[这那](?:件事|事|条)|说过?的", topic)):
        is_else = is_told  # somebody may have forgotten it
    return Asked(*made, not is_else)


def _behind(found: re.Match[str], sentence: str) -> Asked | None:
    """Return a request whose verb is behind the topic."""
    end = found["end"]
    marks = "请|麻烦|可以|就|你|全|都|我|能"
    marked = found["not"] or re.search(marks, found["marks"]) or "吧" in end
    if not marked or re.search("我(?:都|已经|全|也)?$|[别不没]$", found["topic"]):
        return None
    if re.search("[吗？?]", end):
        return None
    topic = sentence[slice(*found.span("topic"))]
    is_named = re.search(_NAMES_MEMORY, found[0]) is not None
    is_kept = found["not"] is not None and re.search("[着得]$", found["not"]) is not None
    is_known = is_named or is_kept or "给我" in found["marks"] or topic[-1:] in "个個"
    made = _topic(topic, anything=is_known)
    is_kept |= _BEGINS.match(simplified(topic)) is not None or "忘" in found[0]
    return None if made is None else Asked(*made, is_named or is_kept)


def _topic(topic: str, *, anything: bool = False) -> tuple[str, Meant] | None:
    topic = re.sub(r"[了吧啦啊哈]+\Z", "", topic.strip(" ，,。！!、：:"))
    plain = simplified(topic)
    if plain in ("", "掉") or _TASK.fullmatch(plain):
        return None
    if _GENERIC.fullmatch(plain):
        is_all = re.search("一切|所有|全部", plain) and "我" in plain
        return ("", Meant.EVERYTHING) if is_all else None

    def part(found: re.Match[str], *names: str) -> str:
        name = next(one for one in names if found[one])
        return topic[slice(*found.span(name))].strip("「」 ")

    if found := _SECTION.fullmatch(plain):
        return part(found, "what", "under"), Meant.ALL_OF
    if found := _ENTRY.fullmatch(plain):
        return _topic(part(found, "what", "memory"), anything=True)
    if found := _ABOUT.fullmatch(plain):
        what = part(found, "what", "with", "named")
        if _GENERIC.fullmatch(simplified(what)):
            return "", Meant.EVERYTHING
        if found["just"] or found["just2"]:
            return what, Meant.BEFORE
        if found["named"] and re.match("我|咱", found["named"]) and _states(found["named"]):
            return what, Meant.STATEMENT
        every = re.search("所有|一切|全部", plain)
        return what, Meant.ALL_OF if every else Meant.TOPIC
    if found := _JUST.fullmatch(plain):
        return part(found, "what"), Meant.BEFORE
    if found := _STATED.fullmatch(plain):
        return part(found, "that"), Meant.STATEMENT if _states(found["that"]) else Meant.TOPIC
    if found := re.fullmatch(r"(.+?)(?:的事情?|[那这]件事情?)", plain):
        return topic[: found.end(1)], Meant.TOPIC
    is_topic = anything or _MINE.fullmatch(plain) or "「" in topic
    return (topic.strip("「」"), Meant.TOPIC) if is_topic else None


def _states(text: str) -> bool:
    """Return True for a Chinese topic that is a sentence, not a noun."""
    is_asked = _ASKS_BACK.search(text) is not None
    return _VERB.match(text) is not None and not (is_asked or _NOUN.search(text))
