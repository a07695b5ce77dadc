"""Requests to forget, read from the user's own words, in English and Chinese.

A request is an order to the agent: "forget that I live in Lyon", 把我的地址忘了吧. These are none:
quotations and pasted texts, the forgetting of people ("I forgot my keys", 我忘了带钥匙), "don't
forget", hypotheses, questions about the agent, and "forget it" for a task. Each sentence is read by
itself. A request that is only likely is not `sure`, so that it never deletes anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vikingd.domain import pace
from vikingd.domain.extract import ForgetRequest, Meant
from vikingd.domain.search_query import SessionMessage
from vikingd.domain.text import CJK_CHARS, SENTENCE_END, lazy
from vikingd.memory.own_words import LEFT_OUT, own_words

MAX_READ = 8_000
"""Characters of a message that are read."""

MAX_SENTENCE = 400
"""Characters of a sentence that is read."""

MAX_REQUESTS = 32
"""Requests of one call, the newest ones."""

_HAN = lazy(f"[{CJK_CHARS}]")
_SIMPLIFIED = str.maketrans(
    "記刪別說請煩關於這個過裡裏憶訊話剛講對沒還幫給經條準備將總錄檔無須許會誰麼為時門們聽問嗎戶慶歲"
    "號碼電機薪資愛歡寵貓媽爺點鐘隨讓欄聯繫學專業車從倉員貸樓區習書師醫藥氣開關國語東西養張陳劉趙",
    "记删别说请烦关于这个过里里忆讯话刚讲对没还帮给经条准备将总录档无须许会谁么为时门们听问吗户庆岁"
    "号码电机薪资爱欢宠猫妈爷点钟随让栏联系学专业车从仓员贷楼区习书师医药气开关国语东西养张陈刘赵",
)

# English

_LEAD = (
    r"(?:(?:oh|ok|okay|hey|hi|hello|so|and|also|but|well|actually|btw|by the way|one (?:more|last)"
    r" thing|now|then|no|nope|yes|yeah|sorry|hm+|wait|thanks|thank you|right|anyway|look|listen|"
    r"in that case|on second thou?ght|for (?:privacy|the record)|ps|p\.s\.|fyi|while we're at it)"
    r"\b[\s,.:!…-]*)*"
)
_ASKED = r"(?:please|pls|plz|kindly|just|also|now|simply|completely|totally|really|go ahead and)"
_TOLD = (
    r"(?:you (?:can|may|should|could|must) |feel free to |i(?:'d| would) (?:like|love|want) "
    r"(?:for )?you to |i (?:want|need) you to |i(?:'d| would) (?:rather|prefer)(?: that| if)? you "
    r"|i(?:'d| would) appreciate it if you (?:could |would )?|(?:it's|it is) (?:ok|okay|fine|time)"
    r" to |let's )"
)
_MAY = r"(?:(?P<may>can|could|would|will) you )"
_FORGETS = r"(?:forget|forgot|unlearn|disregard)(?: all)?(?: about)?"
_DELETES = r"(?:delete|remove|erase|wipe|clear|drop|scrub|purge|take|get rid of|deleted?|removed?)"
_MEMORY = (
    r"(?:(?: out)?(?: of| from| in)? (?:your (?:long[- ]term )?(?:memory|memories|notes?|records?|"
    r"profile|files?|storage|journal|database|data|list|head)|(?:the|my|its) (?:memory|memories|"
    r"profile))|(?: on| from) (?:file|record))"
)
_UNREMEMBERS = (
    r"(?:do not|don't|dont|no need to|you (?:don't|do not|dont) (?:need|have) to|you needn't|"
    r"(?:you )?(?:can |should |must )?(?:stop|quit)|i (?:don't|do not|dont) (?:want|need) you to|"
    r"i'?d (?:rather|prefer) (?:that )?you (?:didn't|did not|don't)|"
    r"you (?:can|should|may) no longer|no longer) (?:still |ever )?"
    r"(?:remember|remembering|keep|keeping|store|storing|know|knowing|hold on to|holding on to)"
)
_REQUEST = lazy(
    rf"(?P<please>(?:{_ASKED}[,]? )*)(?P<told>(?:{_TOLD}|{_MAY})?)"
    rf"(?P<again>(?:{_ASKED}[,]? )*)"
    rf"(?:(?:{_FORGETS}) (?P<forget>.+)"
    rf"|(?:{_DELETES})(?P<memory>{_MEMORY},?)? (?P<delete>.+)"
    rf"|(?P<stop>{_UNREMEMBERS}) (?P<keep>.+))",
    re.IGNORECASE | re.DOTALL,
)
_LAST = (
    r"(?:that|this|it|that one|all (?:of )?that|what i (?:just )?(?:said|told you|wrote)"
    r"(?: just now| there| before)?|(?:what|that) i just (?:said|told you|wrote)|"
    r"i (?:ever )?(?:just )?said (?:that|it|anything|so)|(?:the|my) (?:last|previous) "
    r"(?:thing i said|thing|message|sentence|statement|remark|line|bit|part))"
)
_BEFORE = lazy(
    rf"(?:(?:{_ASKED}[,]? )*(?:{_TOLD}|(?:can|could|would) you )?(?:{_ASKED}[,]? )*"
    rf"(?:(?:{_FORGETS}|scratch|strike|unsay|{_DELETES}|{_UNREMEMBERS}) {_LAST}"
    rf"(?: again)?(?:{_MEMORY})?|pretend i (?:never|didn't) (?:said?|told you|tell you) "
    r"(?:that|it|anything|so)|i take (?:that|it) back)"
    r"(?:,? (?:please|pls|thanks|thank you|now|again|any ?more|ok(?:ay)?|will you|would you|"
    r"right away|completely))*(?P<end>[\s,;:.!?…—–-]*))+",
    re.IGNORECASE,
)
_IDLE = lazy(rf"(?:{_ASKED}[,]? )*(?:forget|never ?mind)(?: about)? it[\s.!…]*", re.IGNORECASE)
_JOINT = lazy(
    r"(?:[,;:—–…)]|\s-)\s*(?:(?:and|but|so|then|also)\b,?\s*)?|\b(?:so|and|but)\s+(?=please\b|you can )"
    r"|\s(?=(?:please|pls|plz) )"
)
_UNREAL = lazy(
    r"\b(?:if (?!possible|you (?:can|could|would|don't mind|please|forgot|didn't))|unless|whether|"
    r"suppose|imagine|what happens|whenever|in case|until|when(?:ever)? i (?:say|ask|tell)|"
    r"hypothetically|example|joking|kidding)\b",
    re.IGNORECASE,
)
_REPORTED = lazy(
    r"\b(?:said|says?|saying|told|tells|wrote|writes|asked|asks|advised|suggests?|suggested|quote|"
    r"according to|title[sd]?|called|song|lyrics?|want to|wants to|try(?:ing)? to|going to|have to|"
    r"need to|able to|can't|cannot|never|let me|make me|help me|write|translate|command|prompt)\b"
    r"|[\"“”«»]",
    re.IGNORECASE,
)
_STATES = lazy(
    r"(?:about )?(?:(?:the|that) (?:fact|thing|part|bit) )?(?:that )?"
    r"(?:(?:what )?i (?:ever |just |once )?(?:said|told you|mentioned|wrote|claimed)"
    r"(?: to you| before| earlier| yesterday)?,? (?:that )?)?(?P<that>(?:i|i'm|i'?ve|im|i'd|we|"
    r"we're|we've) .+|(?:my|our) .+? (?:is|are|was|were|has|have|had|likes?|loves?|hates?|lives?|"
    r"works?|wants?|goes|got|will|can|can't|doesn't|isn't|died|moved|plays?|speaks?|owns?|drinks?|"
    r"eats?|studies) .+)",
    re.IGNORECASE | re.DOTALL,
)
_NAMED_STATES = lazy(
    r"(?:the fact )?that (?P<that>[A-Z]\w+ (?:is|was|has|likes?|loves?|hates?|lives?|works?|wants?) "
    r".+)",
    re.DOTALL,
)
_OF = r"(?:about|on|regarding|concerning|of|under|in|with|for|from)"
_JUST = lazy(r"what i(?:'ve)? just (?:said|told you|wrote|mentioned)\b", re.IGNORECASE)
_SECTION = lazy(
    r"(?:(?:the|my|that|your|a) )?(?:whole |entire )?(?:(?:section|heading|category) (?:called |named |on |"
    r"about |of )?(?P<what>.+)|(?P<named>.+?) (?:section|heading|category))",
    re.IGNORECASE,
)
_EXTERNAL = lazy(
    r".*\b(?:accounts?|appointments?|meetings?|events?|alarms?|timers?|reminders?|reservations?|bookings?|"
    r"orders?|subscriptions?|mails?|posts?|photos?|pictures?|videos?|calendar|tickets?|downloads?|"
    r"branch(?:es)?|repositor(?:y|ies)|containers?|folders?|director(?:y|ies)|databases?|tables?|apps?|"
    r"duplicates?|cookies|history|playlists?|comments?)\W*",
    re.IGNORECASE,
)
_SAID_ABOUT = lazy(
    r"(?:(?P<all>everything|all|anything|whatever)|what|(?:the |all the |those )?(?:things?|stuff|"
    r"facts?|bits?|details?|info|information))(?: (?:that|which|of))?"
    r"(?: (?:i|we|you)(?:'ve| have)?(?: ever| just| once| already)? (?:said|told(?: you)?|"
    r"mentioned|shared|wrote|know|remember|have|stored|saved|noted|learn(?:ed|t)|keep)"
    rf"(?: to you| with you| before| earlier| down)*)? {_OF} (?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_NOTE_ON = lazy(
    r"(?P<all>all )?(?:the|that|this|my|your|any|those|these|of|our)?(?: the| my| your)? ?"
    r"(?:thing|part|bit|fact|notes?|memor(?:y|ies)|entry|entries|info|information|details?|stuff|"
    rf"story|records?) {_OF} (?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_ALL_MY = lazy(
    r"(?:all|every|any)(?: of)?(?: the| my| our| your)? (?P<what>.+?)(?: (?:notes?|memor(?:y|ies)|"
    r"entries|stuff|preferences|facts))?",
    re.IGNORECASE | re.DOTALL,
)
_OWN = lazy(
    r"(?:my|our) .+|me \w+ing\b.*|(?:the|that|this) .+\b(?:my|(?:that )?i (?:gave|told|sent|shared|mentioned|"
    r"said)|of (?:mine|ours))\b.*|(?:where|how old|who|when|what) (?:i|my) .+|which .+ i .+",
    re.IGNORECASE | re.DOTALL,
)
_TASK = lazy(
    r"(?:(?:my|the|that|this|your|all|any|our)\s)*(?:(?:last|previous|earlier|first|second|other|above|"
    r"prior|old)\s)*(?:questions?|requests?|prompts?|tasks?|quer(?:y|ies)|commands?|instructions?|"
    r"jokes?|ideas?|suggestions?|examples?|drafts?|attempts?|essays?|code|scripts?|worries|"
    r"troubles|problems|conversations?|chats?|context|rules?|keys|lines?|rows?|files?|columns?|"
    r"paragraphs?|words?|manners|password field)\b"
    r"|.*\b(?:above|so far|instructions?|system prompt)\b",
    re.IGNORECASE,
)
_STOPS = lazy(
    r"\b(?:any ?more|any longer|no longer|stop|quit)\b|\bi(?:'d| do| don't| dont) ?(?:not )?(?:want|need|rather|"
    r"prefer)\b",
    re.IGNORECASE,
)
_MINE = lazy(r"(?:my|our)\b", re.IGNORECASE)
_GENERIC = lazy(
    r"(?:things?|stuff|something|anything|everything|memories|a memory|facts?|information|people|"
    r"what (?:i|people) says?|me|it all|all)(?: about (?:me|us))?(?: (?:you|i) (?:know|have|said|"
    r"remember|told you)(?: about me)?)?",
    re.IGNORECASE,
)
_TAIL = lazy(
    rf"(?:{_MEMORY})?(?:[\s,;:.!?…—–-]|\b(?:please|pls|thanks|thank you|thx|ok|okay|now|for good|"
    r"forever|completely|entirely|altogether|right away|immediately|from now on|as well|too|again|"
    r"any ?more|any longer|for me|if (?:possible|you can|you could|you don't mind)|would you|"
    r"will you|could you|can you|already|then|though|instead|haha|lol)\b)+\Z",
    re.IGNORECASE,
)
_CUT = lazy(
    r"\s*(?:[;—–]|\s-\s|\(|\b(?:because|since (?:it|i|that|we)|as (?:i|it|that|we)|but)\b|"
    r"(?:,|\band)\s+(?=(?:it|it's|that|this|these|i|i'm|i've|i'd|we|he|she|they|thanks?|please|ok|"
    r"because|since|which|but|so|use|now|instead|not|just|would|will|can|could|do|don't|never|"
    r"remember|keep|from|there|that's|let's|write|tell|show|give)\b)).*\Z",
    re.IGNORECASE | re.DOTALL,
)

# Chinese

_ZH_LEAD = (
    r"(?:(?:那么?|哦|噢|啊|嗯|欸|诶|对了|好的?|另外|还有|顺便(?:说一下|说一句)?|其实|算了|不好意思|抱歉|"
    r"对不起|谢谢|等等|等一下|不对|哎|唉|行|所以|然后|最后|拜托|以后)[，,。！!、…\s]*)*"
)
_ZH_ASKS = r"(?:请|麻烦|拜托|劳烦|烦请|希望|想让|想请|要)"
_ZH_CAN = (
    r"(?:可以|就|还是|帮我|帮忙|给我|先|也|都|赶紧|直接|最好|一定要|务必|现在|彻底|完全|尽快|应该|全|统统|通通)"
)
_ZH_MAY = r"(?:能不能|可不可以|可否|能否|能)"
_ZH_ORDER = (
    rf"(?P<zh_please>我?{_ZH_ASKS})?(?P<zh_you>[你您])?(?P<zh_may>{_ZH_MAY})?(?P<zh_can>{_ZH_CAN}*)"
)
_ZH_DELETES = r"(?:删掉|删除|删了|删|清除|清掉|清空|抹掉|抹去|抹除|去掉|移除|忘掉|忘干净|忘光)"
_ZH_FORGETS = r"(?:忘了|忘记)"
_ZH_FROM = (
    r"(?:从|在)?(?:(?:你|您)?的?(?:记忆|记录|备忘录?|档案|笔记|记忆库)(?:里面?|中|上|那里)?|(?:你|您)(?:那儿|那里|"
    r"这儿|这里|那边|这边|脑子里))"
)
_ZH_END = (
    r"(?P<zh_end>(?:吧|了|啦|掉|它|好了|就好|就行|谢谢|好吗|可以吗|行吗|行不行|好不好|吗|哈+|哦|啊|[。！!？?～~…\s])*)"
    r"(?P<zh_tail>[，,].*)?"
)
_ZH_UNREMEMBERS = (
    r"(?:不要|别|不用|不必|无需|用不着|不需要|没必要)(?P<zh_again>再|继续)?(?:帮我)?(?:记得|记着|记住|"
    r"记|保留|存着|留着|保存|提起?)"
)
_ZH_REQUEST = lazy(
    rf"{_ZH_ORDER}(?:(?:{_ZH_FROM})?(?P<zh_verb>{_ZH_FORGETS}|{_ZH_DELETES})(?:掉|了)?(?P<zh_topic>.+?)"
    rf"|(?:{_ZH_FROM})?(?:把|将)(?P<zh_ba>.+?)(?:都|全部?|也|给|统统|通通|彻底|完全|{_ZH_FROM}|就|我)*"
    rf"(?:{_ZH_FORGETS}|{_ZH_DELETES})|{_ZH_UNREMEMBERS}(?P<zh_keep>.+?)){_ZH_END}",
    re.DOTALL,
)
_ZH_BEHIND = lazy(
    r"(?P<zh_topic>(?:我|关于|有关|那|这|之前|刚才|刚刚|以前|所有|上次).+?)[，,、]?(?P<zh_marks>(?:你|您|请|麻烦|"
    rf"可以|就|都|全|还是|也|全部|一并|{_ZH_FROM})*)(?:(?:{_ZH_FORGETS}|{_ZH_DELETES})|(?P<zh_not>"
    rf"(?:不用|别|不要|不必|不需要)再?(?:记得|记住|记着|记|保留))){_ZH_END}",
    re.DOTALL,
)
_ZH_LAST = (
    r"(?:我?(?:刚才|刚刚|刚|上面|前面|之前)?我?(?:跟你)?说过?的(?:话|那句话?|这句话?|那些|内容|事)?|"
    r"[这那](?:个|句话?|件事情?|事儿?|条|些|段)?|(?:刚才|刚刚)[那这](?:句话?|个|条)|上一[句条]话?|"
    r"我?(?:刚才|刚刚)的话|它)"
)
_ZH_BEFORE = lazy(
    rf"(?:我?{_ZH_ASKS})?[你您]?{_ZH_CAN}*(?:(?:把|将){_ZH_LAST}(?:都|全|给|{_ZH_FROM})*(?:{_ZH_FORGETS}|"
    rf"{_ZH_DELETES})|(?:{_ZH_FORGETS}|{_ZH_DELETES}){_ZH_LAST}|{_ZH_LAST}[，,]?[你您]?(?:就|可以|请|都|还是)*"
    rf"(?:{_ZH_FORGETS}|{_ZH_DELETES}|(?:不用|别|不要)再?记(?=了|啦|吧)|不算|作废)|"
    rf"(?:不要|别|不用)再(?:记得|记着|记住|记){_ZH_LAST}|"
    r"就?当我(?:刚才|刚刚)?(?:什么都|啥都)?没(?:有)?(?:说|讲|提)过?|我?收回(?:刚才|刚刚)?(?:的|说的|那句)?话)"
    rf"{_ZH_END}"
)
_ZH_IDLE = lazy(r"(?:那|就|你)*(?:忘了|忘掉|忘记)(?:它|这个)?吧[。！!～~…\s]*(?:[，,].*)?", re.DOTALL)
_ZH_UNREAL = lazy(
    r"如果|要是|假如|万一|的话(?![吧忘删都全])|假设|怎么|如何|为什么|什么时候|会不会|是不是|例如|比如|开玩笑|[“”『』\"]"
)
_ZH_ASKS_BACK = lazy(r"哪|谁|什么|啥|几[点号个岁]|多少|怎")
_ZH_FORGOT = lazy(r"告诉|说|带|问|提|拿|关(?!于)|锁|买|写|做|吃|交|给|打|回|发|要|在|把|了|去|跟|和|密码")
_ZH_CLAUSE = lazy(r"[，,；;：:]\s*(?:所以|那|然后|就)?")
_ZH_STATED = lazy(
    r"(?:我(?:之前|刚才|以前|昨天|上次|曾经)?(?:跟你|和你|对你|告诉过?你|给你)*(?:说过?的?|提过?的?|讲过?的?|"
    r"告诉过?你的?)[，,：:]?)?(?P<that>(?:我|咱).+?)(?:的?(?:这件事情?|这个?事儿?|那个?事儿?|这回事|这一点|"
    r"这个(?:信息|事实)|事实|那件事情?)|的事(?:情|儿)?)?",
    re.DOTALL,
)
_ZH_ENTRY = lazy(
    r"(?P<what>.+?)的?[这那]一?(?:条|项)(?:的?(?:记忆|记录|信息|内容))?|(?P<memory>.+?)的?(?:这|那)?(?:条|个|些)?的?(?:记忆|记录)"
)
_ZH_SECTION = lazy(
    r"(?P<what>.+?)(?:的?[这那]一?(?:个)?(?:栏目?|标题|分类|类别?|板块|部分|节)|(?:栏目?|标题|分类|板块)(?=下|里|底|的|$))"
    r"(?:下面?|底下|里面?|中)?的?(?:所有|全部|一切)?的?(?:记忆|内容|东西|信息|记录)?"
    r"|(?P<under>.+?)(?:下面?|底下|里面?)的?(?:所有|全部|一切)?的?(?:记忆|内容|东西|信息|记录)"
)
_ZH_EVERY = r"(?:所有|一切|全部|任何)"
_ZH_ABOUT = lazy(
    rf"(?:{_ZH_EVERY}的?)?(?:我?(?P<just>刚才|刚刚)?(?:之前|以前|上次|昨天)?我?(?:跟你|和你|对你)?"
    rf"(?:说|提|讲|告诉你)过?的?)?(?:{_ZH_EVERY}的?)?(?:(?:关于|有关)(?P<what>.+?)|(?:跟|和|与)(?P<with>.+?)"
    rf"(?:有关|相关))(?:的?[那这]?(?:些|件|条|个)?{_ZH_EVERY}?的?(?:事情?|事儿|一切|内容|记忆|信息|话|东西|部分|记录)*)?"
    r"|我?(?P<just2>刚才|刚刚)?(?:之前|以前|上次|昨天)?我?(?:跟你|和你|对你|给你)?(?:说|提|讲)过?的(?P<named>.+?)"
    r"(?:的?[那这]?(?:些|件)?事情?)?",
    re.DOTALL,
)
_ZH_JUST = lazy(r"(?:我)?(?:刚才|刚刚)(?:的|那个|这个|说的)*(?P<what>.+)")
_ZH_MINE = lazy(
    r"(?:(?:所有|全部|一切)的?)?(?:我|咱|那个|这个|以前的|之前的|旧的|之前跟你说的).+", re.DOTALL
)
_ZH_GENERIC = lazy(
    r"(?:我|你|一切|所有|全部|的|这|那|些|个|条|事情?|东西|记忆|信息|关于|内容|什么|知道|说|过|刚才)*"
)
_ZH_TASK = lazy(
    r".*(?:问题|请求|指令|提示词|规则|代码|文件|段落?|行|句子|例子|草稿|上面|以上|对话|聊天|设定|列|邮件|文章|"
    r"任务|作业|单词|标点|空格|烦恼|压力|不快|难过|痛苦)(?:的?内容)?"
)
_ZH_EXTERNAL = lazy(
    r".*(?:账号|帐号|日程|会议|闹钟|提醒|预约|订单|订阅|照片|图片|视频|应用|文件夹|目录|数据库|表格|评论|好友|群)"
)
_ZH_VERB = lazy(
    r"(?:我们?|咱们?)(?!的)\w{0,6}?(?:住|在|是|叫|喜欢|讨厌|不|有|对|会|想|要|吃|喝|养|姓|去|学|爱|怕|搬|得|做|当|"
    r"打算|结婚|离婚|辞|换|买|卖|用|过敏|戒|抽|怀)"
)
_ZH_NOUN = lazy(r"(?:生日|地址|住址|名字|电话|号码?|邮箱|密码|年龄|工资|月薪|收入|体重|身高|薪水)\Z")


def simplified(text: str) -> str:
    """Return a text with the simplified forms of some characters, and of the same length."""
    return text.translate(_SIMPLIFIED)


def read(messages: Sequence[SessionMessage], first: int) -> tuple[ForgetRequest, ...]:
    """Return the requests to forget in the user's messages of messages[first:], in order."""
    found: list[ForgetRequest] = []
    for index in range(first, len(messages)):
        pace.step()
        if messages[index].role == "user":
            found += _of_message(messages[index].content, index)
    return tuple(found[-MAX_REQUESTS:])


