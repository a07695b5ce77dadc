"""Secrets that stand in a tree, against a real daemon: none can be found after an import."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.watch_helpers import TOP, watching
from tests.patience import eventually
from vikingd.client import Client

Ctl = Callable[..., tuple[int, str, str]]

CHANCE = random.Random(11)


def made(count: int) -> str:
    """Return random letters and digits; no real secret stands in this file."""
    start = CHANCE.choice(string.ascii_letters) + CHANCE.choice(string.digits)
    return start + "".join(CHANCE.choices(string.ascii_letters + string.digits, k=count - 2))


KEY = "\n".join(base64.b64encode(CHANCE.randbytes(48)).decode() for _ in range(12))
# By file: its text with "{}" for a secret, the secret, and the word of a search beside it.
PLANTED = {
    "prod.env": ("HARBOUR_SECRET={}\n", "tidal-7"),
    "id_ed25519": ("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n", KEY),
    "deploy.pem": ("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", KEY),
    "docs/aws.md": ("# Harbour\n\nThe harbour key is `{}`.\n", "AKIA" + "Q7ZL3NWX5KJ2M6TP"),
    "src/pay.py": ('"""Harbour fees."""\nKEY = "{}"\n', "sk_live_" + made(24)),
    "src/model.ts": ('// harbour model\nconst key = "{}";\n', "sk-ant-api03-" + made(90)),
    "src/db.go": ('package harbour\nvar dsn = "postgres://app:{}@db.corp/x"\n', made(14)),
    "config/app.yaml": ("harbour:\n  api_key: {}\n", made(32)),
    "config/app.toml": ('[harbour]\npassword = "{}"\n', "Tr0ub4dor&3"),
    "ci.yml": ("# harbour\ntoken: {}\n", "ghp_" + made(36)),
    "bot.ipynb": (
        json.dumps({"cells": [{"cell_type": "code", "source": "harbour = '{}'"}]})
        .replace("{", "{{")
        .replace("}", "}}")
        .replace("{{}}", "{}"),
        "12345678:AA" + made(33),
    ),
    "page.html": (
        "<p>The harbour hook: https://{}</p>",
        f"hooks.slack.com/services/T{made(9)}/B{made(9)}/{made(24)}",
    ),
}


def planted(top: Path) -> list[str]:
    """Write a tree with secrets, and return all lines of them."""
    secrets = []
    for name, (text, secret) in PLANTED.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text.format(secret))
        secrets += secret.split("\n")
    return secrets


def test_planted_secrets_cannot_be_found(ctl: Ctl, typed: Client, tmp_path: Path) -> None:
    """No search and no reading shows one; the report names file, line and kind, and no secret."""
    secrets = planted(tmp_path / "t")
    given = "import", str(tmp_path / "t"), TOP
    _, plan, told = ctl(*given, "--dry-run", "--json")
    done, out, err = ctl(*given)
    assert done == 0
    texts = [typed.get(one.uri).content for one in typed.tree(TOP) if not one.is_directory]
    assert len(texts) == len(PLANTED) - 3
    assert sum("[secret left out: " in text for text in texts) == len(texts)
    answers = [plan, told, out, err, *texts]
    answers += [repr(typed.find(f"harbour {secret}", limit=20)) for secret in secrets[:1]]
    answers += [repr(typed.retrieve("harbour key token password", limit=20))]
    for secret in secrets:
        assert not any(secret in answer for answer in answers)
        assert not list(typed.grep(secret, target_uri=TOP, literal=True))
    assert f"secrets left out: {len(PLANTED) - 1} (--with-secrets takes them)\n" in err
    assert "  docs/aws.md:3: AWS access key\n" in err
    assert "  deploy.pem:1: private key\n" in err
    assert "  secrets (private key): id_ed25519, deploy.pem\n" in err
    summary = json.loads(plan)
    assert {Path(one["path"]).name: one["line"] for one in summary["secrets"]}["app.yaml"] == 2

    done, _, err = ctl(*given, "--with-secrets")
    assert (done, "secrets" in err) == (0, False)
    assert list(typed.grep("tidal-7", target_uri=TOP))


@pytest.mark.deep
def test_a_watched_folder_takes_no_secrets(typed: Client, daemon: str, tmp_path: Path) -> None:
    """A secret that is written later stays out too, and is told once."""
    (tmp_path / "a.md").write_text("harbour")
    with watching(daemon, tmp_path) as run:
        planted(tmp_path)
        uri = f"{TOP}/docs/aws.md"
        eventually(lambda: any(one.uri == uri for one in typed.tree(TOP)))
        assert "[secret left out: AWS access key]" in typed.get(uri).content
        (tmp_path / "docs/aws.md").write_text("harbour without a key")
        eventually(lambda: typed.get(uri).content == "harbour without a key")
    assert run.error is None
    told = [one.uri for summary in run.summaries for one in summary.secrets]
    assert told.count(uri) == 1
