"""Tokenizers that count what a text takes of a model's window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Protocol

from vikingd.errors import InvalidField
from vikingd.text import approximate_tokens

DEFAULT = "o200k_base"
BUNDLED = ("o200k_base", "cl100k_base", "qwen3", "llama3")
"""Those whose vocabularies come with vikingd's own dependencies."""

NAMES = (*BUNDLED, "approx", "tiktoken:ENCODING", "hf:PATH")
"""What `open_tokenizer` takes; ENCODING is one of tiktoken's, PATH leads to a tokenizer.json."""


class Tokenizer(Protocol):
    """Counts tokens; safe to call from several threads."""

    @property
    def name(self) -> str:
        """What it was opened by."""

    @property
    def approximate(self) -> bool:
        """Whether it only estimates what a model would count."""

    def count(self, text: str) -> int:
        """The tokens of a text; what looks like a special token is counted as the text it is."""


@dataclass(frozen=True, slots=True)
class _Counting:
    name: str
    count: Callable[[str], int]
    approximate: bool = False


_opened: dict[str, Tokenizer] = {}
_opening = Lock()


def open_tokenizer(name: str) -> Tokenizer:
    """Opens one of NAMES, once for the whole process; the first time reads its vocabulary.

    Raises:
        InvalidField: `tokenizer` is none of them, or can't be had here; the message says why.
    """
    if found := _opened.get(name):
        return found
    with _opening:
        if name not in _opened:
            _opened[name] = _open(name)
        return _opened[name]


def _open(name: str) -> Tokenizer:
    family, _, argument = name.partition(":")
    if name in BUNDLED:
        return _Counting(name, _quicktok(name))
    if name == "approx":
        return _Counting(name, approximate_tokens, approximate=True)
    if family == "tiktoken" and argument:
        return _Counting(name, _tiktoken(argument))
    if family == "hf" and argument:
        return _Counting(name, _hugging_face(argument))
    raise InvalidField("tokenizer", f"{name!r} is not one of {', '.join(NAMES)}")


def _quicktok(name: str) -> Callable[[str], int]:
    try:
        import quicktok
    except ImportError:
        raise _not_installed("quicktok-v1") from None
    count: Callable[[str], int] = quicktok.get_encoding(name).count
    return count


def _tiktoken(name: str) -> Callable[[str], int]:
    try:
        import tiktoken
    except ImportError:
        raise _not_installed("tiktoken") from None
    known = tiktoken.list_encoding_names()
    if name not in known:
        raise InvalidField("tokenizer", f"tiktoken has no {name!r}, only {', '.join(known)}")
    try:
        encoding = tiktoken.get_encoding(name)
    except Exception as error:  # whatever the download of its vocabulary fails with
        raise InvalidField(
            "tokenizer",
            f"tiktoken has to download the vocabulary of {name!r}, and can't: {error}; without a "
            f"network set TIKTOKEN_CACHE_DIR to a directory that has it, or take one of "
            f"{', '.join(BUNDLED)}",
        ) from error
    return lambda text: len(encoding.encode_ordinary(text))


def _hugging_face(path: str) -> Callable[[str], int]:
    try:
        from tokenizers import Tokenizer as HuggingFace
    except ImportError:
        raise _not_installed("tokenizers") from None
    try:
        tokenizer = HuggingFace.from_file(path)
    except Exception as error:  # it raises nothing narrower
        raise InvalidField("tokenizer", f"can't read {path!r}: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # Text that looks like a special token is text.
    tokenizer.encode_special_tokens = True
    encode = partial(tokenizer.encode, add_special_tokens=False)
    return lambda text: len(encode(text).ids)


def _not_installed(package: str) -> InvalidField:
    return InvalidField("tokenizer", f"needs a package: python3 -m pip install {package}")