def ends(line: str) -> Iterator[re.Match[str]]:
    """Return the ends of the sentences of a line."""
    return SENTENCE_END.finditer(line)


def sentences(content: str) -> list[str]:
    """Return the sentences of a user's own words."""
    found: list[str] = []
    for line in own_words(content[:MAX_READ], private=True).splitlines():
        at = 0
        for end in [*(one.end() for one in SENTENCE_END.finditer(line)), len(line)]:
            if sentence := line[at:end].strip():
                found.append(sentence)
            at = end
    return found


def before(messages: Sequence[SessionMessage], request: ForgetRequest) -> tuple[str, ...]:
    """Return the statements that "forget that" may mean: those right before it, the last one last.

    They are the sentence before it in its message, else all of the user's message before it.
    """
    own = sentences(messages[request.message].content)
    at = own.index(request.sentence) if request.sentence in own else 0
    if _may_state(begin := _last(request.sentence)[1]):
        return (begin,)
    while at and (_is_request(own[at - 1]) or _FILLER.fullmatch(own[at - 1])):
        at -= 1
    if at:
        return (own[at - 1],) if _may_state(own[at - 1]) else ()
    if not request.sure:
        return ()
    for index in range(request.message - 1, -1, -1):
        if messages[index].role == "user":
            return tuple(one for one in sentences(messages[index].content) if _may_state(one))
    return ()


