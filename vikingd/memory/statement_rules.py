"""The clauses that the rules take as memories, and the notes that they become.

Each rule matches a whole clause. It begins with the user, somebody of the user, or a wish to the
agent, so that questions, hypotheses and statements of others do not match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vikingd.domain.extract import MemoryKind
from vikingd.domain.text import lazy
from vikingd.memory.relations import without_time
from vikingd.memory.third_person import of_others, third_person


class Rule(NamedTuple):
    """A pattern with the group `object`, the kind of the memory, and its note."""

    kind: MemoryKind
    pattern: re.Pattern[str]
    noted: Callable[[str], str]


_ADVERBS = (
    r"(?:(?:really|absolutely|mostly|usually|generally|still|now|currently|just|also|much|actually|"
    r"recently|strongly|truly|finally|do|personally|particularly|especially|myself|mainly) )*"
)
_ME = rf"(?:i|we) {_ADVERBS}"
_ZH = (
    r"我(?:们)?(?:自己|个人|本人)?(?:现在|目前|如今|也|真的|最|很|特别|非常|比较|还是|一直|都|"
    r"已经|刚刚?|最近|"
    r"又|终于|更|超|蛮|挺|平时|一般|通常|主要)*"
)
_PLACE = (
    r"(?:the )?(?-i:[A-Z][a-zà-ÿ'.-]+(?:[ ,]+(?:de|la|le|am|of|the|[A-Z][a-zà-ÿ'.-]+)){0,4})"
    r"(?![\w])"
)
_PEOPLE = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?|sons?|daughters?|child|children|"
    r"kids?|"
    r"baby|twins?|mother|father|mom|mum|dad|parents|brothers?|sisters?|grandmother|grandfather|"
    r"grandma|"
    r"grandpa|aunt|uncle|cousin|niece|nephew|best friend|friend|boss|manager|colleague|coworker|"
    r"teacher|"
    r"doctor|neighbou?r|landlord|landlady|flatmate|roommate|dog|cat|rabbit|pet|horse|parrot)"
)
_THINGS = (
    r"(?:company|team|project|startup|product|repository|app|boat|car|band|shop|gallery|"
    r"bakery|blog)"
)
_ZH_PEOPLE = (
    r"(?:妻子|老婆|太太|爱人|丈夫|老公|女朋友|男朋友|女友|男友|儿子|女儿|孩子|妈妈|爸爸|母亲|"
    r"父亲|老妈|老爸|妈|爸|爷爷|"
    r"奶奶|外公|外婆|姥姥|姥爷|哥哥|弟弟|姐姐|妹妹|哥|弟|姐|妹|舅舅|叔叔|阿姨|表哥|表姐|表弟|"
    r"表妹|朋友|闺蜜|室友|"
    r"邻居|房东|老板|领导|经理|同事|同学|老师|徒弟|狗|猫|宠物|兔子)"
)
_ZH_THINGS = r"(?:公司|团队|项目|产品|乐队|店|工作室|博客|网站)"
_WORK = (
    r"(?:[a-z-]+ ){0,4}?(?:nurse|doctor|engineer|developer|programmer|teacher|professor|student|"
    r"lawyer|"
    r"designer|architect|accountant|analyst|scientist|researcher|writer|journalist|editor|"
    r"translator|"
    r"photographer|musician|artist|painter|actor|actress|chef|cook|baker|driver|pilot|farmer|"
    r"gardener|"
    r"mechanic|electrician|plumber|carpenter|manager|consultant|administrator|admin|librarian|"
    r"pharmacist|"
    r"dentist|vet|veterinarian|physicist|chemist|biologist|hydrologist|geologist|mathematician|"
    r"statistician|economist|psychologist|therapist|paramedic|surgeon|midwife|hairdresser|"
    r"salesperson|"
    r"freelancer|founder|director|secretary|firefighter|police officer|soldier|retiree|pensioner|"
    r"vegetarian|vegan|native speaker|beginner|morning person|night owl|christian|muslim|buddhist|"
    r"father|mother|parent|widow|widower|maintainer)"
)
_ZH_WORK = (
    r"(?:\w{0,10}?(?:医生|护士|老师|教师|教授|学生|工程师|程序员|开发者|律师|设计师|会计|分析师|"
    r"科学家|研究员|作家|记者|"
    r"编辑|翻译|摄影师|音乐人|画家|演员|厨师|司机|飞行员|农民|技师|电工|经理|顾问|管理员|药剂师|"
    r"兽医|科学家|"
    r"咨询师|销售|创始人|秘书|消防员|警察|军人|公务员|研究生|博士生|本科生|大学生|素食者|左撇子|"
    r"自由职业者|"
    r"产品经理|运营|人))"
)
_DAY = (
    r"(?:yesterday|today|tonight|tomorrow|(?:this|last|next) (?:morning|evening|week|weekend|"
    r"month|year|spring|"
    r"summer|autumn|fall|winter|monday|tuesday|wednesday|thursday|friday|saturday|sunday)|"
    r"(?:on|by|since|until|from) (?:the )?(?:\d|monday|tuesday|wednesday|thursday|friday|"
    r"saturday|sunday|"
    r"january|february|march|april|may|june|july|august|september|october|november|december)\w*|"
    r"in (?:january|february|march|april|may|june|july|august|september|october|november|december|"
    r"(?:two|three|four|five|six|\d+) (?:days|weeks|months|years)|the (?:spring|summer|autumn|"
    r"winter))|"
    r"\d+ (?:january|february|march|april|may|june|july|august|september|october|november|"
    r"december)|"
    r"(?:a|one|two|three|\w+) (?:days?|weeks?|months?|years?) ago)"
)
_ZH_DAY = (
    r"(?:今天|明天|后天|昨天|前天|今晚|明早|昨晚|(?:这|上|下|本)(?:个)?(?:周|星期|礼拜|月|"
    r"季度)(?:[一二三四五六日天末])?|"
    r"(?:周|星期|礼拜)[一二三四五六日天末]|今年|明年|去年|[0-9一二三四五六七八九十]{1,4}(?:月|号|"
    r"日)|国庆|春节|暑假|寒假)"
)
_DONE = (
    r"(?:finished|completed|passed|failed|won|bought|sold|signed|adopted|married|graduated|"
    r"joined|quit|"
    r"retired|booked|ran|visited|met|broke|started|began|opened|closed|launched|released|published|"
    r"submitted|gave|lost|got engaged|got married|got divorced|got promoted|moved in)"
)
_WILL = (
    r"(?:leave|fly|travel|depart|arrive|go|drive|move|start|begin|meet|visit|marry|retire|present|"
    r"am (?:going|flying|leaving|travelling|traveling|moving|starting|meeting|visiting|at)|"
    r"are (?:going|flying|leaving|travelling|traveling|moving|starting|meeting|visiting))"
)
_DATED = (
    r"(?:interview|appointment|exam|meeting|flight|date|deadline|surgery|operation|wedding|concert|"
    r"presentation|talk|test|marathon|trip|reservation|booking|party|birthday party|conference|"
    r"shift)"
)
_ANSWERS = (
    r"(?:answers?|repl(?:y|ies)|responses?|explanations?|summar(?:y|ies)|messages?|code|"
    r"comments?|examples?|"
    r"emojis?|bullet points?|jargon|small talk|apologies)"
)
_ZH_ANSWERS = r"(?:回答|回复|答案|解释|说明|总结|注释|代码|例子|表情|术语|语气)"
# A wish for all of the future, not for the task of the moment.
_EVER = (
    r"(?:(?:always|never|from now on,?|in (?:the )?future,?|every time,?|each time,?|as a rule,?|"
    r"going forward,?|for all future \w+,?)(?: always| never| please)*)"
)
_ZH_EVER = r"(?:以后|今后|从现在起|从今以后|往后|每次|一律|永远|始终|总是|平时)"
_PROFILE, _PREFERENCES, _ENTITIES, _EVENTS, _PATTERNS = (
    MemoryKind.PROFILE,
    MemoryKind.PREFERENCES,
    MemoryKind.ENTITIES,
    MemoryKind.EVENTS,
    MemoryKind.PATTERNS,
)
_CALLED = lazy(r"(?:please )?call me (?P<name>.+)", re.IGNORECASE)
_ME_ALONE = lazy(r"\b(?:me|my)\b", re.IGNORECASE)
_MOVED = r"(?:i|we)\b.{0,20}?\b(?:moved|relocated)\b"


def of_user(clause: str) -> str:
    """Return the note of what a user says of itself."""
    if called := _CALLED.fullmatch(clause):
        return f"The user wants to be called {called['name']}"
    if re.match(_MOVED, clause, re.IGNORECASE):
        clause = without_time(clause)
    return third_person(clause, regular=True)


def of_the_users(clause: str) -> str:
    """Return the note of what a user says of somebody or something of its own."""
    return of_others(clause)


def as_wish(clause: str) -> str:
    """Return the note of a wish to the agent: the wish itself, with the user by name."""
    clause = re.sub(r"^(?:please|and|so|but)[, ]+|^请", "", clause, flags=re.IGNORECASE)
    return _ME_ALONE.sub(lambda found: "the user" + "'s" * (found[0].lower() == "my"), clause)


def of_user_unnamed(clause: str) -> str:
    """Return the note of a Chinese clause whose subject, the user, is left out."""
    return f"用户{clause}"


_SOURCES: Sequence[tuple[MemoryKind, Callable[[str], str], Sequence[str]]] = (
    (
        _PREFERENCES,
        of_user,
        (
            rf"{_ME}(?:prefer|like|love|enjoy|adore|hate|dislike|detest|can(?:'t|not|"
            rf" not) (?:stand|eat|drink)|"
            r"(?:don't|do not)(?: really| particularly| much)? (?:like|enjoy|eat|drink|smoke|watch|"
            r"listen to|wear|use|own)) (?P<object>.+)",
            rf"{_ME}(?:only|mostly|never|always|usually|normally) (?:eat|drink|read|watch|"
            rf"listen to|use|wear|"
            r"buy|take|travel|fly|work|write|sleep|cook) (?P<object>.+)",
            r"my favou?rite .{1,60}? (?:is|are) (?P<object>.+)",
            r"i (?:always|never) (?!(?:get|got|see|saw|have|had|receive|end up|forget|think|"
            r"thought|know|"
            r"knew|understood|said|asked|seem|wonder|been|heard|mind|felt|found|met|"
            r"\w+ed)\b)(?P<object>.+)",
            rf"{_ME}(?:gave up|quit|stopped) (?!(?:my job|the|on|it|work|here|there|at|trying|"
            rf"reading|because)\b)"
            r"(?P<object>.+)",
            r"(?:i'?m|i am) (?:not )?an? (?:big |huge |great )?fan of (?P<object>.+)",
            r"(?:i'?m|i am) (?:not )?(?:into|fond of|keen on|tired of|sick of) (?P<object>.+)",
            rf"{_ZH}(?:偏好|偏爱|喜欢|喜爱|爱(?:吃|喝|看|听)|讨厌|不(?:太|怎么|再)?(?:喜欢|爱|吃|"
            rf"喝|看|听|抽|用)|"
            r"受不了|宁愿|戒了|习惯)(?P<object>.+)",
            r"我(?:自己|平时|一般|通常|现在)?(?:只|从来?不|基本不|很少|一般都?|通常都?|"
            r"习惯)(?:吃|喝|看|听|用|买|穿|坐|读|写)"
            r"(?P<object>.+)",
            r"我(?:一点)?.{0,6}?都?不能(?:吃|喝)(?P<object>.*)",
            r"我(?:们)?(?:现在)?开始(?:吃素|学|练|戒|用)(?P<object>.*)",
            r"我(?:最喜欢|最爱)的.{1,30}?是(?P<object>.+)",
            r"我(?:总是|总|从不|从来不|绝不)(?!觉得|以为|知道|明白|记得)(?P<object>.+)",
            r"比起.{1,60}?，?我更喜欢(?P<object>.+)",
        ),
    ),
    (
        _PREFERENCES,
        of_the_users,
        (
            r"(?P<object>[a-z][\w -]{1,40}?) (?:bores?|annoys?|disgusts?|irritates?|fascinates?|"
            r"scares?) me",
            r"(?P<object>[a-z][\w -]{1,40}?) (?:is|are) (?:more )?(?:my|not my) (?:thing|"
            r"cup of tea|favou?rite)",
        ),
    ),
    (
        _PREFERENCES,
        as_wish,
        (
            rf"(?:please )?(?:keep|make) (?:your|the|all|my) {_ANSWERS} (?P<object>.+)",
            r"(?:please )?(?:answer|reply|respond|write|speak|talk)(?: to me)? (?:only |"
            r"always )?in "
            r"(?P<object>(?-i:[A-Z])\w+)(?:,? please)?",
            rf"(?:please )?(?:don't|do not|never|avoid|no)(?: use| write| send| add|"
            rf" give)?(?: any| me)? "
            rf"(?:\w+ )?{_ANSWERS}(?: in .{{1,30}})?(?P<object>)",
            rf"(?:代码)?{_ZH_ANSWERS}(?:请|要|都|尽量|最好)*(?:用|简短|简洁|短|详细|"
            rf"直接)(?P<object>.*)",
            r"(?:请|都|尽量)*用(?P<object>\w{1,6}文?)(?:回答|回复|写|说)(?:我)?",
            rf"(?:请|都)?(?:不要|别)(?:用|加|写|发)\w{{0,6}}{_ZH_ANSWERS}(?P<object>)",
        ),
    ),
    (
        _PATTERNS,
        as_wish,
        (
            rf"(?:please |and |also )*{_EVER} (?!(?:mind|ever|a|the|been|again|before|had|have|"
            rf"got|get|seen|"
            r"knew|know|heard|thought|after|before|in|on|at|with|for|to|did|was|will|would|more|"
            r"once|happen\w*)\b)"
            r"(?!\w+(?:ed|ing)\b)(?!(?:i|we|he|she|it|they|this|that|there|"
            r"you)\b)(?P<object>[a-z].+)",
            r"(?:please )?(?:always )?(?P<object>(?:ask|tell|show|warn|explain|check|test|run|"
            r"use|write) .{2,120}?"
            r"(?:before you|whenever|every time|each time|from now on|as a rule|in future).*)",
            r"(?:please )?don't (?P<object>.+? (?:without asking|without my|unless i|ever again|"
            r"from now on).*)",
            rf"{_ZH_EVER}(?:都|也|请|一定|必须|要|不要|别|先|再)*(?!我|他|她|你|没|有|会|可能|是|"
            rf"再?[说看讲想聊])(?P<object>[^我他她]{{2,}})",
            r"(?:on|in|at|after|before|during) .{2,30}?,? (?:we|i) (?:never|always|"
            r"only) (?P<object>.+)",
            rf"{_ZH_DAY}(?:上午|下午|晚上)?(?:都|一律)?不(?P<object>[^是知会能]\S{{1,20}})",
            r"(?P<object>\S{2,15}每(?:个?月|周|天|年)\S{0,15}(?:要|必须)\S{1,15})",
            r"(?P<object>先.{1,20}，?(?:再|然后|最后).{1,40})",
            r"(?P<object>\S{2,30}(?:之前|以前|前))(?:一定|必须|都)?(?:要)?先.{1,30}",
            r"(?P<object>\S{2,20})(?:一定要|必须|一律|绝不能|不许|都不要|都要)\S{2,30}",
        ),
    ),
    (
        _PROFILE,
        of_user,
        (
            r"my (?:full |first |last |nick)?name(?: is|'s) (?P<object>.+)",
            r"my (?:nickname|job|profession|birthday|birth ?date|mother tongue|native language|"
            r"hometown|blood type|"
            r"pronouns)(?: is|'s| are) (?P<object>.+)",
            r"(?:please )?call me (?!back|when|later|if|at|on|tomorrow|again|in\b)(?P<object>.+)",
            rf"(?:{_ME}|i'?ve (?:just |recently )?|we'?ve (?:just |recently )?|i have )"
            r"(?:(?:live|reside) in|work (?:at|for|as|in|with)|study (?:at|in)?|teach|play the|"
            r"come from|grew up in|speak|own an?|drive an?) ?(?P<object>.+)",
            rf"(?:{_ME}|i'?ve (?:just |recently )?|we'?ve (?:just |recently )?|i have )"
            rf"(?:moved|relocated)(?: back)? to (?P<object>{_PLACE}.{{0,60}})",
            r"(?:i'?m|i am) (?:(?:now|still|currently|living|based|from|allergic|vegan|vegetarian|"
            r"diabetic|colou?r-?blind|left-handed|pregnant|retired|married|divorced|single|deaf|"
            r"blind|"
            r"lactose intolerant|dyslexic|asthmatic)\b ?)+(?P<object>.*)",
            rf"(?:since .{{2,30}}?,? )?(?:i'?m|i am|i work as|"
            rf"i've been) an? (?P<object>{_WORK}\b.{{0,80}})",
            r"(?:i'?m|i am) (?P<object>\d{1,3} years old.*)",
            r"i was born (?P<object>.+)",
            r"i have (?P<object>.{0,30}?\byears? of .{0,20}experience.*)",
            r"i have (?P<object>(?:an? |severe |mild |chronic |type [12] )*(?:allergy|asthma|"
            r"diabetes|migraines?|adhd|"
            r"celiac disease|dyslexia|tinnitus|epilepsy)\b.*)",
            r"i use an? (?P<object>(?:wheelchair|hearing aid|screen reader|standing desk|"
            r"walking stick)\b.*)",
            r"我(?:叫|的名字[是叫]|姓)(?P<object>.+)",
            r"请?(?:叫|称呼)我(?!们)(?P<object>.+)",
            rf"{_ZH}(?:住在|居住在|搬到|搬去|搬回|搬家到|从.{{1,10}}?搬到了?|定居|就职于|任职于|"
            rf"供职于|来自|出生[于在])"
            r"(?P<object>.+)",
            rf"{_ZH}在(?P<object>.+?)(?:工作|上班|任职|上学|念书|读书|读研|读博)了?",
            rf"{_ZH}对(?P<object>.+?)过敏",
            rf"{_ZH}是(?:一名|一位|一个|个|名)?(?P<object>{_ZH_WORK})",
            r"我有(?P<object>.{1,8}年.{0,20}经验.*)",
            r"我有(?P<object>(?:高血压|糖尿病|哮喘|鼻炎|胃病|颈椎病|近视|失眠).*)",
            r"我(?:会)?(?:弹|拉|学|教|练)(?!了|着|过|会)(?P<object>\w{1,12})",
            r"我(?:大学|本科|研究生|高中)(?:是|就)?在(?P<object>.+?)(?:念|读|上)的?",
            r"我的?(?:生日|职业|老家|母语|血型)[是在](?P<object>.+)",
            r"我今年(?P<object>.{1,4}岁)",
        ),
    ),
    (
        _ENTITIES,
        of_user,
        (
            rf"(?:{_ME})(?:maintain|run|manage|lead|develop|organi[sz]e|coordinate|own) (?!to\b|"
            rf"into\b|it\b|the\b|a test|"
            r"out\b|this\b|that\b)(?P<object>.+)",
            r"(?:i'?m|i am|we'?re|we are) (?:building|writing|developing|working on) (?!it\b|"
            r"this\b|that\b|the\b|them\b)"
            r"(?P<object>.+)",
            rf"(?:i|we) have (?P<object>(?:an?|one|two|three|four|five|"
            rf"\d+) (?:\w+ )?{_PEOPLE}s?\b.*)",
        ),
    ),
    (
        _ENTITIES,
        of_the_users,
        (
            rf"(?:my|our) (?:\w+ )?(?:{_PEOPLE}|{_THINGS})(?:'s name is| is (?:called|named)|"
            rf", called) (?P<object>.+)",
            rf"(?:my|our) (?:(?:older|younger|little|big|elder|eldest|"
            rf"youngest) )?{_PEOPLE}(?: (?-i:[A-Z])[\w-]+)? "
            r"(?:is|are|has|have|lives?|works?|likes?|loves?|hates?|prefers?|plays?|speaks?|"
            r"studies|teaches|eats?|"
            r"drinks?|wants?|needs?|can't|cannot|doesn't|don't|never|always|owns?|runs?|"
            r"pays?) (?!wrong|right|about)"
            r"(?P<object>.+)",
            rf"(?P<object>(?-i:[A-Z])[\w-]+(?: (?-i:[A-Z])[\w-]+)?) is my (?:\w+ )?(?:{_PEOPLE}|"
            rf"co-?\w+).*",
            rf"我(?:的|家的?|们的?)?(?:\w{{0,3}}?)(?:{_ZH_PEOPLE}|{_ZH_THINGS})(?:的名字是|"
            rf"名?叫)(?P<object>.+)",
            rf"我(?:的|家的?|们的?)?{_ZH_PEOPLE}(?:\w{{1,3}}，?)?(?:是|有|在|住|对|不|喜欢|讨厌|"
            rf"爱|会|只|从不|最|眼睛|身体|"
            rf"怕|去年|今年|以前|一直)(?!不是|吗)(?P<object>.+)",
            rf"(?P<object>\w{{1,5}})是我(?:的|们的?)?(?:\w{{0,4}}?){_ZH_PEOPLE}",
            r"我(?:们)?(?:正)?在(?:做|写|开发|维护|带|管|运营|筹备)(?P<object>(?:一个|一款|一本|"
            r"一支|一家|个|款).+)",
            rf"我(?:们)?有(?P<object>[一两二三四五六]?(?:个|只|条|位){_ZH_PEOPLE}.*)",
        ),
    ),
    (
        _EVENTS,
        of_user,
        (
            rf"{_ME}(?:have |'ve )?{_DONE} (?P<object>.{{0,120}}?\b{_DAY}.{{0,80}})",
            rf"(?:{_DAY},? )?{_ME}{_DONE} (?P<object>(?:my|the|a|an|"
            rf"our) (?:\w+ ){{0,4}}(?:marathon|exam|degree|job|house|flat|"
            r"apartment|car|thesis|book|contract|course|license|licence|dog|cat|company|"
            r"race)\b.{0,80})",
            rf"(?:i|we|i'?m|we'?re) ?{_WILL}\b (?P<object>.{{0,80}}?\b{_DAY}.{{0,80}})",
            rf"(?:i|"
            rf"we) have (?P<object>an? (?:[\w-]+ ){{0,3}}?{_DATED}\b.{{0,60}}?\b{_DAY}.{{0,60}})",
            rf"{_DAY},? (?:i'?m|i am|we'?re|we are|i have|we have) (?!not\b|sorry\b|"
            rf"afraid\b)(?P<object>.{{2,80}})",
            r"(?:i|we) plan to (?P<object>.{2,80})",
            rf"我(?:们)?(?:一家)?(?:已经|刚|打算|计划|"
            rf"准备)?{_ZH_DAY}(?:[一二三四五六日天末])?.{{0,10}}?(?:要|去|跑|参加|买|卖|搬|结婚|"
            r"毕业|入职|离职|出发|开会|出差|考|面试|见|飞|交|做|回)(?P<object>.{1,60})",
            rf"{_ZH_DAY}(?:上午|下午|早上|晚上)?.{{0,6}}?我(?:们)?(?:要|去|得|"
            rf"会)(?P<object>.{{2,60}})",
            r"我(?:们)?(?:已经)?(?:约了|预约了|订了|买了|报了名|考过了|拿到了|跑完了|签了|"
            r"领养了|入职了)(?P<object>.{2,60})",
            rf"我(?:们)?(?:打算|计划|准备)(?P<object>.{{0,20}}{_ZH_DAY}.{{0,60}})",
        ),
    ),
    (
        _PROFILE,
        of_user_unnamed,
        (rf"是(?:一名|一位)(?P<object>{_ZH_WORK})",),
    ),
    (
        _EVENTS,
        of_user_unnamed,
        (
            rf"(?:已经)?(?:约了|预约了|订了|打算|计划)(?P<object>.{{0,20}}?(?:{_ZH_DAY}|"
            rf"[两三四五六七八九十\d]+[天周月年]).{{0,40}})",
        ),
    ),
    (
        _EVENTS,
        of_the_users,
        (
            rf"(?:my|our|the) (?:[\w-]+ ){{1,4}}?(?:comes|arrives|starts|begins|is (?=on|at|next|"
            rf"tomorrow)|goes out|takes place|leaves|ends|opens|closes) "
            rf"(?P<object>(?:\w+ ){{0,4}}?{_DAY}.{{0,60}})",
        ),
    ),
)

RULES: tuple[Rule, ...] = tuple(
    Rule(kind, lazy(pattern, re.IGNORECASE | re.DOTALL), noted)
    for kind, noted, patterns in _SOURCES
    for pattern in patterns
)
"""All rules, in the order in which they are tried."""
