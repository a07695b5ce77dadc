"""English requests to forget, see forget_requests.

A clause is an order if it has a verb of forgetting, and all words before the verb are polite ones.
The topic is behind the verb as far as the clause goes, or in front of "forget it".
"""

from __future__ import annotations

import re

from vikingd.domain.extract import Meant
from vikingd.domain.text import lazy
from vikingd.memory.forget_forms import Asked
from vikingd.memory.forms import in_both

_POLITE = frozenset(re.findall(r"\S+", """
    a act actually again ahead also am and any anyway appreciate are as ask asking be best better
    but btw by can chance completely cool could do enough favor favour feel fine for free fyi glad
    go god good grateful great happy have hello helpful hey hi hm hmm honestly i i'd i'm i've if is
    it it'd it's just kind kindly last let let's like listen look love make may maybe might mind
    more must need nice no nope now of oh ok okay once one perhaps please pls plz possible prefer
    privacy ps rather really record right second should simply so sorry sure thank thanks that the
    then there there's thing things thought time to totally u ugh wait want was way we we'd well will
    wonder wondering would two three things few quick ya yeah yes you you'd you'll"""))  # fmt: skip
_NOT = frozenset(("don't", "dont", "not", "never", "needn't", "stop", "quit", "longer", "didn't"))
_YOU = frozenset(("you", "you'd", "you'll", "u", "ya"))
_WISHES = frozenset(("i", "i'd", "i'm", "i've", "we", "we'd", "let's"))
_VERB = lazy(
    r"\b(?:(?P<forget>(?:un-?remember|forget|unlearn|disregard)(?:ting|ing)?(?: about)?)|(?P<delete>"
    r"(?:delet|remov|eras|wip|purg)(?:e|ing)|scrub(?:bing)?|get(?:ting)? rid of|let(?:ting)? go of|"
    r"do(?:ing)? away with)|(?P<keep>(?:remember|keep|retain|record|know|memori[sz]|stor|sav)"
    r"(?:ing|e)?|(?:hold|hang)(?:ing)? on ?to)|(?P<take>i take back|(?:ignor|tak|los|strik)(?:e|ing)|"
    r"(?:clear|drop|scrap|discard|scratch|get|cut|dump|ditch|pull|clean|throw|undo|retract|withdraw|"
    r"omit|cross)(?:[pt]?ing)?)|(?P<past>forgot|deleted|removed|erased|wiped))\b"
    r"(?: (?:out|off|away|back|up|down)(?= (?:that|what|my|the|this|all)\b))?",
    re.IGNORECASE,
)
_MEMORY = lazy(
    r"(?: out)?(?: of| from| in| on)? (?:your (?:long[- ]term )?(?:memory|memories|notes?|records?|"
    r"profile|files?|storage|journal|database|data|list|head|mind)|(?:the|my|its) (?:memory|"
    r"memories|profile|record))\b| (?:on|from|off) (?:file|record|memory)\b",
    re.IGNORECASE,
)
_SAID = (
    r"(?:i|we|you)(?:'ve|'d| have| had)?(?: ever| just| once| already| also)? (?:said|told|gave|"
    r"mentioned|shared|wrote|sent|claimed|know|remember|have|stored|saved|noted|learned|keep)"
    r"(?: (?:to|with) you| you| before| earlier| down| just now| there| yesterday| today| last \w+| the other day)*"
)
_LAST = lazy(
    r"(?:that|this|it|them|those|that one|all (?:of )?(?:that|this)|(?:the|my) (?:last|previous) "
    r"(?:thing(?: i said)?|message|sentence|statement|remark|line|bit|part)|"
    rf"(?:(?:everything|what|that|the last thing) )?{_SAID}(?: (?:that|it|anything|so))?)",
    re.IGNORECASE,
)
_NEVER_SAID = lazy(
    r"(?:[\w']+ ){0,4}?(?:pretend|act (?:as if|like)) (?:that )?i (?:never|didn't|hadn't) (?:said?|"
    r"told? you|tell you|mention(?:ed)?)(?: (?:about|that|it|anything|so))?\b",
    re.IGNORECASE,
)
_IS_DONE = lazy(
    r"(?P<wish>.*?)(?P<topic>(?:my|our|the|everything|all|what|where) .+?) (?:(?P<must>can|could|"
    r"should|must|may|needs? to|has to|to) (?:please |now |also )?)?(?:be |get |go )?(?P<done>"
    r"forgotten|gone|out|struck|deleted|removed|erased|wiped|cleared|dropped)\b(?P<rest>.*)",
    re.IGNORECASE,
)
_JOINT = lazy(
    r"(?:[,;:—–…?)]|\s-)\s*(?:(?:and|but|so|then|also)\b,?\s*)?|"
    r"\b(?:so|and|but)\s+(?=please\b|you can )|\s(?=(?:please|pls|plz) )"
)
_UNREAL = lazy(
    r"\b(?:if (?!possible|you'd|you (?:can|could|would|don't|please|forg[eo]t|\w+ed|didn't))|unless|"
    r"whether|suppose|imagine|what happens|whenever|in case|until|when(?:ever)? i (?:say|ask|tell)|"
    r"hypothetically|example|joking|kidding|pretend(?! (?:that )?i )|let's say|for (?:a|one) "
    r"(?:moment|second|minute|bit|while)|for now|except|dare|not asking)\b",
    re.IGNORECASE,
)
_REPORTED = lazy(
    r"\b(?:says?|saying|tells?|wr[io]tes?|asks|advi[sc]ed?|suggest\w*|according|"
    r"titled?|called|song|lyrics?|tests?|wants? to|try(?:ing)? to|going to|have to|need to|able to|"
    r"can't|cannot|never|help me|translate|e?-?mails?|letters?)\b|(?<!i )(?<!just )(?<!have )\b(?:said|told|asked)\b|[\"“”«»]",
    re.IGNORECASE,
)
_MOVES_ON = lazy(
    r",\s*(?:let's|let us|she|he|they|what about|how about|instead|show|give|tell)\b", re.IGNORECASE
)
_QUESTION = lazy(r"(?<!\bok)(?<!okay)(?<!please)(?<!\byou)(?<!thanks)\s*\?\W*\Z", re.IGNORECASE)
_CUT = lazy(
    r"(?:[;:—–?!(]|\s-\s|\b(?:because|since (?:it|i|that|we)|as (?:i|it|that|we)|but)\b|"
    r",(?! (?:and )?my \w+\W*\Z)|\band (?=(?:i|i'm|i've|it|it's|we|he|she|they|that's|use|now|just|"
    r"instead|please|do|don't|start|keep|remember|write|tell|show|give|let's|never)\b)).*\Z",
    re.IGNORECASE | re.DOTALL,
)
_TAIL = lazy(
    r"(?:[\s,.:…]|\b(?:please|pls|thanks|thank you|thx|ok|okay|now|for good|forever|completely|"
    r"entirely|altogether|right away|immediately|from now on|as well|too|again|any ?more|any longer|"
    r"for me|if (?:possible|you (?:can|could|don't mind))|(?:would|will|could|can) you|already|then|"
    r"though|instead|haha|lol)\b)+\Z",
    re.IGNORECASE,
)
_STOPS = lazy(r"\b(?:any ?more|any longer|longer|stop|quit|need|needn't|want|rather)\b", re.I)
_OWN = lazy(
    r"(?!.* (?:from|in|of) (?:this|that|the|these|those) )(?:(?:\w+ ){0,6}?(?:my|our|mine|ours)\b|"
    r"me \w+ing\b|(?:where|how|who|when|what|which) .*?\b(?:i|my)\b|(?:the|that|this) .+ i (?:gave|"
    r"told|sent|shared|mentioned|said)\b)",
    re.IGNORECASE,
)
_STATES = lazy(
    rf"(?:about )?(?:the fact )?(?:(?:what |that )?{_SAID},? )?(?P<named>that )?(?P<that>(?:i|i'm|i've|im|"
    r"i'd|we|we're|we've) .+|(?:my|our) .+? (?:is|are|was|were|has|had|\w+s) .+|"
    r"(?<=that )(?-i:[A-Z])\w+ [a-z]\w.*)",
    re.IGNORECASE | re.DOTALL,
)
_HEAD = lazy(
    r"(?:(?P<all>(?:everything|all|anything|whatever)(?: the)?)|what|(?:the|that|this|those|these|"
    r"your|my|any|our)?)(?:^| ?)(?:things?|stuff|facts?|bits?|parts?|details?|info|information|"
    r"notes?|memor(?:y|ies)|entry|entries|story|records?)?(?:,? ?(?:(?:that|which) )?(?P<said>"
    rf"{_SAID})(?: anything| something)?)?,? (?P<of>about|on|regarding|concerning|of|under|in|with|for|from|where|saying|"
    r"that) (?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_SECTION = lazy(
    r"(?:(?:the|my|that|your) )?(?:whole |entire )?(?:(?:section|heading|category) (?:called |"
    r"named |on |about |of )?(?P<what>.+)|(?P<named>.+?) (?:section|heading|category))",
    re.IGNORECASE,
)
_ALL_MY = lazy(
    r"(?:all|every|any)(?: of)? (?P<my>(?:my|our|your) )?(?:the )?(?P<what>.+?)(?: (?:notes?|stuff|"
    r"memories|entries|preferences|facts))?",
    re.IGNORECASE | re.DOTALL,
)
_GENERIC = lazy(
    r"(?:things?|stuff|something|(?P<all>anything|everything|it all|all)|memories|facts?|people|"
    r"information|what (?:i|people) says?|me)(?P<me> about (?:me|us))?(?: (?:you|i) (?:know|"
    r"have|said|remember|told you)(?: about me)?)?",
    re.IGNORECASE,
)
_DETERMINED = r"(?:my|the|that|this|your|all|any|our|last|previous|earlier|first|second|other|old) "
_TASK = lazy(
    rf"(?:{_DETERMINED})*(?:questions?|requests?|prompts?|tasks?|commands?|instructions?|jokes?|"
    r"ideas?|drafts?|suggestions?|examples?|essays?|code|scripts?|worries|troubles|problems|chats?|"
    r"conversations?|context|rules?|keys|lines?|rows?|files?|columns?|tables?|paragraphs?|words?|"
    r"manners)|.*\b(?:above|so far|instructions?|system prompt)\b.*",
    re.IGNORECASE,
)
_TOOLS = lazy(
    rf"(?:{_DETERMINED})*(?:[\w'-]+ )?(?:accounts?|appointments?|meetings?|events?|alarms?|timers?|"
    r"reminders?|bookings?|orders?|subscriptions?|mails?|posts?|photos?|pictures?|videos?|calendar|"
    r"tickets?|folders?|apps?|databases?|cookies|history|playlists?|comments?)(?: (?:on|in|at|from|for|with|of|to)\b.*)?",
    re.IGNORECASE,
)
_NONE = lazy(r"(?:to|us|him|her|them|you|your|how(?! (?:old|tall|much|many) i\b))\b", re.IGNORECASE)
_VERBAL = lazy(
    r"\b(?:is|are|was|were|has|have|had|do|does|did|will|can|got|went|\w+ed)\b|'s (?:a|the|not)\b",
    re.I,
)
_FRONT = lazy(
    r"\A(?:(?:oh|and|so|also|well|actually),? )+|(?:\Ai (?:should(?:n't| not|n't have| never)|wish i "
    r"hadn't|regret)(?: have)? (?:told|telling|mention\w*|said|shared|given)(?: you)?(?: about)? )|"
    r" (?:is|are|was|were)(?:n't| not| no longer)? (?:relevant|true|right|needed|important|wrong|old|"
    r"outdated|a mistake|obsolete|private|correct|valid)\b.*",
    re.IGNORECASE,
)
_SOMEBODY = in_both("WHO")


