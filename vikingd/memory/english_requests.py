"""The English forms of a request to forget, see forget_requests."""

from __future__ import annotations

import re

from vikingd.domain.extract import Meant
from vikingd.domain.text import lazy
from vikingd.memory.forget_forms import Asked, end_of

_LEAD = (
    r"(?:(?:oh|ok|okay|hey|hi|hello|so|and|also|but|well|actually|btw|by the way|one (?:more|last)"
    r" thing|now|then|no(?! (?:need|longer))|nope|yes|yeah|sorry|hm+|wait|thanks|thank you|"
    r"right|anyway|look|listen|"
    r"in that case|on second thou?ght|for (?:privacy|the record)|ps|p\.s\.|fyi|while we're at it)"
    r"\b[\s,.:!…-]*)*"
)
_ASKED = r"(?:please|pls|plz|kindly|just|also|now|simply|completely|totally|really|go ahead and)"
_TOLD = (
    r"(?:you (?:can|may|should|could|must) |feel free to |i(?:'d| would) (?:like|love|want) "
    r"(?:for )?you to |i (?:want|need) you to |i(?:'d| would) (?:rather|prefer)(?: that| if)? you "
    r"|i(?:'d| would) appreciate it if you (?:could |would )?|(?:it|that)(?:'d| would) be "
    r"(?:great|nice|good|better|best|lovely|helpful) if you (?:could |would )?|(?:it's|"
    r"it is) (?:ok|okay|fine|time)"
    r" to |let's )"
)
_MAY = r"(?:(?P<may>can|could|would|will) you |(?:would|do) you mind (?=\w+ing\b))"
_FORGETS = r"(?:un-?remember|forget(?:ting)?|forgot|unlearn|disregard)(?: about)?"
_DELETES = (
    r"(?:(?:delet|remov|eras|wip|purg|tak)(?:ed?|ing)|(?:clear|scrub|empty)(?:ed|ing)?|"
    r"drop(?:ped|ping)?|scrap(?:ped|ping)?|get(?:ting)? rid of)"
)
_MEMORY = (
    r"(?:(?: out)?(?: of| from| in)? (?:your (?:long[- ]term )?(?:memory|memories|notes?|records?|"
    r"profile|files?|storage|journal|database|data|list|head)|(?:the|my|its) (?:memory|memories|"
    r"profile))|(?: on| from) (?:file|record)| from memory)"
)
_UNREMEMBERS = (
    r"(?:do not|don't|dont|no need to|you (?:don't|do not|dont) (?:need|have) to|you needn't|"
    r"(?:you )?(?:can |should |must )?(?:stop|quit)|i (?:don't|do not|dont) (?:want|need) you to|"
    r"i'?d (?:rather|prefer) (?:that )?you (?:didn't|did not|don't)|"
    r"you (?:can|should|may) no longer|you no longer (?:need|have) to|no longer) (?:still |ever )?"
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
    r"(?:[,;:—–…)]|\s-)\s*(?:(?:and|but|so|then|also)\b,?\s*)?|\b(?:so|and|but)\s+(?=please\b|"
    r"you can )"
    r"|\s(?=(?:please|pls|plz) )"
)
_BEHIND = lazy(
    rf"(?P<topic>.+?)[,:?—–-]+ (?P<please>(?:{_ASKED}[,]? )*)(?P<told>(?:{_TOLD}|"
    rf"{_MAY})?)(?:{_ASKED}[,]? )*"
    rf"(?:{_FORGETS}|{_DELETES}) (?:it|that|this)(?P<memory>{_MEMORY})?(?P<end>.*)",
    re.IGNORECASE | re.DOTALL,
)
_PASSIVE = lazy(
    r"(?:i(?:'d| would) (?:like|love)|i (?:want|need))(?: to have)? (?P<topic>(?:my|our|that|"
    r"the) .+?) (?:to be )?"
    rf"(?:(?:{_DELETES}|gone|out|cut){_MEMORY}|forgotten)\W*",
    re.IGNORECASE,
)
_MOVES_ON = lazy(
    r",\s*(?:let's|let us|she|he|they|what about|how about|instead|show me|give me|tell me)\b",
    re.IGNORECASE,
)
_IS_QUESTION = lazy(
    r"(?<!\bok)(?<!\bokay)(?<!\bplease)(?<!\byou)(?<!\balright)(?<!\bthanks)\s*\?\W*\Z",
    re.IGNORECASE,
)
_PERSON = lazy(
    r"(?:my|our) (?:\w+ )?(?:wife|husband|partner|girlfriend|boyfriend|ex|son|daughter|kids?|"
    r"mother|father|mom|"
    r"mum|dad|parents|brother|sister|aunt|uncle|cousin|friends?|boss|manager|colleagues?|"
    r"coworkers?|"
    r"teacher|neighbou?rs?|landlord|flatmate|roommate|family|team|company|ex-?\w+)",
    re.IGNORECASE,
)
_UNREAL = lazy(
    r"\b(?:if (?!possible|you (?:can|could|would|don't mind|please|forg[eo]t|deleted?|removed?|"
    r"erased?|"
    r"didn't))|unless|whether|"
    r"suppose|imagine|what happens|whenever|in case|until|when(?:ever)? i (?:say|ask|tell)|"
    r"hypothetically|example|joking|kidding|pretend(?! i )|let's say|for (?:a|one) (?:moment|"
    r"second|minute|"
    r"bit|while)|for now|except|dare|not asking)\b",
    re.IGNORECASE,
)
_REPORTED = lazy(
    r"\b(?:strings?|phrases?|words|tests?|pretend|draft|e-?mails?|letters?|messages?|reply|"
    r"compose|said|says?|saying|told|tells|wrote|"
    r"writes|asked|asks|advised|suggests?|suggested|quote|"
    r"according to|title[sd]?|called|song|lyrics?|want to|wants to|try(?:ing)? to|going to|have to|"
    r"need to|able to|can't|cannot|never|let me|make me|help me|write|translate|command|prompt)\b"
    r"|[\"“”«»]",
    re.IGNORECASE,
)
_STATES = lazy(
    r"(?:about )?(?:(?:the|that) (?:fact|thing|part|bit|note|entry|memory) )?(?:that )?"
    r"(?:(?:what )?i (?:ever |just |once )?(?:said|told you|mentioned|wrote|claimed)"
    r"(?: to you| before| earlier| yesterday)?,? (?:that )?)?(?P<that>(?:i|i'm|i'?ve|im|i'd|we|"
    r"we're|we've) .+|(?:my|our) .+? (?:is|are|was|were|has|have|had|likes?|loves?|hates?|lives?|"
    r"works?|wants?|goes|got|will|can|can't|doesn't|isn't|died|moved|plays?|speaks?|owns?|drinks?|"
    r"eats?|studies) .+)",
    re.IGNORECASE | re.DOTALL,
)
_NAMED_STATES = lazy(
    r"(?:the (?:fact|note|entry|memory) )?that (?P<that>[A-Z]\w+ [a-z]\w.*)", re.DOTALL
)
_NOTED = lazy(r"(?:the|that|your) (?:note|entry|memory) that ", re.IGNORECASE)
_THAT = lazy(r"(?:that|this) (?!\w+ing\b)(?:\w+ )?[a-z]{3,}", re.IGNORECASE)
_OF = r"(?:about|on|regarding|concerning|of|under|in|with|for|from)"
_JUST = lazy(r"what i(?:'ve)? just (?:said|told you|wrote|mentioned)\b", re.IGNORECASE)
_SECTION = lazy(
    r"(?:(?:the|my|that|your|a) )?(?:whole |entire )?(?:(?:section|heading|"
    r"category) (?:called |named |on |"
    r"about |of )?(?P<what>.+)|(?P<named>.+?) (?:section|heading|category))",
    re.IGNORECASE,
)
_NAME = lazy(r"[A-Z]\w+(?: [A-Z]\w+)?(?:'s .+)?")
_EXTERNAL = lazy(
    r".*\b(?:accounts?|appointments?|meetings?|events?|alarms?|timers?|reminders?|"
    r"reservations?|bookings?|"
    r"orders?|subscriptions?|mails?|posts?|photos?|pictures?|videos?|calendar|tickets?|downloads?|"
    r"branch(?:es)?|repositor(?:y|ies)|containers?|folders?|director(?:y|ies)|databases?|"
    r"tables?|apps?|"
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
    r"(?:my|our) (?!.* (?:from|in|of) (?:this|that|the|these|those) ).+|me \w+ing\b.*|(?:the|"
    r"that|this) .+\b(?:my|(?:that )?i (?:gave|told|sent|shared|mentioned|"
    r"said)|of (?:mine|ours))\b.*|(?:where|how (?:old|tall|much|many)|who|when|what) (?:i|"
    r"my) .+|which .+ i .+",
    re.IGNORECASE | re.DOTALL,
)
_TASK = lazy(
    r"(?:(?:my|the|that|this|your|all|any|our)\s)*(?:(?:last|previous|earlier|first|second|"
    r"other|above|"
    r"prior|old)\s)*(?:questions?|requests?|prompts?|tasks?|quer(?:y|ies)|commands?|instructions?|"
    r"jokes?|ideas?|suggestions?|examples?|drafts?|attempts?|essays?|code|scripts?|worries|"
    r"troubles|problems|conversations?|chats?|context|rules?|keys|lines?|rows?|files?|columns?|"
    r"paragraphs?|words?|manners)\b"
    r"|.*\b(?:above|so far|instructions?|system prompt)\b",
    re.IGNORECASE,
)
_STOPS = lazy(
    r"\b(?:any ?more|any longer|no longer|stop|quit|no need|needn't|need to|have to)\b|"
    r"\bi(?:'d| do| don't| dont) ?(?:not )?(?:want|need|rather|"
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
    r"because|since|which|but|so|use|now|instead|not|just|would|will|can|could|should\w*|do|don't|never|"
    r"remember|keep|from|there|that's|let's|write|tell|show|give)\b"
    r"|(?:the|my|our|his|her|their) (?:[\w'-]+ ){1,2}(?:is|are|was|were|has|have|had|will)\b)).*\Z",
    re.IGNORECASE | re.DOTALL,
)
_STOP = re.compile(r"[,;:.!?…—–-]")
_NAMES_BEFORE = lazy(r"\b(?:that|this|what|scratch|strike|said|back)\b", re.IGNORECASE)


