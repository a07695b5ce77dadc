"""Secrets in SQL, options of commands, pairs and calls: a table of them, and of look-alikes."""

from __future__ import annotations

import random
import string

import pytest

from vikingd.ingest.secret_files import is_configuration
from vikingd.ingest.secrets import masked, secrets_in

CHANCE = random.Random(11)
WORD = "Tr0ub4dor_9x"
"""A password with letters, a digit and a special character."""


def rnd(count: int) -> str:
    """Return random letters and digits; no real secret stands in this file."""
    return "k7" + "".join(CHANCE.choices(string.ascii_letters + string.digits, k=count - 2))


KEY = rnd(24)
SECRETS = [
    ("a.m", f'NSString *apiKey = @"{KEY}";', KEY),
    ("a.cs", f'var password = @"{WORD}";', WORD),
    ("a.rs", f'const API_KEY: &str = "{KEY}";', KEY),
    ("a.rs", f'static DB_PASSWORD: &\'static str = "{KEY}";', KEY),
    ("a.ino", f'const char password[] = "{WORD}";', WORD),
    ("a.cpp", f'std::wstring password = L"{KEY}";', KEY),
    ("a.swift", f'let apiKey = #"{KEY}"#', KEY),
    ("a.toml", f'password = """{KEY}"""', KEY),
    ("a.py", f'API_KEY = (\n    "{KEY}"\n)', KEY),
    ("a.ts", f'const apiKey =\n  "{KEY}";', KEY),
    ("a.h", f'#define WIFI_PASSWORD "{WORD}"', WORD),
    ("Dockerfile", f"ENV DB_PASSWORD {WORD}", WORD),
    ("a.fish", f"set -x API_KEY {KEY}", KEY),
    ("redis.conf", f"requirepass {KEY}", KEY),
    ("a.conf", f'proxy_set_header X-Api-Key "{KEY}";', KEY),
    ("a.gradle", f"    storePassword '{WORD}'", WORD),
    ("a.clj", f'{{:password "{KEY}"}}', KEY),
    ("a.sql", f"CREATE ROLE a LOGIN PASSWORD '{WORD}';", WORD),
    ("a.sql", f"CREATE LOGIN a WITH PASSWORD = N'{WORD}';", WORD),
    ("a.sql", f"CREATE USER a WITH ENCRYPTED PASSWORD '{WORD}';", WORD),
    ("a.sql", f"GRANT ALL ON *.* TO 'a'@'%' IDENTIFIED BY '{WORD}';", WORD),
    ("a.ps1", f'$x = ConvertTo-SecureString -String "{WORD}" -AsPlainText', WORD),
    ("a.sh", f"mysqldump -uroot -p{WORD} db", WORD),
    ("a.sh", f"curl -u admin:{WORD} https://x", WORD),
    ("a.sh", f"curl -s \\\n  --user 'admin:{WORD}' https://x", WORD),
    ("a.md", f"sshpass -p '{WORD}' ssh x", WORD),
    ("a.sh", f"tool --password {WORD} x", WORD),
    ("a.md", f"`tool --api-key {KEY}`", KEY),
    ("a.yml", f"  pass: {KEY}", KEY),
    ("a.js", f"auth: {{ user: 'a', pass: '{KEY}' }}", KEY),
    ("a.ts", f'const dbPass = "{KEY}";', KEY),
    ("a.yml", f"密码: {WORD}", WORD),
    ("a.md", f"数据库密码：{KEY}", KEY),
    ("a.properties", f"口令={WORD}", WORD),
    ("a.yml", f"- name: DB_PASSWORD\n  value: {WORD}", WORD),
    ("a.json", f'{{"name": "API_KEY", "value": "{KEY}"}}', KEY),
    ("a.tf", f'name  = "DB_PASSWORD"\n    value = "{KEY}"', KEY),
    ("a.js", f"const apiKey = process.env.API_KEY || '{KEY}';", KEY),
    ("a.ts", f'const token = process.env.TOKEN ?? "{KEY}";', KEY),
    ("a.py", f'token = os.getenv("T") or "{KEY}"', KEY),
    ("a.java", f'.withPassword("{KEY}")', KEY),
    ("a.java", f'new PasswordAuthentication("a", "{KEY}")', KEY),
    ("a.go", f'req.SetBasicAuth("admin", "{KEY}")', KEY),
    ("a.py", f'get(url, auth=("admin", "{KEY}"))', KEY),
    ("a.py", f'{{"Authorization": "Token {KEY}"}}', KEY),
    ("a.php", f"define('DB_PASSWORD', '{WORD}');", WORD),
    ("a.md", f"| password | {KEY} |", KEY),
    ("a.md", f"**Password:** {KEY}", KEY),
    ("a.py", "APP_PASSWORD = 'tjgx ggnb eefh kfnl'", "tjgx ggnb eefh kfnl"),
]
NONE = [
    ("a.h", '#define PASSWORD_MAX_LENGTH "32"'),
    ("a.h", '#define TOKEN_STRING "string_literal"'),
    ("a.h", '#define KEY_PASSWORD "password1"'),
    ("a.sql", "COMMENT ON COLUMN u.password IS 'bcrypt2 hash';"),
    ("a.sql", "SELECT password 'alias1' FROM x"),
    ("a.sql", "CREATE USER a WITH PASSWORD 'changeme';"),
    ("a.sql", "IDENTIFIED BY '${DB_PASSWORD}'"),
    ("a.sql", "ALTER USER a PASSWORD NULL;"),
    ("a.ps1", "ConvertTo-SecureString $plain -AsPlainText"),
    ("a.ps1", 'ConvertTo-SecureString "$env:PW" -AsPlainText'),
    ("a.sh", "mysql -u root -p db1"),
    ("a.sh", 'mysql -p"$PW" x'),
    ("a.sh", "mysqldump --port=3306 -P3307 x"),
    ("a.sh", "docker run -p8080:80 mysql:8"),
    ("a.sh", "mkdir -p dir/sub2"),
    ("a.sh", "curl -u $USER:$PW x"),
    ("a.sh", "curl -u user:password x"),
    ("a.md", "curl -u username:api_token1 https://x"),
    ("a.sh", "docker run -u 1000:1000 curl"),
    ("a.sh", "tool --password-file /run/x1"),
    ("a.sh", "tool --password $PW"),
    ("a.md", "`--token TOKEN1`  the token"),
    ("a.sh", "tokenize --token tokenizer_v2"),
    ("a.yml", "pass: v1.2.3-build4"),
    ("a.yml", "pass: build-2024-11-03"),
    ("a.ts", 'pass: "GBufferPass1"'),
    ("a.ts", 'const renderPass = "shadow-pass-2"'),
    ("a.js", "bypass: 'x9k2m4q8w7z3r5t1'"),
    ("a.json", '"passed": "k3j4h5g6f7d8s9a0"'),
    ("a.yml", "compass: k3j4h5g6f7d8s9a0"),
    ("a.properties", "密码=至少8位字母和数字"),
    ("a.yml", "密码: 请输入6到20位的密码"),
    ("a.md", "密码：请使用环境变量 DB_PASSWORD1"),
    ("a.properties", "密码提示=abc12345x"),
    ("a.yml", "- name: DB_PASSWORD\n  value: ${DB_PASSWORD}"),
    ("a.yml", "- name: DB_PASSWORD_FILE\n  value: /run/secrets/db1"),
    ("a.yml", "- name: password\n  value: changeme"),
    ("a.json", '{"name": "token", "value": "access_token_value_1"}'),
    ("a.json", '{"name": "cacheKey", "value": "orders-2024-11-29-abcdef1"}'),
    ("a.js", "const apiKey = process.env.API_KEY || 'your-api-key';"),
    ("a.ts", "const token = useToken() ?? defaultTokens['primary2'];"),
    ("a.py", 'token = next(t) or "end_of_stream_2"'),
    ("a.java", '.password("password1")'),
    ("a.java", 'getPassword("customer-42-name")'),
    ("a.js", 't("password.tooShort8")'),
    ("a.py", 'looks_like_secret("d41d8cd98f00b204e9800998ecf8427e")'),
    ("a.py", 'delete_token("550e8400-e29b-41d4-a716-446655440000")'),
    ("a.md", "Password: at least 8 characters"),
    ("a.md", "| password | string1 | The password |"),
    ("a.md", "**Password:** minimum8"),
    ("a.md", "| which cases pass | `test_a_hub_with_5000_links_is_found` |"),
    ("a.md", "password 'Secret123' is weak"),
    ("a.gradle", "storePassword System.getenv('STORE_PASSWORD1')"),
    ("a.py", "password = 'open your door then'"),
    ("ci.yml", "run: echo $DB_PASSWORD | sha256sum"),
    ("deploy.conf", 'echo -n "$PASSWORD" | sha512crypt'),
    ("a.yml", "gen_password | md5sum1 -"),
    ("a.md", "Authorization: AWS4-HMAC-SHA256 Credential=x"),
    ("a.js", 'new Token("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48")'),
    ("a.py", 'token("2024-01-15T10:22:33.123Z")'),
    ("a.sh", "mysql -h db -port3306 x"),
    ("a.yml", "- name: MAX_PASSWORD_AGE\n  value: 90days1"),
    ("a.yml", "- name: PASSWORD_ALGO\n  value: argon2id"),
    ("a.md", "A user enters password 'twice2x' here"),
    ("a.rs", 'const TOKEN_KIND: &str = "identifier_2";'),
    ("a.rs", 'const API_KEY: &str = env!("API_KEY");'),
    ("a.c", "char password[MAX_LEN2] = {0};"),
    ("Dockerfile", "ENV TOKEN_TTL 3600s"),
    ("Dockerfile", "ENV DB_PASSWORD ${X1}"),
    ("a.conf", "requirepass foobared"),
    ("a.py", '("authorization", "x-amz-content-sha256-2")'),
]
HOSTILE = [
    *("mysql ", "mysql -p", "curl -u ", "curl \\\n", "identified by ", "auth=(", "auth=('a', "),
    *("password ", "name: password ", "name: password\n", "--password ", "authorization: token "),
    *("password = a || ", "pass: ", "password(", "密码：", "convertto-securestring -force "),
]


@pytest.mark.parametrize(("name", "text", "secret"), SECRETS)
def test_a_stated_secret_is_found(name: str, text: str, secret: str) -> None:
    """The value is found as a whole, and nothing beside it."""
    found = secrets_in(text, is_config=is_configuration(name))
    assert [text[one.start : one.end] for one in found] == [secret]


@pytest.mark.parametrize(("name", "text"), NONE)
def test_what_looks_like_a_statement_is_no_secret(name: str, text: str) -> None:
    """References, placeholders, names and numbers of contents stay."""
    assert secrets_in(text, is_config=is_configuration(name)) == []


@pytest.mark.deep
@pytest.mark.parametrize("unit", HOSTILE)
def test_two_million_characters_of_near_statements_end(unit: str) -> None:
    """The time is linear; a quadratic search would not end within the limit of a test."""
    text = unit * ((2 << 20) // len(unit))
    left = masked(text, secrets_in(text, is_config=True))
    assert left.count("\n") == text.count("\n")
