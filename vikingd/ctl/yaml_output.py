"""The output as YAML; a module of its own, because its library takes long to load."""

from __future__ import annotations

from typing import Any

import yaml

from vikingd.domain import hidden_characters


def dumped(value: Any) -> str:
    """Return a value as a YAML document, with its hidden characters as escapes."""
    made = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False)
    return hidden_characters.replaced(made, _escape)


class _Dumper(yaml.SafeDumper):
    """A dumper that puts strings with hidden characters between double quotes."""


def _quoted(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if hidden_characters.first(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _quoted)


def _escape(character: str) -> str:
    """Return the escape of a hidden character in a string with double quotes."""
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
