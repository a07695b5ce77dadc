"""The children of a directory: their labels, and the telling sentences of their abstracts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from vikingd.describe.covering_sentences import content_words
from vikingd.domain.sentences import sentences
from vikingd.domain.text import CJK_CHARS, lazy, one_line, without_invisible
from vikingd.ingest.abstracts import shorten
from vikingd.ingest.file_syntax import Syntax, syntax_of
from vikingd.ingest.first_prose import WIKI_LINK, refers_back

MAX_LABEL = 80
"""Maximum characters of the label of a child."""

_READ = 1600  # characters of an abstract that are read
_MOST_SENTENCES = 12  # of an abstract that are read
_MAX_SENTENCE = 240
_LEAST_SAID = 3  # words of content of a sentence of a turn
_SIGNATURES = 80  # characters of the signatures of a file that are shown

# A name that says nothing: "2024-01", "3f2a9c1b7d4e".
_ORDINAL = re.compile(r"[\W\d_]*|[0-9a-f]{12,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The speaker of a turn: "Ada: " or "**Ada King**: ".
_SPEAKER = lazy(r"\s*[*_]{0,2}([^\W\d_][\w.'’-]*(?: [\w.'’-]+){0,2})[*_]{0,2} ?[:：](?!//)\s*")
_ROLES = frozenset(
    ("user", "assistant", "human", "ai", "system", "bot", "用户", "用戶", "助手", "系统")
)
_CJK = lazy(f"[{CJK_CHARS}]")
_END = re.compile(r"[.!?…。！？｡;；][\"'”’»)\]」』）】》〉]*\Z")
_CODE = (Syntax.CODE, Syntax.TEXT)
_LETTERS = re.compile(r"[^\W\d_]+")
_SPACE = re.compile(r"\s+")
_CODE_SIGN = re.compile(r"[{}<>=;|]|\(\w*\)|::|->")
_RST_LINK = lazy(r"`([^`<]+?) ?<[^>`]*>`_{1,2}")
_MARKUP = re.compile(r"\{[{%\s]|</|[<>=]=|\w\([^)]*=")  # of templates, versions and code
_PAIR = re.compile(r"(?:^|\s)[\w.-]+: ")
_ADDRESS = re.compile(r"(?<!\S)\S*://\S*|@[\w-]+")


class Child(NamedTuple):
    """A context in a directory.

    Attributes:
        name: the last segment of the URI.
        is_directory: True for a directory.
        title: the title, or "".
        abstract: the stored or derived abstract, or "".
    """

    name: str
    is_directory: bool
    title: str
    abstract: str


class TopicSentence(NamedTuple):
    """A sentence of an abstract that says something about a topic.

    Attributes:
        speaker: the speaker, if the abstract is a turn of a conversation; "" for none.
        text: the sentence.
        worth: a factor of its gain in a choice of sentences. It is smaller for a sentence that
            is not the first, refers to another one, or is a question.
    """

    speaker: str
    text: str
    worth: float


def label(child: Child) -> str:
    """Return the title of a child, or else its name; "" for a name that is a number or a hash."""
    title = _line(child.title, MAX_LABEL)
    if title and not title.endswith(f"/{child.name}"):
        return title
    name = _line(child.name, MAX_LABEL)
    stem = name.rpartition(".")[0] or name
    if _ORDINAL.fullmatch(stem):
        return ""
    return name if child.is_directory or syntax_of(name) in _CODE else stem


def labelled(title: str, text: str) -> str:
    """Return the prefix to put before a sentence: "Title: ".

    It is "" if the sentence already has the words of the title.
    """
    if not title or content_words(title) <= content_words(text):
        return ""
    return f"{title}：" if _CJK.search(text) else f"{title}: "


def topic_sentences(child: Child) -> Iterator[TopicSentence]:
    """Yield the sentences of a child's abstract that say something about a topic."""
    if is_code(child):
        yield TopicSentence("", _cut_signatures(one_line(child.abstract[:_READ])), 0.7)
        return
    text = _plain(child.abstract)
    if child.is_directory and not any(map(is_topic_prose, sentences(text))):
        yield TopicSentence("", _cut_signatures(one_line(text)), 0.7)
        return
    speaker = ""
    is_turn = not label(child)
    if is_turn and (found := _SPEAKER.match(text)) is not None:
        text = text[found.end() :]
        speaker = "" if found[1].casefold() in _ROLES else found[1]
    for place, sentence in enumerate(islice(sentences(text), _MOST_SENTENCES)):
        line = one_line(sentence)
        if is_topic_prose(line, at_least=_LEAST_SAID if is_turn else 1) and not (
            place and refers_back(line)
        ):
            yield TopicSentence(speaker, shorten(line, _MAX_SENTENCE), _worth(line, place, is_turn))