_QUESTION = lazy(r"^[^,，;；]*[?？]\W*$|^[^,，;；]*[吗嗎呢]\W*$")
_FILLER = lazy(r"(?:\W|\b(?:ok|okay|hm+|no|wait|oh|sorry|yes|well|actually|thanks)\b|[嗯哦啊等不对]){0,8}", re.IGNORECASE)
_FIRST_PERSON = lazy(r"\b(?:i|i'm|im|i've|my|mine|me|we|our)\b|我", re.IGNORECASE)


def _may_state(sentence: str) -> bool:
    """Return True for a sentence that may say something of the user."""
    return bool(_FIRST_PERSON.search(sentence)) and not (
        _QUESTION.search(sentence) or _is_request(sentence) or LEFT_OUT in sentence
    )


def _is_request(sentence: str) -> bool:
    return bool(_last(sentence)[0] or _read(sentence))


def _of_message(content: str, index: int) -> Iterator[ForgetRequest]:
    own = sentences(content)
    for at, sentence in enumerate(own):
        if len(sentence) > MAX_SENTENCE or LEFT_OUT in sentence:
            continue
        if (last := _last(sentence)[0]) and own[at - 1 : at] and _is_request(own[at - 1]):
            continue  # it says the request again
        if last:
            yield ForgetRequest("", sentence, index, Meant.BEFORE, sure=last == "sure")
        elif found := _read(sentence):
            topic, meant, sure = found
            yield ForgetRequest(topic, sentence, index, meant, sure=sure)


