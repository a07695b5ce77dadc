"""The words of the planning rules in English and Chinese, as regular expressions of linear time.

The lists are texts: `_words` reads words with commas between them, `_lines` one pattern a line.
"""

from __future__ import annotations

import re

from vikingd.domain.text import lazy


def _any(*patterns: str) -> str:
    """Return a pattern that matches any of the patterns."""
    return f"(?:{'|'.join(patterns)})"


def _list(text: str) -> list[str]:
    """Return the words in a text such as "hi, hello"."""
    return [word.strip() for word in text.split(",")]


def _words(text: str) -> str:
    """Return a pattern that matches any word in a text such as "hi, hello"."""
    return _any(*_list(text))


def _lines(text: str) -> list[str]:
    """Return the patterns in a text, one for each line.

    A line that begins with "+" continues the line before it: the lines "yes", "no" and "+te" give
    the patterns "yes" and "note".
    """
    return text.strip().replace("\n+", "").splitlines()


# The end of an English word; a hyphen joins (a-records).
_END = r"(?![a-z0-9_'-])"

_THANKS = r"""
(?:many thanks|thanks|thank (?:you|u)|thx|thanx|tysm?|cheers|much appreciated
+|(?:i )?appreciate it)
+(?: (?:a lot|a bunch|a million|so much|very much|again|in advance|anyway|everyone|all
+|for (?:all )?(?:your|the) (?:help|time|support|answer|reply|effort)
+|for (?:this|that|everything|helping(?: me)?)))*
you(?:'re| are) welcome
same to you
don't mention it
"""
_GREETINGS = r"""
(?:hi|hello|hey|hiya|howdy|yo|greetings|good (?:morning|afternoon|evening|day|night)|morning)
+(?: (?:there|all|everyone|everybody|folks|team|guys|buddy|friend|my friend|again))?
how (?:are you(?: doing)?(?: today)?|is it going|have you been|do you do|was your day)
how's it going
what(?:'| i)?s (?:up|new|your name)
sup
(?:nice|pleased) to meet you
(?:who|what|how old) are you
are you (?:there|(?:an? )?(?:bot|robot|human|ai|real))
tell me a joke
and you
(?:and )?you too
"""
_FAREWELLS = r"""
(?:good)?bye(?: bye)?
see (?:you|ya)(?: (?:later|soon|tomorrow|around|then))?
take care
(?:talk to you )?later
have a (?:nice|good|great|lovely) (?:day|one|weekend|evening|night|time)
"""
_PRAISE = r"""
good luck
no (?:problem|worries)
(?:(?:that|it)(?:'s| is) |you(?:'re| are) )?(?:so |very |really )?
+(?:great|nice|cool|awesome|perfect|excellent|wonderful|amazing|brilliant|fantastic|good
+|helpful|the best)(?: (?:job|work|one|news))?
"""
_ASSENT = """
    well done, ok(?:ay)?, k, all ?right, got it, i see, understood, sounds good, makes sense, sure,
    yes, yeah, yep, no, nope, np, of course, never ?mind, exactly, right, fine, please, wow, oh, lol
"""
_LAUGHTER = "(?:ha){2,}|(?:he){2,}|hm+"

_CHINESE = r"""
(?:大家|你们|您|你)好[啊呀吗嘛哇嗎]?|[早晚](?:上好|安)?|(?:上午|中午|下午)好
嗨|嘿|喂|哈[喽啰罗囉]|最近(?:怎么样|如何|还?好吗)|吃了吗|在[吗嘛嗎]|在不在
(?:非常|十分|万分|太|真的?|很)?(?:感谢|感謝|谢谢|謝謝|多谢|多謝)
+(?:你们|大家|[你您啦了哦啊])*(?:的?(?:帮助|幫助|帮忙|支持|回答|解答|回复))?
辛苦[你您]?[了啦]|麻烦[你您]?了|好[的吧滴嘞呢了啊]?|行吧?|可以的?|[嗯哦噢喔额呃]
不?是的?|对的?|不用?谢|不用了?|[没沒](?:事了?|关系|關係|问题|問題)|不客气|不客氣|客气了
知道了|明白了?|了解了?|收到|懂了|原来如此|当然|哈{2,}|呵{2,}|嘿{2,}
(?:太|真|很|非常|你真|你太)(?:棒|好|厉害|赞|不错|牛|完美|聪明)[了啦啊哦]?|不错|厉害|[棒赞]
再见|再見|拜{1,2}|(?:回头|明天|下次|一会儿?)见
你是谁|你叫什么(?:名字)?|[讲说]个笑话|你(?:会|能做)什么|很?高兴认识[你您]|[啊呀啦呢吧哈]
"""

