"""Memories that are forgotten only by id: pinned ones, the profile, instructions, and health.

Health is recognized by the file, by a heading, or by a word of a table. The table includes too much
rather than too little: to keep a memory costs little, and to forget an allergy may cost much.
"""

from __future__ import annotations

import re

from vikingd.domain.pinned_text import is_pinned
from vikingd.domain.text import SECTION_SEPARATOR, lazy
from vikingd.memory.memory_types import StoredEntry, memory_type_of

_KINDS = {
    **dict.fromkeys(("profile", "个人资料", "個人資料", "档案", "檔案"), "profile"),
    **dict.fromkeys(
        ("instructions", "instruction", "rules", "指令", "规则", "規則", "要求"), "instructions"
    ),
    **dict.fromkeys(
        ("health", "medical", "medication", "medications", "allergies", "allergy"), "health"
    ),
    **dict.fromkeys(
        ("健康", "医疗", "醫療", "病史", "用药", "用藥", "过敏", "過敏", "身体", "身體"), "health"
    ),
}
"""The kind by the name of a file or a heading, in lower case."""

_HEALTH = lazy(
    r"\b(?:"
    # what a person cannot bear
    r"allerg\w*|anaphyla\w*|epi-?pens?|intoleran\w*|c(?:o)?eliac|gluten|lactose"
    # illnesses and states
    r"|asthma\w*|diabet\w*|epilep\w*|seizures?|migraines?|cancer\w*|tumou?rs?|leuk(?:a)?emia"
    r"|hypertension|h(?:a)?emophili\w*|an(?:a)?emi\w*|arthritis|heart (?:attack|disease|condition|"
    r"failure|problem)s?|pacemakers?|strokes?|hiv|aids|hepatitis|covid\S*|tuberculosis|malaria"
    r"|depress(?:ion|ed|ive)|anxiety|adhd|autis\w*|bipolar|ptsd|schizophren\w*|dementia"
    r"|alzheimer\w*|parkinson\w*|suicid\w*|self-harm\w*|addict\w*|alcoholi\w*|sober"
    r"|pregnan\w*|miscarr\w*|breast-?feeding|disabilit\w*|wheelchairs?|deaf\w*|hearing aids?"
    r"|blind(?:ness)?|colou?r-?blind\w*|(?:back|chest|neck|knee|joint|chronic) pains?"
    r"|ill(?:ness\w*)?|sick(?:ness\w*)?|diseases?|disorders?|syndromes?|chronic\w*|symptoms?"
    r"|infections?|injur\w*|fractur\w*|concussions?|overdos\w*|faint(?:s|ed|ing)?"
    # treatment
    r"|health\w*|medic(?:al|ally|ine|ines|ation|ations|ated)|meds|prescri(?:bed?|ptions?)"
    r"|dos(?:e|es|age|ages)|pills?|inhalers?|insulin|antibiotics?|penicillin|ibuprofen|aspirin"
    r"|paracetamol|acetaminophen|warfarin|statins?|blood|vaccin\w*|immuni[sz]\w*"
    r"|diagnos(?:is|es|ed)|therap(?:y|ies|ist|ists)|chemo\w*|dialysis|surger(?:y|ies)|transplant\w*"
    r"|implants?|doctors?|physicians?|hospital\w*|clinics?"
    r")\b"
    r"|过敏|過敏|不耐受|乳糖|麸质|麩質|忌口|哮喘|癫痫|癲癇|血糖|血压|血壓|血型|胰岛素|胰島素|心脏"
    r"|心臟|癌|肿瘤|腫瘤|中风|中風|艾滋|肝炎|肺炎|抑郁|抑鬱|焦虑|焦慮|自闭|自閉|自杀|自殺|怀孕"
    r"|懷孕|孕妇|孕婦|哺乳|残疾|殘疾|轮椅|輪椅|失明|色盲|色弱|耳聋|耳聾|助听器|助聽器|骨折|受伤"
    r"|受傷|疼痛|头疼|頭疼|头痛|頭痛|发烧|發燒|手术|手術|住院|疫苗|剂量|劑量|青霉素|阿司匹林|布洛芬"
    r"|健康|[病药藥医醫症]",
    re.IGNORECASE,
)


def kept_unless_named(one: StoredEntry, named: str) -> str:
    """Return the reason why a request to forget in words does not remove a memory; "" if it does.

    A pinned memory stays. A memory of health stays unless the words of the request, `named`, speak
    of health too.
    """
    if is_pinned(one.passage):
        return "it is pinned"
    return "" if _HEALTH.search(named) else _of_health(one)


def spared(one: StoredEntry) -> str:
    """Return the reason, for people, why a memory is only forgotten by its id.

    "" if there is none.
    """
    if is_pinned(one.passage):
        return "it is pinned"
    if kind := _KINDS.get(memory_type_of(one.uri)):
        return f"it is in a file of {kind}"
    for heading in one.section.split(SECTION_SEPARATOR):
        if kind := _KINDS.get(heading.strip().casefold()):
            return f"it is below a heading of {kind}"
    return _of_health(one)


def _of_health(one: StoredEntry) -> str:
    named = re.sub(r"[_-]", " ", f"{memory_type_of(one.uri)} {one.section}")
    if word := _HEALTH.search(named) or _HEALTH.search(one.passage):
        return f"it speaks of health: {word[0]!r}"
    return ""
