"""The own words of a user: a message without what it quotes, pastes or forwards.

A user pastes mails, logs, pages and lines of other people. Such a text states nothing about the
user, and it may hold orders to the agent. These parts are left out:

- blocks with marks of their own: code, tags, comments, JSON, front matter, quoted lines, log
  lines, and quotations that are longer than a name;
- the rest of a message from the beginning of a foreign text: a forwarded mail, a turn of a
  conversation, a heading, or the text after "Summarize this contract:" or "这段话是什么意思？";
- all text before a question about "the text above".

A message that asks to keep something out of memory has no own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from vikingd.domain.text import CJK_CHARS, lazy, without_invisible

LEFT_OUT = "\ufffc"
"""The character that stands for a part that was left out."""

_BLOCKS = (
    lazy(r"\A\s*---[ \t]*\n.*?\n---[ \t]*(?=\n|\Z)", re.DOTALL),  # front matter
    lazy(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL),
    lazy(r"<!--.*?(?:-->|\Z)", re.DOTALL),
    lazy(r"(?m)^[ \t]*[>|＞].*(?:\n[ \t]*[>|＞].*)*"),
    lazy(
        r"(?m)^[ \t]*(?:\$ |#!|\d{4}-\d\d-\d\d[ T]|\[?(?:INFO|WARN|WARNING|ERROR|DEBUG)\b|"
        r"at \w+\.).*"
    ),
    lazy(  # a letter, but not one that is the message
        r"(?<=\n)[ \t]*(?:dear [^\n,:]{1,60}|(?:尊敬的|亲爱的|親愛的)[^\n，,：:]{1,20})"
        r"[,:，：][ \t]*\n.*",
        re.DOTALL | re.IGNORECASE,
    ),
)
_TAG = lazy(r"</?[A-Za-z!?][^<>\n]{0,200}>")
_MARKUP = lazy(r"</[A-Za-z]|<[!?][A-Za-z]|<[A-Za-z][^<>\n]{0,200}(?:=|/>)")
_JSON = lazy(r"[{\[]\s*\"[^\"\n]{0,100}\"\s*:")

_QUOTATION = lazy(
    r"“[^”\n]*(?:”|$)|「[^」\n]*(?:」|$)|『[^』\n]*(?:』|$)|«[^»\n]*(?:»|$)|\"[^\"\n]*(?:\"|$)"
    r"|‘[^’\n]*’|(?<![\w'])'(?=[^\W\d_])(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w)",
    re.MULTILINE,
)
_NAME_WORDS, _NAME_CHARS = 4, 12  # of a quotation that may be a name
_NO_NAME = lazy(
    r"\b(?:i|you|user|users|assistant|agents?|remember|store|save|memor\w*|please|must|always|"
    r"never)\b|[我你您]|用户|助手|记住|保存|写入|记忆|请|永远|以后|必须",
    re.IGNORECASE,
)

_TEXT = (
    r"(?:e-?mails?|mails?|messages?|letters?|texts?|paragraphs?|passages?|sentences?|lines?|"
    r"quotes?|"
    r"contracts?|documents?|articles?|pages?|posts?|tweets?|threads?|chats?|transcripts?|logs?|"
    r"outputs?|"
    r"reviews?|notes?|stor(?:y|ies)|poems?|lyrics|dialogs?|dialogues?|conversations?|conditions|"
    r"terms|"
    r"answers?|replies|reply|comments?|snippets?|files?|reports?|drafts?|prompts?|instructions|"
    r"excerpts?)"
)
_ZH_TEXT = (
    r"(?:段话|段文字|段文本|段聊天记录|段对话|段注释|段内容|段|封信|封邮件|邮件|短信|条消息|消息|"
    r"篇文章|文章|"
    r"合同|文档|日志|帖子|评论|句话|句|段代码|歌词|诗|故事|通知|网页|聊天记录|对话|内容|原文|文字|"
    r"文本|稿子|"
    r"简历|输出)"
)
_WORK = (
    r"(?:translate|proofread|rephrase|paraphrase|rewrite|reword|summari[sz]e|shorten|correct|edit|"
    r"improve|polish|analy[sz]e|explain|review|check|classify|continue|read|parse|format|convert|"
    r"fix)"
)
_ZH_WORK = (
    r"(?:翻译|翻譯|润色|改写|总结|概括|分析|解释|校对|检查|修改|续写|看看|看一下|读一下|缩写)"
)
# The rest of a message is foreign after a line that ends with one of these.
_BEGINS_AT_END = lazy(
    rf"(?:\b{_TEXT}\b|\b(?:this|following|below|here(?:'s| is| it is)|said|says|wrote|writes|told|"
    rf"asked|replied|reads|from \w+)\b|{_ZH_TEXT}|以下|下面|如下|写道|说|"
    rf"回复)[^:：\n]{{0,40}}[:：]\s*$"
    rf"|\b(?:this|these|the following|that) (?:\w+ ){{0,3}}{_TEXT}\b[^.!?\n]{{0,60}}[?.!:]?\s*$"
    rf"|[这那][是]?(?:一)?{_ZH_TEXT}[^。！？\n]{{0,40}}[？。！：]?\s*$"
    rf"|\b{_WORK} (?:it|this|that|these|the following|below)\b[^.!?\n]{{0,40}}[?.!:]?\s*$",
    re.IGNORECASE,
)
# ... and, within a line, after one of these.
_BEGINS_WITHIN = lazy(
    rf"\b{_WORK}\b[^:：\n]{{0,80}}[:：]|{_ZH_WORK}[^:：\n]{{0,40}}[:：]"
    rf"|\b(?:this|the following|below) (?:\w+ ){{0,2}}{_TEXT}[^:：\n]{{0,40}}[:：]"
    rf"|(?:以下|下面|这){_ZH_TEXT}?[^:：\n]{{0,20}}[:：]"
    rf"|\b(?:he|she|they|it|someone|somebody|[A-Z]\w+) (?:just )?(?:said|says|wrote|writes|told me|"
    rf"texted|sent(?: me)?(?: this)?|replied|answered|asked)\s*[:：]"
    rf"|(?:说|写道|回复|问|发来)\s*[:：]",
    re.IGNORECASE,
)
# A line that begins a foreign text.
_BEGINS_LINE = lazy(
    r"[ \t]*(?:(?:user|assistant|system|human|ai|bot|tool|developer|agent|用户|助手|系统|客服|"
    r"机器人)"
    r"\s*[:：]|\[(?:user|assistant|system|tool)\]|-{2,} ?(?:original|forwarded|begin)|"
    r"begin forwarded message|(?:from|subject|to|sent|von|betreff|发件人|收件人|主题)\s*[:：]\s*\S|"
    r"on .{0,80}\bwrote:|#{1,6} \S|={4,}\s*$|-{4,}\s*$)",
    re.IGNORECASE,
)
# A line of somebody else in a conversation that the user tells, and one of any speaker.
_RELATIVES = (
    r"(?:(?:my )?(?:boss|mum|mom|dad|wife|husband|girlfriend|boyfriend|brother|sister|friend|"
    r"coworker|colleague|landlord|roommate|neighbou?r)|(?:我的?)?(?:妈妈?|爸爸?|老婆|老公|女朋友|"
    r"男朋友|朋友|同事|老板|领导|房东|室友|邻居))"
)
_ROLES = (
    r"(?:customer|client|patient|guest|interviewer|interviewee|candidate|caller|student|him|her|"
    rf"he|she|them|{_RELATIVES}|[A-H]|客户|顾客|客人|患者|病人|医生|面试官|应聘者|老师|学生|家长|"
    r"[甲乙丙丁男女]|他|她|对方)"
)
# What tells of a relative behind the label "Wife:": a name, or a state or habit without a subject.
_ANSWERS = (
    r"(?:yes|yeah|yep|no|nope|ok|okay|sure|fine|hi|hello|hey|thanks?|why|what|who|when|where|how|"
    r"really|maybe|please|stop|good|great|cool|nice|come|go|get|well|oh|lol|sorry|never|nothing|"
    r"true|right|wait|look|don't|do|are|is|can|will|the|this|that|it|it's|he|she|they|dinner|done)"
)
_TELLS = (
    r"(?:is|was|works|lives|has|loves|likes|hates|called|named|born|from|allergic|vegan|"
    r"vegetarian|diabetic|retired|pregnant|divorced)"
)
_CAPITAL = r"(?-i:[A-ZÀ-ÞŁŚŻČŠŽİ])"
_ABOUT = (
    rf"(?:(?!{_ANSWERS}\b){_CAPITAL}[\w.'-]*(?: {_CAPITAL}[\w.'-]*){{0,3}}(?=[ \t]*(?:[,.(;-]|$))"
    rf"|{_TELLS}\b|(?![好嗯没不在可行哦啊早晚快别来去吃是有等谢对什怎为哪谁真哈知收明今])"
    rf"[{CJK_CHARS}]{{2,4}}(?<![了吗吧呢啊的呀嘛])(?=[ \t]*(?:[，。（(；;]|$)))"
)
_MINE = r"(?:\b(?:i|i'm|me|my|mine|we|our|you|your)\b|[我咱你您?？!！])"
_LABEL = (
    rf"{_RELATIVES}[ \t]*[:：](?![^\n]*{_MINE})[ \t]*{_ABOUT}"
    rf"(?![^\n]*\n(?:[ \t]*\n)?[ \t]*(?:(?:me|i|我)|{_ROLES})[ \t]*[:：][^\n]*{_MINE})"
)
_SPEAKER = lazy(
    rf"[ \t]*(?!{_LABEL}){_ROLES}[ \t]*[:：][ \t]*[^\s\d]", re.IGNORECASE | re.MULTILINE
)
_TOLD = lazy(
    rf"(?m)^[ \t]*(?:me|i|我)[ \t]*[:：](?=[^\n]*\n(?:[ \t]*\n)?[ \t]*{_ROLES}[ \t]*[:：])",
    re.IGNORECASE,
)
_ABOVE = lazy(
    rf"\b(?:{_TEXT}|yaml|json|xml|html|code|block|part)\b (?:\w+ )?above\b|"
    rf"\babove (?:\w+ )?{_TEXT}\b"
    rf"|以上(?:的)?(?:这)?{_ZH_TEXT}|上面(?:的)?(?:这)?{_ZH_TEXT}",
    re.IGNORECASE,
)
_UNKEPT = lazy(
    r"\b(?:do not|don't|dont|never|please not|no need to|without) (?:ever |"
    r"please )?(?:remember(?:ing)?|"
    r"stor(?:e|ing)|sav(?:e|ing)|keep(?:ing)?|record(?:ing)?|not(?:e|ing)(?: down)?|"
    r"memori[sz](?:e|ing))"
    r" (?:this|that|it|any of|what i|anything|these|those)\b"
    r"|\boff the record\b|\bbetween you and me\b|\bforget (?:that i|what i) (?:said|told|wrote)\b"
    r"|(?:不要|别|不用|不必|请勿|无需)(?:帮我)?(?:记住|记下来?|保存|存下来?|记录|存档)"
    r"[啊哦哈呀嘛]?(?:这|那|它|我|下|以下|[。！!，,：:]|$)"
    r"|(?:不要|别|不用|不必)记(?:[啊哦哈呀嘛]?[，,：:]|这个[，,：:])"
    r"|(?:接下来|下面|以下)[^。，,\n]{0,6}(?:别|不要|不用)(?:记|保存|存)"
    r"|不要?外传|只跟你说|保密",
    re.IGNORECASE,
)
_LINE = lazy(r"(?m)^.*\S.*$")
_GOES_ON = lazy(rf"\s*+[^{LEFT_OUT}]")
_HAN = lazy(f"[{CJK_CHARS}]")


class Part(NamedTuple):
    """A part of a message: words of its author, or a text that it quotes, pastes or forwards."""

    text: str
    is_own: bool


def own_words(content: str) -> str:
    """Return the author's own words in a message, with the character LEFT_OUT for each other part.

    A message that asks to keep something out of memory gives "".
    """
    text = _readable(content)
    return "" if _UNKEPT.search(text) else _read(text).text


def is_private(content: str) -> bool:
    """Return True for a message that asks to keep something out of memory."""
    return _UNKEPT.search(_readable(content)) is not None


def parts(content: str) -> list[Part]:
    """Return all parts of a message in order, without hidden characters."""
    shown, found, at = without_invisible(content), list[Part](), 0
    read = _read(_readable(content))
    for i, own in enumerate(read.text.split(LEFT_OUT)):
        if i:
            found.append(Part(shown[at : at + read.sizes[i - 1]], False))
            at += read.sizes[i - 1]
        found.append(Part(shown[at : at + len(own)], True))
        at += len(own)
    return [part for part in found if part.text]


class _Reading:
    """A text in which LEFT_OUT stands for each removed part.

    `sizes` has their numbers of characters.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.sizes = [1] * text.count(LEFT_OUT)

    def leave_out(self, spans: Iterable[tuple[int, int]]) -> None:
        """Replace the code points [start, end) of each span by LEFT_OUT; the spans are in order."""
        pieces, sizes, at, old = list[str](), list[int](), 0, iter(self.sizes)
        for start, end in spans:
            sizes += islice(old, self.text.count(LEFT_OUT, at, start))
            within = self.text.count(LEFT_OUT, start, end)
            sizes.append(end - start - within + sum(islice(old, within)))
            pieces += self.text[at:start], LEFT_OUT
            at = end
        self.text, self.sizes = "".join([*pieces, self.text[at:]]), [*sizes, *old]


