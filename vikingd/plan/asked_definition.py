"""The name whose definition a query asks for: "where is Client.get defined", "def get", "get()"."""

from __future__ import annotations

import re

_LETTERS = r"[A-Za-z_$\u00c0-\u024f]"
_PART = rf"{_LETTERS}(?:{_LETTERS}|\d)*[!?]?"
_NAME = rf"`?(?P<name>{_PART}(?:(?:\.|::|#|->|/){_PART})*)(?:\(\))?`?"
_KIND = (
    r"(?:(?:async\s+)?(?:function|func|fn|def|method|class|struct|enum|union|trait|interface|type"
    r"|typedef|macro|module|namespace|constant|const|variable|var|component|hook|object|record"
    r"|protocol|impl))"
)
_QUESTIONS = tuple(
    re.compile(rf"\s*(?:{pattern})\s*[?？.。!！]*\s*", re.IGNORECASE)
    for pattern in (
        _NAME,
        rf"{_KIND}\s+{_NAME}(?:\(.*\))?",
        rf"(?:where|in\s+(?:which|what)\s+(?:file|module))(?:\s+(?:is|are|was|did|do|does)|'s)\s+"
        rf"(?:the\s+)?(?:{_KIND}\s+)?{_NAME}(?:\s+{_KIND})?\s+"
        r"(?:defined|declared|implemented|definition|located)",
        rf"(?:which|what)\s+(?:file|module)\s+(?:defines|declares|implements|has|contains)\s+"
        rf"(?:the\s+)?(?:{_KIND}\s+)?{_NAME}",
        rf"(?:(?:find|show|get|go\s+to|jump\s+to)\s+)?(?:me\s+)?(?:the\s+)?"
        rf"(?:definition|declaration|implementation|source)\s+of\s+(?:the\s+)?(?:{_KIND}\s+)?{_NAME}"
        rf"(?:\s+{_KIND})?",
        rf"{_NAME}\s+(?:definition|declaration|implementation)",
        rf"(?:类|函数|方法|接口|结构体|类型|变量|常量)?\s*{_NAME}\s*(?:这个|的)?(?:类|函数|方法|接口|结构体|类型|变量|常量)?"
        r"\s*(?:是)?(?:在|定义在|声明在|实现在)?\s*(?:哪里|哪儿|哪个文件|何处|什么地方)(?:里|中)?"
        r"(?:被)?(?:定义|声明|实现)?的?",
        rf"(?:哪里|哪儿|哪个文件|什么地方)(?:里|中)?(?:定义|声明|实现)了?\s*{_NAME}",
        rf"(?:查找|找到|找|查看)?\s*{_NAME}\s*的(?:定义|声明|实现|源码)",
    )
)
_LONGEST = 200  # characters of a question
_BETWEEN = re.compile(r"\.|::|#|->|/")


def asked_definition(text: str) -> tuple[str, ...]:
    """Return the names whose definition a query asks for, the most precise first; () for others.

    A name alone asks for its definition, if there is one. `Client.get` is followed by `get`.
    """
    if len(text) > _LONGEST:
        return ()
    for pattern in _QUESTIONS:
        if found := pattern.fullmatch(text):
            parts = _BETWEEN.split(found["name"])
            return (".".join(parts[-2:]), parts[-1]) if parts[1:] else (parts[0],)
    return ()