def before(sentence: str) -> tuple[bool, str] | None:
    """Return (True if it is sure, the text before it) of "forget that"; None for another."""
    for at in (0, *(one.end() for one in _JOINT.finditer(sentence))):
        text = sentence[at + end_of(_LEAD, sentence[at:]) :]
        if not at and _IDLE.fullmatch(text):
            return False, ""
        found = _BEFORE.match(text)
        if found is None or (found.end() < len(text) and not _STOP.search(found["end"])):
            continue
        if at and (_REPORTED.search(sentence[:at]) or _UNREAL.search(sentence)):
            return None
        is_sure = _NAMES_BEFORE.search(found[0]) is not None
        if is_sure or not at:
            return is_sure, re.sub(r"^that ", "", sentence[:at].strip(" ,;:.—–-"), flags=re.I)
    return None


def request(sentence: str) -> Asked | None:
    """Return what a sentence asks to forget; None for no request."""
    if _UNREAL.search(sentence):
        return None
    starts = [(0, end_of(_LEAD, sentence), "")]
    starts += [(one.start(), one.end(), one[0]) for one in _JOINT.finditer(sentence)]
    for begin, at, joint in starts:
        at += end_of(_LEAD, sentence[at:])
        found = _REQUEST.fullmatch(sentence, at)
        if found is None or _REPORTED.search(sentence, 0, begin):
            continue
        ordered = bool(
            found["please"].strip()
            or (found["told"] and not found["may"])
            or found["again"].strip()
        )
        is_plain = not (ordered or found["may"])
        if is_plain and _IS_QUESTION.search(sentence):
            continue
        is_bare = bool(begin) and is_plain and joint.strip() in (",", ":")
        is_bare |= is_plain and _MOVES_ON.search(sentence, at) is not None
        if (found["may"] or "").lower() == "will" and not ordered:
            continue
        if (stop := found["stop"]) and not (
            _STOPS.search(sentence) or re.search(_MEMORY, sentence, re.I)
        ):
            continue
        topic = _CUT.sub("", found["keep"] if stop else found["forget"] or found["delete"])
        named = bool(found["memory"] or stop or re.search(_MEMORY, topic, re.I))
        topic = re.sub(_MEMORY, "", _TAIL.sub("", topic), flags=re.I)
        made = _topic(topic, anything=named, deletes=found["delete"] is not None)
        if made is None and found["forget"] and ordered and _NAME.fullmatch(topic):
            made = topic, Meant.TOPIC
        if made is None:
            continue
        is_else = found["delete"] is not None and not named and _EXTERNAL.fullmatch(made[0])
        is_person = _PERSON.fullmatch(made[0]) and found["forget"] and not ordered
        return Asked(*made, not (is_bare or is_else or (is_person and made[1] is Meant.TOPIC)))
    return _behind(sentence) or _passive(sentence)