def is_code(child: Child) -> bool:
    """Return True if the child is a source file whose abstract consists of signatures."""
    if child.is_directory or not child.abstract or syntax_of(child.name) is not Syntax.CODE:
        return False
    is_cut = child.abstract.endswith("…")
    return (is_cut or not ends_sentence(child.abstract)) and bool(_CODE_SIGN.search(child.abstract))


def is_topic_prose(sentence: str, at_least: int = 1) -> bool:
    """Return True if a sentence is prose, not data or code, with enough words about a topic.

    `at_least` is the least number of such words.
    """
    if sentence.startswith("|") or _MARKUP.search(sentence):  # a row of a table, or a template
        return False
    sentence = _ADDRESS.sub("", sentence)
    shown = _SPACE.sub("", sentence)
    letters = sum(map(len, _LETTERS.findall(shown)))
    if (
        sentence.count(": ") > 1
        and not ends_sentence(sentence)
        and len(_PAIR.findall(sentence)) > 1
    ):
        return False
    return letters * 4 >= len(shown) * 3 and len(content_words(sentence)) >= at_least


def ends_sentence(text: str) -> bool:
    """Return True if a text ends with punctuation that ends a sentence."""
    return _END.search(text) is not None


def first_sentence(child: Child, limit: int) -> str:
    """Return the first sentence of a child's abstract about a topic, at most `limit` characters."""
    if is_code(child):
        return _cut_signatures(one_line(child.abstract[:_READ]), limit)
    text = _plain(child.abstract)
    cut = [one_line(one) for one in islice(sentences(text), _MOST_SENTENCES)]
    if not label(child):  # a turn of a conversation, which may begin with a greeting
        chosen = next((one for one in cut if len(content_words(_unspoken(one))) > 2), "")
        if chosen and chosen is not cut[0] and (found := _SPEAKER.match(cut[0])) is not None:
            chosen = found[0].lstrip() + chosen
        return shorten(chosen or "".join(cut[:1]), limit)
    if chosen := next(filter(is_topic_prose, cut), ""):
        return shorten(chosen, limit)
    # The abstract of a directory of source code consists of signatures.
    return _cut_signatures(one_line(text), limit) if child.is_directory else ""


def _plain(abstract: str) -> str:
    """Return the beginning of an abstract up to a code block, with links as their texts."""
    text = without_invisible(abstract[:_READ])
    if "```" in text:
        text = text.partition("```")[0].rstrip(" :：") or text
    text = WIKI_LINK.sub(r"\1", text) if "[[" in text else text
    return _RST_LINK.sub(r"\1", text) if "`" in text else text


def _unspoken(sentence: str) -> str:
    found = _SPEAKER.match(sentence)
    return sentence[found.end() :] if found is not None else sentence


def _worth(sentence: str, place: int, is_turn: bool) -> float:
    worth = 1.0 if is_turn or not place else 0.6
    if refers_back(sentence):
        worth *= 0.5 if is_turn else 0.8
    if sentence.endswith(("?", "？")):
        worth *= 0.8
    if sentence.endswith((":", "：", "]")):
        worth *= 0.3
    return worth


def _cut_signatures(text: str, limit: int = _SIGNATURES) -> str:
    """Return as many whole signatures as `limit` characters allow."""
    if len(text) <= limit:
        return text
    kept, found, _ = text[: limit + 1].rpartition(";")
    return kept if found else shorten(text, limit)


def _line(text: str, limit: int) -> str:
    line = one_line(without_invisible(text[: 4 * limit]))
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