def _readable(content: str) -> str:
    return without_invisible(content).replace("’", "'")


def _read(text: str) -> _Reading:
    """Remove all parts of a message that its author does not say."""
    read = _Reading(text)
    for block in _BLOCKS:
        read.leave_out(found.span() for found in block.finditer(read.text))
    if _MARKUP.search(read.text):  # all from the first tag to the last one
        tags = [found.span() for found in _TAG.finditer(read.text)]
        read.leave_out([(tags[0][0], tags[-1][1])] if tags else [])
    if begins := _JSON.search(read.text):
        ends = max(read.text.rfind("}"), read.text.rfind("]")) + 1
        read.leave_out([(begins.start(), ends if ends > begins.start() else len(read.text))])
    read.leave_out(f.span() for f in _QUOTATION.finditer(read.text) if not _is_name(f[0][1:-1]))
    for found in reversed(list(_LINE.finditer(read.text))):
        if found.start() and _ABOVE.search(found[0]):
            read.leave_out([(0, found.start() - 1)])
            break
    for found in _LINE.finditer(read.text):
        start = found.start()
        is_turn = _SPEAKER.match(read.text, start) or _TOLD.match(read.text, start)
        if is_turn or _BEGINS_LINE.match(found[0]):
            begin: int | None = found.start()
        else:
            begin = _begin(read.text, *found.span())
        if begin is not None:
            read.leave_out([(begin, len(read.text))])
            break
    return read


def _begin(text: str, start: int, end: int) -> int | None:
    """Return the start of a pasted text that begins within or after the line text[start:end].

    None if none begins there, or if the removed part after the line was that text.
    """
    for found in _BEGINS_WITHIN.finditer(text, start, end):
        if _GOES_ON.match(text, found.end()):
            return found.end()
    is_begun = _GOES_ON.match(text, end) and LEFT_OUT not in text[start:end]
    return end if is_begun and _BEGINS_AT_END.search(text, max(start, end - 200), end) else None


def _is_name(said: str) -> bool:
    """Return True for a quoted text that may be a name."""
    is_short = len(_HAN.findall(said)) <= _NAME_CHARS and len(said.split()) <= _NAME_WORDS
    return is_short and not _NO_NAME.search(said)