def _behind(sentence: str) -> Asked | None:
    """Return a request whose topic comes first: "that I'm left-handed? Forget it, please"."""
    found = _BEHIND.fullmatch(sentence, end_of(_LEAD, sentence))
    if found is None or _REPORTED.search(found["topic"]):
        return None
    if not (
        found["please"].strip() or found["told"] or found["memory"] or "please" in found["end"]
    ):
        return None
    made = _topic(found["topic"], anything=False, deletes=False)
    return None if made is None else Asked(*made, True)


def _passive(sentence: str) -> Asked | None:
    """Return a wish such as "I want my address gone from your memory"."""
    found = _PASSIVE.fullmatch(sentence, end_of(_LEAD, sentence))
    made = _topic(found["topic"], anything=False, deletes=False) if found else None
    return None if made is None else Asked(*made, True)


def _topic(text: str, *, anything: bool, deletes: bool) -> tuple[str, Meant] | None:
    text = text.strip(" ,.;:!?")
    if (
        not text
        or _TASK.fullmatch(text)
        or re.match(
            r"(?:to|how(?! (?:old|tall|much|many) i\b)|me|us|him|her|them|you)\b", text, re.I
        )
    ):
        return None
    if _GENERIC.fullmatch(text):
        whole = re.match(r"everything|all|it all|anything", text, re.I) and re.search(
            r"\b(?:me|us)\b", text, re.I
        )
        return (
            ("", Meant.EVERYTHING)
            if whole or (anything and text.lower() in ("everything", "all"))
            else None
        )
    if (found := _SECTION.fullmatch(text)) and (anything or re.match("the |my ", text, re.I)):
        return found["what"] or found["named"], Meant.ALL_OF
    if _JUST.match(text) and (found := _SAID_ABOUT.fullmatch(text)):
        return found["what"], Meant.BEFORE
    for pattern in (_SAID_ABOUT, _NOTE_ON):
        if (found := pattern.fullmatch(text)) and not _TASK.fullmatch(found["what"]):
            if re.fullmatch(r"me|us|myself", found["what"], re.I):
                return "", Meant.EVERYTHING
            return found["what"], Meant.ALL_OF if found["all"] else Meant.TOPIC
    if not deletes or anything or _NOTED.match(text):
        if found := _NAMED_STATES.fullmatch(text):
            return found["that"], Meant.STATEMENT
        if found := _STATES.fullmatch(text):
            return found["that"], Meant.STATEMENT
    if found := _ALL_MY.fullmatch(text):
        mine = re.match(r"(?:all|every|any)(?: of)? (?:my|our|your)\b", text, re.I)
        return (found["what"], Meant.ALL_OF) if anything or mine else None
    if not anything and not _OWN.fullmatch(text) and _THAT.fullmatch(text):
        return text, Meant.BEFORE
    if anything or (_OWN.fullmatch(text) and not (deletes and not _MINE.match(text))):
        return text, Meant.TOPIC
    return None
