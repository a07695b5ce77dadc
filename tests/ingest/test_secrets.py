"""Secrets in texts: a table of what is one, and of what only looks like one."""

from __future__ import annotations

import base64
import json
import random
import string

import pytest

from vikingd.ingest.secret_files import always_secret, is_configuration, is_secret_store
from vikingd.ingest.secrets import lines_of, masked, secrets_in

CHANCE = random.Random(7)
HEX = "0123456789abcdef"
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def rnd(count: int, letters: str = string.ascii_letters + string.digits) -> str:
    """Return random characters with letters and digits; no real secret stands in this file."""
    while True:
        made = "".join(CHANCE.choice(letters) for _ in range(count))
        if any(map(str.isdigit, made)) and any(map(str.isalpha, made)):
            return made


def b64(count: int) -> str:
    """Return random bytes in base64."""
    return base64.b64encode(CHANCE.randbytes(count)).decode()


BODY = "\n".join(b64(48) for _ in range(20))
BASIC = base64.b64encode(b"admin:Zx91kQpp7w").decode()
JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (
        b'{"alg":"HS256","typ":"JWT"}',
        json.dumps({"sub": "u-4471", "iss": "acme", "exp": 1999999999}).encode(),
        CHANCE.randbytes(32),
    )
)

SECRETS = [
    ("py", f'AWS="AKIA{rnd(16, BASE32)}"'),
    ("py", f'aws_secret_access_key = "{b64(30)}"'),
    ("ini", f"aws_secret_access_key = {b64(30)}"),
    ("md", f"use ghp_{rnd(36)} here"),
    ("js", f"const t='github_pat_{rnd(22)}_{rnd(59)}'"),
    ("yaml", f"gitlab: glpat-{rnd(20)}"),
    ("md", "xoxb-{}-{}-{}".format("482910473321", "7719203344510", rnd(24))),
    ("py", f"stripe.api_key='sk_live_{rnd(24)}'"),
    ("sh", f"export OPENAI_API_KEY=sk-proj-{rnd(48)}"),
    ("sh", f"OPENAI_API_KEY=sk-{rnd(48)}"),
    ("sh", f"ANTHROPIC_API_KEY=sk-ant-api03-{rnd(90)}"),
    ("js", f"key: 'AIza{rnd(35)}'"),
    ("md", f"npm_{rnd(36)}"),
    ("md", f"pypi-AgEIcHlwaS5vcmc{rnd(60)}"),
    ("py", f"SG.{rnd(22)}.{rnd(43)}"),
    ("py", f"twilio='SK{rnd(32, HEX)}'"),
    ("md", f"bot 123456789:AA{rnd(33)}"),
    ("md", JWT),
    ("py", f"dsn='postgres://app:{rnd(12)}@db.internal/x'"),
    ("md", "mysql://root:hunter22@10.0.0.1/db"),
    ("yaml", "url: amqp://svc:correcthorse@mq.corp:5672"),
    ("py", 'password = "hunter22"'),
    ("py", 'DB_PASSWORD = "Sup3rS3cret!"'),
    ("yaml", "password: S3cretPassw0rd"),
    ("js", "password: 'Tr0ub4dor&3',"),
    ("py", f'API_KEY: str = "{rnd(32)}"'),
    ("yaml", f"  api_key: {rnd(32, HEX)}"),
    ("json", f'{{"clientSecret": "{rnd(40)}"}}'),
    ("xml", "<password>hunter22</password>"),
    ("xml", f'<add key="ApiKey" value="{rnd(32)}"/>'),
    ("py", f'os.environ.get("SECRET_KEY", "{rnd(50, HEX)}")'),
    ("md", "-----BEGIN RSA PRIVATE KEY-----\n" + BODY + "\n-----END RSA PRIVATE KEY-----"),
    (
        "py",
        'k="-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----"'.format(
            BODY.replace("\n", "\\n")
        ),
    ),
    ("md", "-----BEGIN OPENSSH PRIVATE KEY-----\n" + BODY),
    ("md", f"curl -H 'Authorization: Bearer {rnd(40)}'"),
    ("md", f"Authorization: Basic {BASIC}"),
    ("env", f"TOKEN_SECRET='{rnd(24)}'"),
    ("properties", "spring.datasource.password=Qk7x99ab"),
    ("toml", f'secret = "{b64(24)}"'),
    ("py", f"AccountKey={b64(64)}"),
    ("md", f"https://hooks.slack.com/services/T{rnd(9)}/B{rnd(9)}/{rnd(24)}"),
    ("tf", f'secret_key = "{b64(30)}"'),
    ("js", '{"\\"password\\": \\"hunter22\\""}'),
    ("yaml", f"secret_key_base: {rnd(128, HEX)}"),
    ("py", f"hf_{rnd(34)}"),
]
NONE = [
    ("py", 'AWS="AKIAIOSFODNN7EXAMPLE"'),
    ("ini", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("env", "API_KEY=your-api-key"),
    ("env", "API_KEY=xxxxxxxxxxxxxxxxxxxx"),
    ("yaml", "password: changeme"),
    ("yaml", "password: ${DB_PASSWORD}"),
    ("yaml", "token: ${{ secrets.GITHUB_TOKEN }}"),
    ("yaml", "token: <token>"),
    ("py", "password = get_password2()"),
    ("py", "password = config.password2"),
    ("py", "password: str = Field(min_length=8)"),
    ("md", "postgresql://user:password@localhost/db"),
    ("md", "mysql://scott:tiger@localhost/test"),
    ("md", "amqp://guest:guest@rabbit:5672"),
    ("py", "token = request.headers['X-Token1']"),
    ("yaml", f"image: foo@sha256:{rnd(64, HEX)}"),
    ("yaml", f"uses: actions/checkout@{rnd(40, HEX)}"),
    ("json", f'"integrity": "sha512-{b64(64)}"'),
    ("py", "max_tokens = 4096"),
    ("py", 'tokenizer = "cl100k_base_v2_large_x"'),
    ("yaml", "secretName: my-tls-secret-2024"),
    ("py", "access_token_url='https://a.b/oauth2/token1'"),
    ("css", ".sk-circle1-child-of-the-spinner-12 {}"),
    ("md", "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----"),
    ("md", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
    ("md", "sk-your-api-key-goes-right-here-1234"),
    (
        "md",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    ),
    ("ts", "token: string;"),
    ("ts", "readonly secretKey1: string = this.config.key2"),
    ("py", 'password="test1234"'),
    ("yaml", "POSTGRES_PASSWORD: postgres"),
    ("yaml", "api_key: abc123"),
    ("md", "password: at least 8 characters"),
    ("yaml", "pwd: /home/user1/x"),
    ("py", "'password': ['required', 'min:8']"),
    ("js", "const password = req.body.password1;"),
    ("js", "tokenType: 'bearer2token'"),
    ("yaml", "token_ttl: 3600s"),
    ("py", 'SECRET_NAME="projects/12/secrets/x1"'),
    ("env", "SECRET_KEY=change-me-to-32-random-chars-123"),
    ("py", "key='0123456789abcdef0123456789abcdef'"),
    ("py", "api_key='0123456789abcdef0123456789abcdef'"),
    ("md", "the [secret left out: password] marker"),
    ("py", 'password = "[secret left out: password]"'),
    ("md", "https://example.com:8080/@foo"),
    ("md", "git+ssh://git@github.com:org/x2"),
    ("yaml", "cache-key: v1-deps-{{ checksum }}"),
    ("js", "apiKey: process.env.API_KEY1"),
    ("kt", "val token1 = tokens[index1]"),
]

NAMES = {
    ".env": "environment file",
    ".env.local": "environment file",
    ".env.example": "",
    ".env.local.sample": "",
    ".environment": "",
    "id_rsa": "private key",
    "id_rsa.pub": "",
    "a.p12": "key store",
    "Key.JKS": "key store",
    ".netrc": "passwords",
    "netrc.md": "",
}
STORES = {
    "prod.env": True,
    "example.env": False,
    "key.pem": True,
    ".npmrc": True,
    "credentials.json": True,
    "aws_credentials": True,
    "credentials.md": False,
    "secrets.py": False,
    "secret-santa.md": False,
    "service-account-prod.json": True,
    "secrets.example.yaml": False,
    "terraform.tfstate": True,
    "keys.md": False,
}


def of_kind(suffix: str, text: str) -> list[tuple[int, int, str]]:
    """Return the secrets of a file with a suffix."""
    found = secrets_in(text, is_config=is_configuration(f"a.{suffix}"))
    return [(one.start, one.end, one.kind) for one in found]


@pytest.mark.parametrize(("suffix", "text"), SECRETS)
def test_a_secret_is_found_and_masked(suffix: str, text: str) -> None:
    """No part of it stays, its line keeps its number, and a marker is no secret."""
    found = secrets_in(text, is_config=is_configuration(f"a.{suffix}"))
    assert found
    left = masked(text, found)
    for one in found:
        assert text[one.start : one.end] not in left
    assert left.count("\n") == text.count("\n")
    assert not of_kind(suffix, left)


@pytest.mark.parametrize(("suffix", "text"), NONE)
def test_a_placeholder_is_no_secret(suffix: str, text: str) -> None:
    """Placeholders, references, examples of manuals, names and hashes stay as they are."""
    assert not of_kind(suffix, text)


def test_files_are_known_by_name() -> None:
    """Models of environment files and notes are read, whatever their names begin with."""
    assert {name: always_secret(name) for name in NAMES} == NAMES
    assert {name: is_secret_store(name) for name in STORES} == STORES


def test_lines_are_counted_and_kept() -> None:
    """A key over many lines becomes one marker, and what follows keeps its line."""
    key = f"-----BEGIN RSA PRIVATE KEY-----\r\n{BODY}\r\n-----END RSA PRIVATE KEY-----"
    token = f"ghp_{rnd(36)}"
    text = f"a\n{key}\nb\nuse {token}!\n"
    found = secrets_in(text)
    assert lines_of(text, found) == [2, 25]
    left = masked(text, found).split("\n")
    assert left[1].strip() == "[secret left out: private key]"
    assert left[23:25] == ["b", "use [secret left out: GitHub token]!"]


def test_a_store_is_read_strictly() -> None:
    """In a file for secrets a short value counts, and a placeholder does not."""
    assert secrets_in("TOKEN=hush", is_config=True, is_store=True)
    assert not secrets_in("TOKEN=hush", is_config=True)
    assert not secrets_in("TOKEN=changeme\nKEY=\nPORT=3000", is_config=True, is_store=True)


HOSTILE = [
    *("token", "pwd", "password='", "api_key: a1", "sk-", "eyJaaaaaaaaaa", "://a:b", "Bearer aB1"),
    *("-----BEGIN PRIVATE KEY-----\n", "access key", "tokentoken: str | ", "password: aB1cD2"),
    *(f"ghp_{'a1' * 18} ", "Private-Lines: 1\nA", "\u0130password=", 'secret"""'),
]


@pytest.mark.deep
@pytest.mark.parametrize("unit", HOSTILE)
def test_two_million_characters_of_near_matches_end(unit: str) -> None:
    """The time is linear; a quadratic search would not end within the limit of a test."""
    text = unit * ((2 << 20) // len(unit))
    left = masked(text, secrets_in(text, is_config=True, is_store=True))
    assert left.count("\n") == text.count("\n")
