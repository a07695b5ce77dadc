"""Tokenizers that count the tokens of a text.

A request names its tokenizer. Bundled tokenizers are opened at their first use, configured ones
when the daemon starts. The name in a request never causes a file access or a download.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import ModuleType

from vikingd.domain.errors import InvalidField
from vikingd.domain.text import approximate_tokens
from vikingd.system.regular_files import read_regular

BUNDLED = ("o200k_base", "cl100k_base", "qwen3", "llama3")
"""The tokenizers whose vocabularies come with the dependencies of vikingd."""

APPROXIMATE = "approx"  # the name of the estimate by script

DEFAULT = "o200k_base" if find_spec("quicktok") else APPROXIMATE
"""The tokenizer of a request that names none; some platforms have no wheel of quicktok."""

MAX_FILE_BYTES = 256 << 20
"""Maximum bytes of a tokenizer.json; those of large multilingual models have about 35 MB."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # a bare key in TOML
_SHOWN = 64  # characters of an unknown name in an error


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Counts tokens; thread-safe."""

    name: str
    count: Callable[[str], int]  # special tokens in a text count as plain text
    approximate: bool = False  # the counts are estimates


@dataclass(slots=True)
class _Slot:
    """A tokenizer of this process, opened or not, and the lock for opening it."""

    opened: Tokenizer | None = None
    lock: Lock = field(default_factory=Lock)


# By the names that a request may use in this process.
_slots = {name: _Slot() for name in (*BUNDLED, APPROXIMATE)}


def known(name: str) -> str:
    """Return `name` if there is such a tokenizer; DEFAULT for "".

    Raises:
        InvalidField: there is none with this name; names the field `tokenizer`.
    """
    if (name or DEFAULT) not in _slots:
        shown = name if len(name) <= _SHOWN else name[:_SHOWN] + "…"
        raise InvalidField(
            "tokenizer",
            f"{shown!r} is not one of {', '.join(_slots)}; "
            "the configuration adds others as [context.tokenizers]",
        )
    return name or DEFAULT


def open_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer with a name; the first use of a bundled one reads its vocabulary.

    Opening one tokenizer does not block the use of another.

    Raises:
        InvalidField: there is none with this name, or its package is not installed; names the field
            `tokenizer`.
    """
    slot = _slots[known(name)]
    if slot.opened is None:
        with slot.lock:
            if slot.opened is None:
                slot.opened = _open(name or DEFAULT)
    return slot.opened


def load() -> None:
    """Import the package of the bundled tokenizers if it is installed.

    Called before threads start, so that no thread imports it.
    """
    if DEFAULT != APPROXIMATE:
        import_module("quicktok")


def check_configured(table: Mapping[str, str]) -> None:
    """Check the form of the tokenizers in a configuration, without access to files.

    Raises:
        ValueError: an entry has a wrong form; the message names it.
    """
    for name, source in table.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r}: a name has 1 to 64 letters, digits, _ and -")
        if name in BUNDLED or name == APPROXIMATE:
            raise ValueError(f"{name}: is the name of a tokenizer that comes with vikingd")
        family, _, argument = source.partition(":")
        if family not in _SOURCES or not argument:
            raise ValueError(f"{name}: {source!r} is neither hf:PATH nor tiktoken:ENCODING")
        if family == "hf" and not os.path.isabs(argument):
            raise ValueError(f"{name}: {argument!r} is not an absolute path")


def configure(table: Mapping[str, str]) -> None:
    """Open the tokenizers in a configuration for the whole process.

    `table` maps names to "hf:PATH" of a tokenizer.json or to "tiktoken:ENCODING", whose vocabulary
    tiktoken may download.

    Raises:
        ValueError: an entry has a wrong form or cannot be opened; the message names it.
    """
    check_configured(table)
    for name, source in table.items():
        family, _, argument = source.partition(":")
        try:
            _slots[name] = _Slot(Tokenizer(name, _SOURCES[family](argument)))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def _open(name: str) -> Tokenizer:
    if name == APPROXIMATE:
        return Tokenizer(name, approximate_tokens, approximate=True)
    try:
        quicktok = _imported("quicktok", "quicktok-v1")
    except ValueError as error:
        raise InvalidField(
            "tokenizer", f"{name} {error}; where it has no wheel, take {APPROXIMATE}, an estimate"
        ) from None
    return Tokenizer(name, quicktok.get_encoding(name).count)


def _imported(module: str, package: str) -> ModuleType:
    """Import a module and return it.

    Raises:
        ValueError: its package is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise ValueError(f"needs a package: python3 -m pip install {package}") from None


def _tiktoken(name: str) -> Callable[[str], int]:
    tiktoken = _imported("tiktoken", "tiktoken")
    listed = tiktoken.list_encoding_names()
    if name not in listed:
        raise ValueError(f"tiktoken has no {name!r}, only {', '.join(listed)}")
    try:
        encoding = tiktoken.get_encoding(name)
    except Exception as error:  # A download can fail with any error.
        raise ValueError(
            f"tiktoken has to download the vocabulary of {name!r}, and cannot: {error}; without a "
            "network set TIKTOKEN_CACHE_DIR to a directory that has it"
        ) from error
    return lambda text: len(encoding.encode_ordinary(text))


def _hugging_face(path: str) -> Callable[[str], int]:
    tokenizers = _imported("tokenizers", "tokenizers")
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(read_regular(path, MAX_FILE_BYTES))
    except Exception as error:  # The library raises no narrower error.
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ValueError(f"cannot read {path!r}: {reason}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # Text that looks like a special token is text.
    tokenizer.encode_special_tokens = True
    encode = partial(tokenizer.encode, add_special_tokens=False)
    return lambda text: len(encode(text).ids)


_SOURCES = {"hf": _hugging_face, "tiktoken": _tiktoken}