# Of two patterns that begin alike the longer one stands first, because a match is final.
# Emoji, punctuation and white space may stand between; signs of programs (->, ::=) may not.
_BETWEEN = "[-\\s.,!?~;:'\"()、。·—\U0001f000-\U0001faff\u2600-\u27bf\u2b50\ufe0f\u200d]"
CHIT_CHAT = lazy(
    f"{_BETWEEN}|"
    + _any(
        *_lines(_THANKS),
        *_lines(_GREETINGS),
        *_lines(_FAREWELLS),
        *_lines(_PRAISE),
        *_list(_ASSENT),
        _LAUGHTER,
    )
    + f"{_END}|{_any(*_lines(_CHINESE))}"
)
"""The pattern of a piece of chit-chat, or of a sign between two pieces; for folded text."""

PERSONAL = lazy(
    _any(
        r"(?<![\w.-])my\s",  # not my.cnf
        r"\b(?:of|is|are|like|as|than|with) mine\b",  # not a coal mine
        r"\bi (?:(?:really|usually|generally|still|also|always|never|don't|do not) )*"
        r"(?:like|prefer|love|hate|dislike)\b",
        r"\bi (?:usually|always|never|told you)\b",
        r"(?<!how )(?<!where )(?<!why )\bdo i (?!need\b|have to\b|do\b)",
        r"\bremember\b(?! me\b)",  # not the box "remember me" of a form
        r"\blast time (?:i|we)\b",
        r"(?<![自忘本超])我的(?!世界)",
        r"我(?:最|很|更|比较|不太?|也|都|一直|平时|一般|通常)*(?:喜欢|喜歡|习惯|習慣|讨厌|討厭)",
        r"我(?:上次|之前|以前|说过|說過)|上次我|[记記](?:得|住)|偏好",
    )
)
"""The pattern of words that show a query about the user or earlier talks; for folded text."""

_MAY_YOU = "(?:能不能|能否|可不可以|可否|可以|能)"
_PLEASE = "[请請](?![问問])[你您]?"  # 请问 asks a question
_HELP = "[帮幫][我忙]|[替为給给][我]|麻[烦煩][你您]?|劳烦[你您]?"

_TOLD_LEADS = r"""
(?:please|pls|kindly|(?:can|could|would|will) you|help (?:me|us)(?: to)?)
i (?:want|need|would like) (?:you )?to
i'd like (?:you )?to
let's
let us
"""
_CHINESE_TOLD_LEADS = (
    _PLEASE,
    _HELP,
    f"[你您]{_MAY_YOU}",
    rf"{_MAY_YOU}(?=\s*(?:{_PLEASE}|{_HELP}))",
    "我?(?:想|要|希望|需要)[让請请]?[你您]",
    "我(?:想要?|要|需要)",
)
_FILLERS = (
    r"(?:hi|hello|hey|thanks|thank you|good (?:morning|afternoon|evening))"
    r"(?: (?:there|all|everyone))?\s*[,.!:，。！]+",
    rf"(?:ok|okay|so|now|then|well|and|also){_END}[,.!:，。！]*(?=\s)",
    r"[你您]好[啊呀]?\s*[,.!，。！、]+",
    r"(?:谢谢|好的|嗨|那)\s*[,.!，。！、]+",
    "[请請][问問]|现在|然后|接下来|那么",
)

LEAD = lazy(
    rf"(?:(?P<told>{_any(*_lines(_TOLD_LEADS))}{_END}[\s,:]+|{_any(*_CHINESE_TOLD_LEADS)}(?:一下)?)"
    rf"|{_any(*_FILLERS)})[\s,，:：、]*",
    re.IGNORECASE,
)
"""The pattern of polite words before a task; after a match of the group `told` one must follow."""

_TAILS = " please|,please| for me| thanks| thank you|谢谢|謝謝|可以吗|好吗|行吗|吗|嗎|吧"
TAILS = tuple(_TAILS.split("|"))
"""The polite words after a task."""
TAIL_SIGNS = " \t\r\n.,!?~;，。！？；～…"

