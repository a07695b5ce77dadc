"""Traditional Chinese characters as simplified ones, for rules written in simplified Chinese."""

from __future__ import annotations

_SIMPLIFIED = str.maketrans(
    "記刪別說請煩關於這個過裡裏憶訊話剛講對沒還幫給經條準備將總錄檔無須許會誰麼為時門們聽問嗎戶慶歲"
    "號碼電機薪資愛歡寵貓媽爺點鐘隨讓欄聯繫學專業車從倉員貸樓區習書師醫藥氣開關國語東西養張陳劉趙"
    "週後兩禮幾內來間聖誕節勞動兒婦〇",
    "记删别说请烦关于这个过里里忆讯话刚讲对没还帮给经条准备将总录档无须许会谁么为时门们听问吗户庆岁"
    "号码电机薪资爱欢宠猫妈爷点钟随让栏联系学专业车从仓员贷楼区习书师医药气开关国语东西养张陈刘赵"
    "周后两礼几内来间圣诞节劳动儿妇零",
)


def simplified(text: str) -> str:
    """Return a text with common characters in simplified form; its length stays the same."""
    return text.translate(_SIMPLIFIED)
