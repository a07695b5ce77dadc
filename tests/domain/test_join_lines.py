"""Lines of a paragraph in one line."""

from __future__ import annotations

import pytest

from vikingd.domain.text import join_lines


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("", ""),
        ("one", "one"),
        ("one\ntwo", "one two"),
        ("  one \n\n\t two  ", "one two"),
        ("one\r\ntwo\rthree", "one two three"),
        ("枣红色，\n下肉", "枣红色，下肉"),
        ("枣红色，\r\n  下肉", "枣红色，下肉"),
        ("枣红色\n下肉", "枣红色下肉"),
        ("大火烧开。\n然后小火炖", "大火烧开。然后小火炖"),
        ("他说：\n“好的”", "他说：“好的”"),
        ("他说：“好的”\n然后走了", "他说：“好的”然后走了"),
        ("他说“\n好的", "他说“好的"),
        ("等等……\n再说", "等等……再说"),
        ("再说\n……等等", "再说……等等"),
        ("北京\n——首都", "北京——首都"),
        ("**枣红色**\n下肉", "**枣红色**下肉"),
        ("枣红色\n**下肉**", "枣红色**下肉**"),
        ("前端 后端\n数据库", "前端 后端数据库"),
        ("使用\nPython", "使用 Python"),
        ("Python\n很好", "Python 很好"),
        ("`码`\n后", "`码`后"),
        ("2024 年\n1 月", "2024 年 1 月"),
        ("吾輩は\n猫である。", "吾輩は猫である。"),
        ("カタカナ\nひらがな", "カタカナひらがな"),
        ("ｶﾀ\nｶﾅ", "ｶﾀｶﾅ"),
        ("（全角）\n［括弧］", "（全角）［括弧］"),
        ("𠮷野家\n𠮷", "𠮷野家𠮷"),
        ("한국어\n문장", "한국어 문장"),
        ("русский\nтекст", "русский текст"),
        ("it’s “so”\n“they” said", "it’s “so” “they” said"),
        ("wait…\nthen", "wait… then"),
        ("wait…\n“then”", "wait… “then”"),
        ("he said “no”\n然后走了", "he said “no”然后走了"),
        ("人々\n々", "人々々"),
        ("一\n\n二\n三", "一二三"),
        ("word\n，逗号", "word ，逗号"),
    ],
)
def test_lines_join_as_a_reader_joins_them(text: str, joined: str) -> None:
    """Lines join by a space, lines of Chinese and Japanese without one; Korean has spaces."""
    assert join_lines(text.splitlines()) == joined
