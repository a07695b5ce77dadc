"""The recognizable forms of tokens of well-known services."""

from __future__ import annotations

import re
from typing import TypeAlias

# By kind: the fixed start of a token, and the characters after it. "%" stands for letters and
# digits, "~" for these with "_" and "-".
_TOKENS = (
    ("AWS access key", "AKIA", r"[A-Z2-7]{16}"),
    ("AWS access key", "ASIA", r"[A-Z2-7]{16}"),
    ("GitHub token", "ghp_", r"%{36,80}"),
    ("GitHub token", "gho_", r"%{36,80}"),
    ("GitHub token", "ghu_", r"%{36,80}"),
    ("GitHub token", "ghs_", r"%{36,80}"),
    ("GitHub token", "ghr_", r"%{36,80}"),
    ("GitHub token", "github_pat_", r"[A-Za-z0-9_]{40,120}"),
    ("GitLab token", "glpat-", r"~{20,120}"),
    ("GitLab token", "gldt-", r"~{20,120}"),
    ("GitLab token", "glrt-", r"~{20,120}"),
    ("Slack token", "xoxb-", r"[A-Za-z0-9-]{20,120}"),
    ("Slack token", "xoxp-", r"[A-Za-z0-9-]{20,120}"),
    ("Slack token", "xoxa-", r"[A-Za-z0-9-]{20,120}"),
    ("Slack token", "xoxr-", r"[A-Za-z0-9-]{20,120}"),
    ("Slack token", "xoxs-", r"[A-Za-z0-9-]{20,120}"),
    ("Slack token", "xoxe.", r"[A-Za-z0-9.-]{20,250}"),
    ("Slack token", "xapp-", r"[A-Za-z0-9-]{20,160}"),
    ("Slack webhook", "hooks.slack.com/services/", r"T%{6,14}/B%{6,14}/%{20,30}"),
    ("Stripe key", "sk_live_", r"%{16,120}"),
    ("Stripe key", "rk_live_", r"%{16,120}"),
    ("Stripe key", "whsec_", r"[A-Za-z0-9+/=]{24,80}"),
    ("Anthropic key", "sk-ant-", r"~{24,160}"),
    ("OpenAI key", "sk-", r"(?!ant-)(?:proj-|svcacct-|admin-|or-v1-)?~{20,220}"),
    ("Google key", "AIza", r"~{35}"),
    ("Google token", "ya29.", r"~{40,400}"),
    ("Google secret", "GOCSPX-", r"~{24,40}"),
    ("npm token", "npm_", r"%{36,80}"),
    ("PyPI token", "pypi-", r"AgE~{40,400}"),
    ("SendGrid key", "SG.", r"~{16,30}\.~{30,60}"),
    ("Twilio key", "SK", r"[0-9a-f]{32}"),
    ("Telegram token", ":AA", r"~{33}"),
    ("Hugging Face token", "hf_", r"%{30,60}"),
    ("Groq key", "gsk_", r"%{40,80}"),
    ("DigitalOcean token", "dop_v1_", r"[0-9a-f]{64}"),
    ("Grafana token", "glsa_", r"[A-Za-z0-9_]{32,60}"),
    ("Databricks token", "dapi", r"[0-9a-f]{32}(?:-\d)?"),
    ("Shopify token", "shpat_", r"[0-9a-fA-F]{32}"),
    ("Shopify token", "shpss_", r"[0-9a-fA-F]{32}"),
    ("Vault token", "hvs.", r"~{24,160}"),
    ("age key", "AGE-SECRET-KEY-", r"1[A-Z0-9]{58}"),
    ("Docker token", "dckr_pat_", r"~{20,60}"),
    ("RubyGems key", "rubygems_", r"[0-9a-f]{48}"),
    ("Figma token", "figd_", r"~{36,60}"),
    ("Mapbox token", "sk.", r"eyJ~{40,160}\.~{16,40}"),
    ("Linear key", "lin_api_", r"%{32,60}"),
    ("Square secret", "sq0csp-", r"~{40,60}"),
)


def _form(start: str, rest: str) -> re.Pattern[str]:
    """Return the regex of a token that begins with `start`; its group `value` is the secret.

    In `rest`, "%" stands for a letter or digit, and "~" also for "_" and "-". No letter or digit
    may be directly before or after the token. The start "AIza" and the rest "~{35}" match "AIza"
    with 35 letters, digits, "_" and "-" behind it.
    """
    rest = rest.replace("%", "[A-Za-z0-9]").replace("~", "[A-Za-z0-9_-]")
    if start == ":AA":  # the number of the bot is before it
        return re.compile(rf"(?<=\d{{8}})(?P<value>{re.escape(start)}{rest})(?![A-Za-z0-9])")
    return re.compile(rf"(?<![A-Za-z0-9_])(?P<value>{re.escape(start)}{rest})(?![A-Za-z0-9])")


Form: TypeAlias = tuple[str, str, re.Pattern[str]]
"""(fixed start of a token, its kind, a pattern whose group `value` is the secret)."""

FORMS: tuple[Form, ...] = tuple((start, kind, _form(start, rest)) for kind, start, rest in _TOKENS)

_SIGNS = "_-."
FAMILIES = tuple(
    (
        re.compile(rf"{re.escape(sign)}(?=[A-Za-z0-9][\w+/=.-]{{15}})"),
        tuple(form[0] for form in family),
        family,
    )
    for sign in _SIGNS
    if (family := tuple(form for form in FORMS if form[0].endswith(sign)))
)
"""The forms by the last character of their starts: (its pattern, the starts, the forms)."""

OTHERS = tuple(form for form in FORMS if form[0][-1] not in _SIGNS)