def _last(sentence: str) -> tuple[str, str]:
    """Return ("sure" or "unsure", the text before) of "forget that"; ("", "") for another sentence."""
    starts = [0, *(one.end() for one in (_ZH_CLAUSE if _HAN.search(sentence) else _JOINT).finditer(sentence))]
    for at in starts:
        if (found := _means_before(sentence[at:])) and not (at and found == "unsure"):
            if at and (_REPORTED.search(sentence[:at]) or _UNREAL.search(sentence)):
                return "", ""
            return found, sentence[:at].strip(" ,;:—–-，；：") if at else ""
    return "", ""


def _means_before(sentence: str) -> str:
    if _HAN.search(sentence):
        text = sentence.translate(_SIMPLIFIED)
        text = text[_match_end(_ZH_LEAD, text) :]
        if _ZH_BEFORE.fullmatch(text):
            return "sure"
        return "unsure" if _ZH_IDLE.fullmatch(text) else ""
    text = sentence[_match_end(_LEAD, sentence) :]
    if _IDLE.fullmatch(text):
        return "unsure"
    found = _BEFORE.match(text)
    if found and not re.search(r"\b(?:that|this|what|scratch|strike|said|back)\b", found[0], re.I):
        return "unsure"
    is_whole = found is not None and (
        found.end() == len(text) or re.search(r"[,;:.!?…—–-]", found["end"]) is not None
    )
    return "sure" if is_whole else ""