def request(sentence: str) -> Asked | None:
    """Return what a sentence asks to forget; None for no request."""
    if _UNREAL.search(sentence):
        return None
    for begin, at in ((0, 0), *(one.span() for one in _JOINT.finditer(sentence))):
        front = sentence[:begin]
        if _REPORTED.search(front):
            return None
        said = _words(front)
        is_idle = said <= _POLITE
        asked = _order(sentence[at:], "" if is_idle else front, said if is_idle else frozenset())
        if asked is not None:
            return asked
    return None


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[\w']+", text.lower()))


def _order(text: str, front: str, said: frozenset[str]) -> Asked | None:
    """Return the request of the clause at the beginning of a text; `said` is politely before it."""
    if found := _NEVER_SAID.match(text):
        return _object(text[found.end() :], "forget", front, is_told=True)
    for verb in _VERB.finditer(text):
        kind, rest, words = str(verb.lastgroup), text[verb.end() :], _words(text[: verb.start()])
        is_negated = not _NOT.isdisjoint(words) or {"no", "need"} <= words
        if kind != "keep" or is_negated:
            break
    else:
        return None
    known = _POLITE | _NOT if kind == "keep" else _POLITE
    if not words <= known or re.search(r"[,;:.]", text[: verb.start()]):
        return _is_done(text)
    told = (words | said | (_words(rest) & {"please", "pls", "plz"})) - {"no"}
    to_you, is_named = words & (_YOU | {"can", "could"}), bool(_MEMORY.search(rest))
    bends = kind == "past" or verb[0].lower().endswith("ing")
    if (
        words == {"you"}
        or ("will" in words and "please" not in told)
        or (
            _QUESTION.search(re.split("[,;—–]", text)[0])
            and not (to_you or is_named or "please" in told)
        )
        or (bends and words.isdisjoint(("mind", "rather", "if", "stop", "quit", "longer")))
    ):
        return None
    if kind == "keep" and not (_STOPS.search(text) or is_named or to_you):
        if re.match("remember|know", verb[0], re.I):
            return None  # "Don't know my blood type."
    is_wish = not (words.isdisjoint(_WISHES) or to_you)
    if is_wish and not (is_named or "let's" in words):
        return None
    return _object(rest, kind, front, is_told=bool(told), is_wish=is_wish)


def _object(
    rest: str, kind: str, front: str, *, is_told: bool, is_wish: bool = False
) -> Asked | None:
    """Return a request for what stands behind its verb."""
    text = _CUT.sub("", rest)
    is_named = kind == "keep" or _MEMORY.search(text) is not None
    text = _TAIL.sub("", _MEMORY.sub("", text)).strip(" ,.;:!?")
    if _LAST.fullmatch(text):
        if re.search(r"[:,].*\w" if kind == "keep" else r"\A[\w ]+:.*\w", rest):
            return None  # "Don't save this: ..." keeps its message out of memory.
        return _last(text, front, is_named=is_named, is_told=is_told)
    deletes, is_said = kind in ("delete", "take"), re.search(_SAID, text, re.I) is not None
    moves_on = not is_told and _MOVES_ON.search(rest) is not None
    found = _topic(text, is_named=is_named, deletes=deletes, is_told=is_told)
    if (
        found is None
        or front.rstrip().endswith(":")
        or (moves_on and not _OWN.match(text))
        or (
            deletes
            and not is_named
            and (_TOOLS.fullmatch(text) or (kind == "take" and not is_said))
        )
    ):
        return None
    is_idiom = moves_on or (bool(front) and not is_told) or (is_wish and not is_named)
    is_idiom |= not (is_told or deletes) and _SOMEBODY.fullmatch(text) is not None
    return found._replace(is_sure=found.is_sure and not is_idiom)


def _last(text: str, front: str, *, is_named: bool, is_told: bool) -> Asked | None:
    """Return a request for the statement before, or for the topic in front of "forget it"."""
    is_plain = text.lower() == "it" and not is_named
    front = _FRONT.sub("", front.rstrip(" ,;:.—–-?!"))
    if front and not re.match(r"(?:i|i'm|i've|we)\b", front, re.I) and (is_told or not is_plain):
        found = _topic(front, is_named=False, deletes=False, is_told=False)
        is_noun = (
            _HEAD.fullmatch(front) or re.match("that i", front, re.I) or not _VERBAL.search(front)
        )
        names = (
            found
            and is_noun
            and (found.meant is not Meant.STATEMENT or re.match("that |the ", front, re.I))
        )
        if found and found.is_sure and names:
            return found
    if is_plain and front:
        return None
    return Asked("", Meant.BEFORE, not is_plain, re.sub(r"^that ", "", front, flags=re.I))


def _is_done(text: str) -> Asked | None:
    """Return a wish such as "I want my address gone from your memory"."""
    found = _IS_DONE.fullmatch(text)
    if (
        found is None
        or not _words(found["wish"]) <= _POLITE
        or not (found["wish"] or found["must"])
    ):
        return None
    if not (_MEMORY.search(found["rest"]) or found["done"] == "forgotten"):
        return None
    return _topic(_MEMORY.sub("", found["topic"]), is_named=False, deletes=False, is_told=True)


def _topic(text: str, *, is_named: bool, deletes: bool, is_told: bool) -> Asked | None:
    """Return a request for a topic; it is sure if it is surely of the user."""
    if not text or _TASK.fullmatch(text) or _NONE.match(text):
        return None
    if found := _GENERIC.fullmatch(text):
        is_all = found["all"] and (found["me"] or " me" in text or is_named)
        return Asked("", Meant.EVERYTHING, True) if is_all else None
    if (found := _SECTION.fullmatch(text)) and (is_named or re.match("the |my ", text, re.I)):
        return Asked(found["what"] or found["named"], Meant.ALL_OF, True)
    if found := _HEAD.fullmatch(text):
        what, that = found["what"], _STATES.fullmatch(found["what"])
        if _TASK.fullmatch(what):
            return None
        if re.fullmatch("me|us|myself", what, re.I):
            return Asked("", Meant.EVERYTHING, True)
        if found["said"] and re.search(r"\bjust\b", found["said"], re.I):
            return Asked(what, Meant.BEFORE, True)
        that = that or _STATES.fullmatch(f"that {what}")
        if that and found["of"].lower() in ("that", "where", "saying"):
            return Asked(that["that"], Meant.STATEMENT, True)
        return Asked(what, Meant.ALL_OF if found["all"] else Meant.TOPIC, True)
    if (found := _STATES.fullmatch(text)) and (not deletes or is_named or found["named"]):
        return Asked(found["that"], Meant.STATEMENT, True)
    if found := _ALL_MY.fullmatch(text):
        return Asked(found["what"], Meant.ALL_OF, True) if is_named or found["my"] else None
    is_own = _OWN.match(text) is not None
    if not (is_named or is_own) and re.fullmatch(
        r"th(?:at|is) (?!\w+ing\b)(?:\w+ )?\w{3,}", text, re.I
    ):
        return Asked(text, Meant.BEFORE, True)
    if deletes and not (is_named or (is_own and re.search(r"^(?:my|our)\b|\bi\b", text, re.I))):
        return None
    return Asked(text, Meant.TOPIC, is_named or is_own or is_told)
