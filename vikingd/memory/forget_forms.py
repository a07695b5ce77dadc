"""The common parts of the forms of requests to forget, in all languages."""

from __future__ import annotations

import re
from typing import NamedTuple

from vikingd.domain.extract import Meant


class Asked(NamedTuple):
    """A request to forget: its topic, the way it is meant, and True if it is sure."""

    topic: str
    meant: Meant
    is_sure: bool


_SIMPLIFIED = str.maketrans(
    "記刪別說請煩關於這個過裡裏憶訊話剛講對沒還幫給經條準備將總錄檔無須許會誰麼為時門們聽問嗎戶慶歲"
    "號碼電機薪資愛歡寵貓媽爺點鐘隨讓欄聯繫學專業車從倉員貸樓區習書師醫藥氣開關國語東西養張陳劉趙",
    "记删别说请烦关于这个过里里忆讯话刚讲对没还帮给经条准备将总录档无须许会谁么为时门们听问吗户庆岁"
    "号码电机薪资爱欢宠猫妈爷点钟随让栏联系学专业车从仓员贷楼区习书师医药气开关国语东西养张陈刘赵",
)


def simplified(text: str) -> str:
    """Return a text with the simplified forms of some characters, and of the same length."""
    return text.translate(_SIMPLIFIED)


def end_of(pattern: str, text: str) -> int:
    """Return the end of a pattern at the beginning of a text; 0 without it."""
    found = re.match(pattern, text, re.IGNORECASE)
    return found.end() if found else 0