def _match_end(pattern: str, text: str) -> int:
    found = re.match(pattern, text, re.IGNORECASE)
    return found.end() if found else 0


def _read(sentence: str) -> tuple[str, Meant, bool] | None:
    """Return the topic of a request, the way it is meant, and if it is sure; None for no request."""
    return _read_chinese(sentence) if _HAN.search(sentence) else _read_english(sentence)


def _read_english(sentence: str) -> tuple[str, Meant, bool] | None:
    if _UNREAL.search(sentence):
        return None
    starts = [(0, _match_end(_LEAD, sentence), "")]
    starts += [(one.start(), one.end(), one[0]) for one in _JOINT.finditer(sentence)]
    for begin, at, joint in starts:
        at += _match_end(_LEAD, sentence[at:])
        found = _REQUEST.fullmatch(sentence, at)
        if found is None or _REPORTED.search(sentence, 0, begin):
            continue
        ordered = bool(found["please"].strip() or (found["told"] and not found["may"]) or found["again"].strip())
        is_bare = bool(begin) and not ordered and joint.strip() == ","
        asks = found["may"] is not None
        if asks and found["may"].lower() == "will" and not ordered:
            continue
        if (stop := found["stop"]) and not _STOPS.search(sentence):
            continue
        topic = _CUT.sub("", found["keep"] if stop else found["forget"] or found["delete"])
        named = bool(found["memory"] or stop or re.search(_MEMORY, topic, re.I))
        topic = re.sub(_MEMORY, "", _TAIL.sub("", topic), flags=re.I)
        made = _topic(topic, anything=named, deletes=found["delete"] is not None)
        if made is None:
            continue
        text, meant = made
        is_else = found["delete"] is not None and not named and _EXTERNAL.fullmatch(text)
        return text, meant, not (is_bare or is_else)
    return None