# Verbs that ask for work at the beginning of a query, except in names of things.
_VERBS = _words("""
    add, analy[sz]e, append, assemble, attach, automate, calculate, classify, clean up, compile,
    compose, compress, compute, configure, convert, create, crop, delete, deploy, describe,
    download, encrypt, decrypt, enable, disable, evaluate, extract, fix, generate, implement,
    install, integrate, investigate, make, migrate, modify, normali[sz]e, optimi[sz]e,
    organi[sz]e, prepare, publish, refactor, remove, rename, render, replace, resize, restructure,
    rewrite, send, set up, simplify, split, summari[sz]e, transcribe, transform, translate,
    troubleshoot, uninstall, upload, validate, verify, visuali[sz]e, write
""")
_THINGS = _words("""
    guides?, docs, documentation, instructions, manual, tutorials?, steps, scripts?, pipelines?,
    process, logs?, options?, flags?, settings, fail(?:s|ed|ures?), is, are, was, vs, versus, of,
    in, on, at, ahead
""")
# Words that are nouns as often: they are verbs only before a determiner.
_VERBS_OR_NOUNS = _words("""
    build, book, bump, change, check, clean, code, compare, copy, debug, design, document, draft,
    draw, edit, export, filter, format, import, label, lint, list, merge, move, order, outline,
    parse, plan, plot, print, process, profile, proofread, record, release, report, review, revise,
    run, schedule, scrape, sketch, sort, start, stop, test, train, turn, update
""")
_DETERMINERS = _words("""
    an?, the, this, that, these, those, my, our, your, his, her, their, its, all, it, them, some,
    me, us, every, each, both
""")
# After polite words these ask for knowledge, not for work that a skill describes.
_NO_WORK = _words("""
    an?, the, this, that, these, those, my, our, your, i, we, you, it, is, are, be, have, get, give,
    tell, teach, explain, show, say, see, look, find, search, list, name, know, learn, understand,
    think, remember, recall, remind, recommend, suggest, answer, help, mind, not, don't, just, what,
    which, who, when, where, why, how, if, with, on, in, for, of, about, and, or, to
""")

_ZH_VERBS = _words("""
    创建, 建立, 新建, 编写, 撰写, 起草, 改写, 重写, 润色, 续写, 生成, 制作, 绘制, 提取, 抽取, 转换,
    翻译, 总结, 概括, 归纳, 修复, 修改, 重构, 部署, 安装, 实现, 添加, 增加, 删除, 移除, 合并, 拆分,
    导出, 导入, 计算, 检查, 验证, 优化, 压缩, 整理, 发送, 比较, 对比, 迁移, 搭建, 分析, 格式化,
    建立, 創建, 編寫, 撰寫, 轉換, 翻譯, 總結, 修復, 刪除, 檢查, 驗證, 優化
""")
_ZH_THINGS = _words("""
    时间, 日期, 者, 器, 机, 式, 树, 指南, 教程, 手册, 说明, 方法, 步骤, 流程, 日志, 规范, 规则,
    原则, 标准, 技巧, 工具, 人, 方案, 策略, 失败, 错误, 报错, 报告, 的, 了, 是, 和, 与,
    后, 前, 时, 中
""")
_ZH_VERBS_OR_NOUNS = _words("""
    写, 寫, 画, 畫, 做, 改, 建, 发, 译, 运行, 设计, 測試, 测试, 配置, 更新, 编辑, 审查, 调试, 构建,
    设置, 转, 解析, 评审, 校对, 爬取, 下载, 上传, 安排, 规划, 制定, 标注, 训练
""")
_ZH_DETERMINERS = "[一两这那该個个份篇封张段下]|以下|上面|所有|我们?|成"

# _SURE matches "translate this", _LIKELY "review the", _ZH_SURE 翻译文章, _ZH_LIKELY 写一.
_SURE = rf"{_VERBS}{_END}\s+(?!{_THINGS}{_END})\S"
_LIKELY = rf"{_VERBS_OR_NOUNS}{_END}\s+{_DETERMINERS}{_END}"
_ZH_SURE = rf"{_ZH_VERBS}(?!\s*{_ZH_THINGS})\s*\S"
_ZH_LIKELY = rf"{_ZH_VERBS_OR_NOUNS}\s*(?:{_ZH_DETERMINERS})"
UNTOLD = lazy(_any(_SURE, _LIKELY, _ZH_SURE, _ZH_LIKELY), re.IGNORECASE)
"""The pattern of the beginning of a task without polite words."""
TOLD = lazy(
    _any(
        rf"(?!{_NO_WORK}{_END})[a-z]{{2,}}{_END}\s+\S",
        rf"{_ZH_VERBS}\s*\S",
        rf"{_ZH_VERBS_OR_NOUNS}\s*\S",
        r"[把将將]\s*\S",
    ),
    re.IGNORECASE,
)
"""The pattern of the beginning of a task after polite words."""