def _topic(text: str, *, anything: bool, deletes: bool) -> tuple[str, Meant] | None:
    text = text.strip(" ,.;:!?")
    if not text or _TASK.fullmatch(text) or re.match(r"(?:to|how|me|us|him|her|them|you)\b", text, re.I):
        return None
    if _GENERIC.fullmatch(text):
        whole = re.match(r"everything|all|it all|anything", text, re.I) and re.search(
            r"\b(?:me|us)\b", text, re.I
        )
        return ("", Meant.EVERYTHING) if whole or (anything and text.lower() in ("everything", "all")) else None
    if (found := _SECTION.fullmatch(text)) and (anything or re.match("the |my ", text, re.I)):
        return found["what"] or found["named"], Meant.ALL_OF
    if _JUST.match(text) and (found := _SAID_ABOUT.fullmatch(text)):
        return found["what"], Meant.BEFORE
    for pattern in (_SAID_ABOUT, _NOTE_ON):
        if (found := pattern.fullmatch(text)) and not _TASK.fullmatch(found["what"]):
            if re.fullmatch(r"me|us|myself", found["what"], re.I):
                return "", Meant.EVERYTHING
            return found["what"], Meant.ALL_OF if found["all"] else Meant.TOPIC
    if not deletes or anything:
        if found := _NAMED_STATES.fullmatch(text):
            return found["that"], Meant.STATEMENT
        if found := _STATES.fullmatch(text):
            return found["that"], Meant.STATEMENT
    if found := _ALL_MY.fullmatch(text):
        mine = re.match(r"(?:all|every|any)(?: of)? (?:my|our|your)\b", text, re.I)
        return (found["what"], Meant.ALL_OF) if anything or mine else None
    if anything or (_OWN.fullmatch(text) and not (deletes and not _MINE.match(text))):
        return text, Meant.TOPIC
    return None


def _read_chinese(sentence: str) -> tuple[str, Meant, bool] | None:
    text = sentence.translate(_SIMPLIFIED)
    if _ZH_UNREAL.search(text):
        return None
    starts = [0, *(one.end() for one in _ZH_CLAUSE.finditer(text))]
    for at in starts:
        at += _match_end(_ZH_LEAD, text[at:])
        found = _ZH_REQUEST.fullmatch(text, at)
        if found and (made := _zh_ordered(found, text, sentence)):
            return made
    for at in starts:
        found = _ZH_BEHIND.fullmatch(text, at)
        if found and (made := _zh_behind(found, sentence)):
            return made
    return None


def _zh_ordered(found: re.Match[str], text: str, sentence: str) -> tuple[str, Meant, bool] | None:
    """Return a request whose verb is before the topic, or that begins with 把."""
    name = next(one for one in ("zh_topic", "zh_ba", "zh_keep") if found[one])
    topic, verb = sentence[slice(*found.span(name))], found["zh_verb"]
    ends = found["zh_end"]
    ordered = bool(found["zh_please"] or found["zh_may"] or found["zh_can"])
    is_soft = "吧" in ends or ordered
    if found["zh_you"] and not (ordered or ("吧" in ends and verb and "忘" not in verb)):
        return None  # a reproach: "you forgot ..."
    if name == "zh_keep" and not (found["zh_again"] or "着" in found[0] or "了" in ends):
        return None
    asks = re.search(r"[吗？?]|好不好|行不行", ends) is not None
    if asks and not (ordered or re.search("好吗|可以吗|行吗|不", ends)):
        return None
    if verb in ("忘了", "忘记") and not is_soft:
        plain = found["zh_topic"]
        if _ZH_FORGOT.match(plain) or _ZH_ASKS_BACK.search(plain):
            return None
        if not re.search(
            "关于|有关|所有|一切|这件事|这回事|这一点|的事|这事|这个事|说过?的|说过我", text[found.start() :]
        ):
            return None
    made = _zh_topic(topic)
    if made is None:
        return None
    is_named = re.search(rf"{_ZH_FROM}|[那这]一?条|记忆|记录|栏", found[0]) is not None
    deletes = verb not in ("忘了", "忘记", "忘掉") if verb else "忘" not in found[0]
    is_else = deletes and not is_named and _ZH_EXTERNAL.match(made[0].translate(_SIMPLIFIED))
    if deletes and not is_named and not _ZH_MINE.fullmatch(topic.translate(_SIMPLIFIED)):
        return None
    return (*made, not is_else)


def _zh_behind(found: re.Match[str], sentence: str) -> tuple[str, Meant, bool] | None:
    """Return a request whose verb is behind the topic."""
    end = found["zh_end"]
    marked = found["zh_not"] or re.search("请|麻烦|可以|就|你", found["zh_marks"]) or "吧" in end
    if not marked or re.search("我(?:都|已经|全|也)?$|[别不没]$", found["zh_topic"]):
        return None
    if re.search("[吗？?]", end):
        return None
    made = _zh_topic(sentence[slice(*found.span("zh_topic"))])
    return None if made is None else (*made, True)


def _zh_topic(topic: str) -> tuple[str, Meant] | None:
    topic = re.sub(r"[了吧啦啊哈]+\Z", "", topic.strip(" ，,。！!、：:"))
    plain = topic.translate(_SIMPLIFIED)
    if not plain or _ZH_TASK.fullmatch(plain):
        return None
    if _ZH_GENERIC.fullmatch(plain):
        is_all = re.search("一切|所有|全部", plain) and "我" in plain
        return ("", Meant.EVERYTHING) if is_all else None

    def part(found: re.Match[str], *names: str) -> str:
        name = next(one for one in names if found[one])
        return topic[slice(*found.span(name))].strip("「」 ")

    if found := _ZH_SECTION.fullmatch(plain):
        return part(found, "what", "under"), Meant.ALL_OF
    if found := _ZH_ENTRY.fullmatch(plain):
        return _zh_topic(part(found, "what", "memory")) or (part(found, "what", "memory"), Meant.TOPIC)
    if found := _ZH_ABOUT.fullmatch(plain):
        what = part(found, "what", "with", "named")
        if _ZH_GENERIC.fullmatch(what.translate(_SIMPLIFIED)):
            return "", Meant.EVERYTHING
        if found["just"] or found["just2"]:
            return what, Meant.BEFORE
        if found["named"] and re.match("我|咱", found["named"]) and _states(found["named"]):
            return what, Meant.STATEMENT
        every = re.search("所有|一切|全部", plain)
        return what, Meant.ALL_OF if every else Meant.TOPIC
    if found := _ZH_JUST.fullmatch(plain):
        return part(found, "what"), Meant.BEFORE
    if found := _ZH_STATED.fullmatch(plain):
        return part(found, "that"), Meant.STATEMENT if _states(found["that"]) else Meant.TOPIC
    return (topic, Meant.TOPIC) if _ZH_MINE.fullmatch(plain) or "「" in topic else None


def _states(text: str) -> bool:
    """Return True for a Chinese topic that is a sentence, not a noun."""
    return _ZH_VERB.match(text) is not None and not _ZH_NOUN.search(text)
