"""The commands of all guides, and how each of them is run at its smallest size.

A command is a line of a shell block, a line after `$ ` in a block of text, or code within a
sentence or a table that begins with a program. Each has one entry in one of the tables below.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import vikingd

ROOT = Path(vikingd.__file__).parents[1]

NO_GUIDES = re.compile(
    r"CHANGELOG\.md|vikingd/(demo_tree/|mcp/memory|models/\w+/prompt_)"
    r"|tests/ingest/(files/(expected|sources)|migrations/openviking-)"
)
"""Documents for models, for importers and about the past."""

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_PROGRAM = re.compile(
    r"(\w+=\S+ )*"
    r"((pip|git|docker|curl|npm|npx|openssl|psql|sudo|kubectl|helm|vikingctl|vikingd) [\w.]"
    r"|python3? -?\w"
    r"|pytest( |$)|\.ci/\w)"
)
_COMMENT = re.compile(r"\s+# .*$", re.MULTILINE)
_HEREDOC = re.compile(r"<< ?'(\w+)'")


def guides() -> list[Path]:
    """Return the Markdown files of the repository that people read."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = listed.stdout.rstrip("\0").split("\0")
    return [ROOT / name for name in names if not NO_GUIDES.match(name)]


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a guide, in their order within blocks, then within sentences."""
    for language, block in _FENCE.findall(text):
        if language == "sh":
            yield from lines(block)
        elif language == "text":
            yield from re.findall(r"^\$ (.+)$", block, re.MULTILINE)
    for found in _INLINE.findall(_FENCE.sub("", text)):
        command = " ".join(found.split())
        if _PROGRAM.match(command):
            yield from command.split(" && ")


def lines(block: str) -> Iterator[str]:
    """Yield the commands of a shell block: parts of `&&` by themselves, a text with its command."""
    left = iter(_COMMENT.sub("", block.replace("\\\n", " ")).splitlines())
    for line in left:
        if marked := _HEREDOC.search(line):
            whole = [line]
            while whole[-1] != marked[1]:
                whole.append(next(left))
            yield "\n".join(whole)
        elif line.strip():
            yield from (" ".join(part.split()) for part in line.split(" && "))


SAME = "{}"
"""The command as the guide has it. Other names in braces are values of the fixture `values`."""

CTL: dict[str, str] = {
    'vikingctl context "..." --max-tokens 3000': 'vikingctl context "tea" --max-tokens 3000',
    'vikingctl find "how do I return a custom status code"': SAME,
    'vikingctl find "how do I return a custom status code" --address 127.0.0.1:7700': (
        'vikingctl find "how do I return a custom status code" --address {address}'
    ),
    "vikingctl find": "vikingctl find tea",
    "vikingctl find ... --trace": "vikingctl find tea --trace",
    "vikingctl find ... --trace=full": "vikingctl find tea --trace=full",
    "vikingctl find QUERY": "vikingctl find tea",
    'vikingctl search "..." --session FILE --trace': (
        'vikingctl search "tea" --session session.json --trace'
    ),
    "vikingctl search TASK": "vikingctl search 'write the RFC'",
    "vikingctl retrieve QUERY": "vikingctl retrieve tea --mode keyword",
    'vikingctl find "how is a request retried" --where \'{"kind": "source"}\'': SAME,
    'vikingctl find "how is a request retried" --prefer code': SAME,
    (
        'vikingctl retrieve "retry" '
        '--where \'{"kind": {"$nin": ["test", "vendored", "generated"]}}\''
    ): SAME,
    "vikingctl context QUERY": "vikingctl context tea",
    "vikingctl evaluate": "vikingctl evaluate {questions}",
    "vikingctl evaluate QUESTIONS.jsonl": "vikingctl evaluate {questions}",
    "vikingctl evaluate questions.jsonl": "vikingctl evaluate {questions}",
    "vikingctl recall QUERY": "vikingctl recall tea",
    'vikingctl recall "what does she like to drink?" --max-tokens 500': SAME,
    "vikingctl remember TEXT": "vikingctl remember 'Drinks mint tea.' --type preferences",
    'vikingctl remember "Prefers oolong to coffee." --type preferences --section Drinks': SAME,
    'vikingctl remember "The key is at the neighbour\'s." --type notes --pinned': SAME,
    'vikingctl remember "Ship the beta on Friday." --type tasks --project lantern '
    "--time 2026-03-01": SAME,
    "vikingctl reinforce ID...": "vikingctl reinforce {id}",
    "vikingctl reinforce 12": "vikingctl reinforce {id}",
    "vikingctl forget ID...": "vikingctl forget {id}",
    "vikingctl forget": "vikingctl forget {id}",
    "vikingctl forget --older-than 365d --below-salience 0.1 --dry-run": SAME,
    'vikingctl remember "Takes the night train." --type preferences': SAME,
    'vikingctl recall "how does the user travel?"': SAME,
    "vikingctl extract --session FILE": "vikingctl extract --session session.json",
    "vikingctl extract --session session.json": SAME,
    "vikingctl extract --session session.json --dry-run": SAME,
    "vikingctl import ./docs viking://resources/docs": SAME,
    "vikingctl import": "vikingctl import docs viking://resources/docs",
    "vikingctl import PATH URI": "vikingctl import docs viking://resources/docs",
    "vikingctl import vikingd/demo_tree viking://": (
        "vikingctl import {root}/vikingd/demo_tree viking:// --dry-run"
    ),
    "vikingctl import ADDRESS URI": "vikingctl import {repository} viking://resources/repository",
    "vikingctl import git+https://github.com/encode/httpx#docs viking://resources/httpx "
    "--ref master": "vikingctl import {repository}#docs viking://resources/httpx --ref main",
    "vikingctl import release-1.2.tar.gz viking://resources/release": (
        "vikingctl import {archive} viking://resources/release"
    ),
    "vikingctl sources list": SAME,
    "vikingctl sources refresh": SAME,
    "vikingctl sources remove URI": "vikingctl sources remove {source}",
    "vikingctl import --from PROGRAM PATH": "vikingctl import --from mem0 {mem0}",
    "vikingctl import --from mem0 FILE": "vikingctl import --from mem0 {mem0}",
    "vikingctl import --from openviking DIR": "vikingctl import --from openviking {openviking}",
    "vikingctl export URI --to PATH": "vikingctl export viking://resources --to out",
    "vikingctl export URI --to DIR": "vikingctl export viking://resources --to out",
    "vikingctl export URI --to memories.jsonl": (
        "vikingctl export viking://user/memories --to memories.jsonl"
    ),
    "vikingctl export viking://user/memories --to mine.jsonl": (
        "vikingctl export viking://user/memories --to written.jsonl"
    ),
    "vikingctl put URI": "vikingctl put viking://resources/a.md --content Assam",
    "vikingctl help": SAME,
    "vikingctl help options": SAME,
    "vikingctl get URI": "vikingctl get {tea}",
    "vikingctl get URI --lines 12:40": "vikingctl get {tea} --lines 1:40",
    "vikingctl ls URI": "vikingctl ls viking://resources",
    "vikingctl tree URI": "vikingctl tree viking://resources",
    "vikingctl symbols URI": "vikingctl symbols viking://resources",
    "vikingctl grep PATTERN [URI]": "vikingctl grep 'oo?long' viking://resources",
    "vikingctl glob PATTERN [URI]": "vikingctl glob '**/*.md' viking://resources",
    "vikingctl rm [-r] URI...": "vikingctl rm -r --yes viking://resources",
    "vikingctl rm": "vikingctl rm {tea}",
    "vikingctl mv SOURCE DESTINATION": "vikingctl mv {tea} viking://resources/moved.md",
    "vikingctl mv": "vikingctl mv {tea} viking://resources/moved.md",
    "vikingctl link A B": "vikingctl link {tea} {other}",
    "vikingctl unlink A B": "vikingctl unlink {tea} {linked}",
    "vikingctl health": SAME,
    "vikingctl version": SAME,
    "vikingctl completion SHELL": "vikingctl completion bash",
    "vikingctl COMMAND --help": "vikingctl find --help",
    "vikingctl stats": SAME,
    "vikingctl verify": SAME,
    "vikingctl optimize": SAME,
    "vikingctl backup": "vikingctl backup copy",
    "vikingctl backup PATH": "vikingctl backup copy",
    "vikingctl keys create": "vikingctl keys create --user ana --read viking://resources",
    "vikingctl keys rotate ID": "vikingctl keys rotate {key}",
    "vikingctl keys list": SAME,
    "vikingctl keys revoke ID": "vikingctl keys revoke {key}",
    "vikingctl tenants create NAME": "vikingctl tenants create {new}",
    "vikingctl tenants limit NAME": "vikingctl tenants limit {tenant} --limit contexts=10",
    "vikingctl tenants list": SAME,
    "vikingctl tenants stats NAME": "vikingctl tenants stats {tenant}",
    "vikingctl tenants delete NAME": "vikingctl tenants delete {tenant} --yes",
    "vikingctl models list": SAME,
}
"""Commands of vikingctl that run in this process, on a daemon with a small tree."""

SERVED: dict[str, Sequence[str]] = {
    "vikingd serve": (),
    "vikingd serve --accept-data-loss": (),
    "vikingd serve --gateway 127.0.0.1:7717": ("--gateway", "127.0.0.1:0"),
    "vikingd serve --reembed": (),
    "vikingd serve --processes auto": ("--processes", "auto"),
    "VIKINGD_TRACING=1 OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 vikingd serve": (),
    "VIKINGD_TRACING=1 OTEL_TRACES_EXPORTER=console vikingd serve": (),
}
"""Starts of a daemon; the options follow, or replace an address. The first one is quick."""

_RANDOM = "pytest -m deep tests/integrations/test_integrations_langgraph_random.py"
_BENCH = "python -m benchmarks."
_STORE = "vikingctl backup copy && vikingd restore copy --path data && "

QUICK: dict[str, str] = {
    _BENCH + "goals FILE...": _BENCH + "goals {rows}",
    'vikingctl find "tea" -o uri | xargs -n1 vikingctl get': SAME,
    "vikingd config": "{} --config /dev/null",
    "cat > session.json <<'END'\n"
    '{"id": "monday", "messages": [{"role": "user", "content": "I moved to Lyon. I prefer oolong '
    'to coffee.",\n  "time": "2026-03-02T09:30:00Z"}]}\n'
    "END": SAME,
    "openssl x509 -noout -subject -nameopt RFC2253": (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj /CN=Ana "
        "-keyout key.pem -out cert.pem && {} -in cert.pem"
    ),
    "python proto/generate.py": "{} --check",
}
"""Commands in a shell that take little processor time."""

DEEP: dict[str, str] = {
    _BENCH + "confidence --datasets DIR": (
        _BENCH
        + "quality --datasets {sets} --store {work}/kept && "
        + _BENCH
        + "confidence --datasets {sets} --store {work}/kept"
    ),
    _BENCH + "ablations --datasets DIR": (
        _BENCH
        + "quality --datasets {sets} --store {work}/kept && "
        + _BENCH
        + "ablations --datasets {sets} --store {work}/kept"
    ),
    _BENCH + "contexts --datasets DIR": _BENCH + "contexts --datasets {sets} --store {work}/kept",
    _BENCH + "doors": "{} --nodes 300 --rounds 1 --calls 2",
    _BENCH + "embedding": "{} --quick",
    _BENCH + "exactness DIR": _BENCH + "exactness {sets}/harbour --provider none",
    _BENCH + "extraction": SAME,
    _BENCH + "extraction --datasets DIR": _BENCH + "extraction --datasets {sets}",
    _BENCH + "files DIR": _BENCH + "files {root}/tests/ingest/files",
    _BENCH + "files DIR --peers OUT": (
        "mkdir -p {work}/out/other && echo harbour > {work}/out/other/report-en.docx.md && "
        + _BENCH
        + "files {root}/tests/ingest/files --peers {work}/out"
    ),
    _BENCH + "hooks": "{} --nodes 20 --memories 40 --rounds 2",
    _BENCH + "latency": "{} --nodes 300 --seconds .05 --only put_batch_500 find_exact "
    "retrieve_keyword recall start_seconds reader_lag",
    _BENCH + "latency --nodes 10000 100000": "{} --nodes 300 --seconds .05 --only find_exact",
    _BENCH + "life": "{} --provider none",
    _BENCH + "nodes --postgres URL": _BENCH + "nodes --postgres {postgres} --nodes 300 --seconds 1",
    _BENCH + "nodes --nodes 10000 100000 --postgres URL": (
        _BENCH + "nodes --nodes 300 --postgres {postgres} --starts"
    ),
    _BENCH + "overload": "{} --files 2000 --clients 2 --seconds .3 --only 'Find 1,000'",
    _BENCH + "page": "{} --directories 5 --files 2 --rounds 1",
    _BENCH + "peers": "{} --nodes 300 --seconds .05",
    _BENCH + "processes": "{} --nodes 300 --rounds 1 --seconds .2",
    _BENCH + "quality --datasets DIR": _BENCH + "quality --datasets {sets} --store {work}/kept",
    _BENCH + "quality --datasets DIR --recall": _BENCH + "quality --datasets {sets} --recall",
    _BENCH + "remember": "{} --entries 20 --rounds 1",
    _BENCH + "stages": "{} --nodes 300 --rounds 1 --calls 5",
    _BENCH + "tenants": "{} --tenants 4 --contexts 5 --clients 2 --seconds 1",
    _BENCH + "tenants --pause 0.5 --seconds 60": "{} --tenants 4 --contexts 5 --clients 2 "
    "--pause .01 --seconds 1",
    "pytest benchmarks": "{} --nodes 300 --benchmark-disable --timeout 1800",
    "SOAK_SECONDS=600 pytest -m soak": (
        "SOAK_SEED=1 SOAK_SECONDS=1 pytest -m soak tests/engine/test_soak.py"
    ),
    "TEST_SEED=8 TEST_CHANGES=3000 pytest -m deep tests/client/test_watch_random.py": (
        "TEST_SEED=8 TEST_CHANGES=60 pytest -m deep tests/client/test_watch_random.py"
    ),
    f"TEST_OPERATIONS=10000 {_RANDOM}": f"TEST_OPERATIONS=400 {_RANDOM}",
    ".ci/coverage": "{} -n0 tests/project/test_programs.py",
    "python -m tests.chaos --minutes 60 --seed 7": "{} --minutes .05 --steps 1 --vaults 1",
    "python -m tests.chaos --minutes 10 --only kills --seed 7": "{} --steps 1",
    "python -m tests.chaos --only damage --seed 7 --first 38 --steps 1": SAME,
    "python -m tests.chaos table": "{} --only Retrieve",
    "python -m tests.chaos --only logs --only rows --only bits --only older --steps 500 "
    "--minutes 100": "{} --steps 1 --vaults 1",
    "python -m tests.chaos churn --minutes 60": "{} --minutes .05",
    "python -m tests.chaos churn --minutes 60 --postgres": "{} --minutes .05",
    "python -m tests.cluster --rounds 200 --seed 28": "{} --rounds 1 --writers 2 --readers 2",
    "python -m tests.cluster --rounds 200": "{} --rounds 1 --writers 2 --readers 2",
    "python -m tests.cluster --rounds 20 --only waits": "{} --rounds 1 --writers 2 --readers 2",
    "python -m tests.cluster --rounds 20 --only async": "{} --rounds 1 --writers 2 --readers 2",
    "python -m tests.kept_replies record FILE": (
        "python -m tests.kept_replies record {work}/kept --only sqlite"
    ),
    "python -m tests.kept_replies compare FILE": (
        "python -m tests.kept_replies record {work}/kept --only sqlite && "
        "python -m tests.kept_replies compare {work}/kept --only sqlite"
    ),
    "python -m tests.ctl.terminal_outputs": "{} {work}/outputs",
    "python make_mem0.py mem0.json": (
        "cd {work} && python {root}/tests/ingest/migrations/make_mem0.py mem0.json"
    ),
    "vikingctl demo": "{} --json",
    "vikingctl reembed": "{} --yes --address {embedding}",
    "vikingctl hook": "{} < /dev/null",
    "vikingctl mcp": "{} < /dev/null",
    "vikingctl copy --from DIR --to postgresql://...": (
        _STORE + "vikingctl copy --from data --to {postgres}"
    ),
    "vikingctl copy --from ./data --to postgresql://me@localhost/contexts": (
        _STORE + "vikingctl copy --from ./data --to {postgres}"
    ),
    "vikingd restore": "vikingctl backup copy && vikingd restore copy --path restored",
    "vikingd restore BACKUP --path DIR": (
        "vikingctl backup copy && vikingd restore copy --path restored"
    ),
}
"""Commands in a shell that take more of it."""

ELSEWHERE: dict[str, tuple[str, str]] = {
    _BENCH + "code CHECKOUTS": ("tests/answer/test_code_benchmark.py", "code.main("),
    _BENCH + "code CHECKOUTS --half test": ("tests/answer/test_code_benchmark.py", "code.main("),
    _BENCH + "documentation SOURCES DIR": (
        "tests/answer/test_documentation_set.py",
        "documentation.main([",
    ),
    "vikingctl agents install AGENT": (
        "tests/hooks/test_agents_install.py",
        'ctl("agents", "install", agent, "--write")',
    ),
    "vikingctl agents uninstall AGENT": (
        "tests/hooks/test_agents_install.py",
        'ctl("agents", "uninstall", agent, "--write")',
    ),
    "vikingctl agents list": ("tests/hooks/test_agents_install.py", 'ctl("agents", "list")'),
    "vikingctl doctor": ("tests/ctl/test_ctl_doctor.py", 'offline_ctl("doctor"'),
    "vikingctl describe": ("tests/daemon/test_describer.py", 'ctl("describe", NOTES'),
    "vikingctl describe [URI]": ("tests/daemon/test_describer.py", 'ctl("describe", NOTES'),
    "vikingctl describe --dry-run": (
        "tests/daemon/test_describer.py",
        'ctl("describe", "--dry-run")',
    ),
    "export VIKINGCTL_ADDRESS=user VIKINGD_ADDRESS=user": (
        "tests/daemon/test_user_daemon.py",
        '"VIKINGCTL_ADDRESS", "user"',
    ),
    "vikingctl stop": ("tests/daemon/test_user_daemon.py", 'ctl("stop")'),
    "python -m vikingd.daemon.user_daemon": (
        "tests/daemon/test_user_daemon.py",
        '"-m", "vikingd.daemon.user_daemon"',
    ),
    "vikingctl import PATH URI --watch": ("tests/client/test_watch.py", '"--watch"'),
    "vikingctl import --watch": ("tests/client/test_watch.py", '"--watch"'),
    "vikingctl import ./docs viking://resources/docs --watch": (
        "tests/client/test_watch.py",
        '"--watch"',
    ),
    "vikingctl import --from chroma DIR": (
        "tests/ingest/test_migrations_chroma.py",
        '"--from", "chroma"',
    ),
    "vikingctl import --from parquet PATH URI": (
        "tests/ingest/test_migrations_parquet.py",
        '"--from", "parquet"',
    ),
    "vikingd serve --reader": ("tests/nodes/test_reader.py", '"--reader")'),
    "vikingd gateway": ("tests/gateway/gateway_helpers.py", '"gateway", "--config"'),
    "vikingd gateway --listen ADDRESS --daemon ADDRESS": (
        "tests/gateway/gateway_helpers.py",
        '"gateway", "--config"',
    ),
    "vikingctl models pull NAME": ("tests/models/test_models_pull.py", '"models", "pull"'),
    "vikingctl models pull multilingual-e5-small": (
        "tests/models/test_models_pull.py",
        '"models", "pull"',
    ),
    "vikingctl models pull BAAI/bge-m3": ("tests/models/test_models_pull.py", '"models", "pull"'),
    "vikingctl models pull ORG/NAME --revision COMMIT": (
        "tests/models/test_models_pull.py",
        '"--revision"',
    ),
    "npx buf generate PROTO": ("tests/gateway/node_helpers.py", "generate"),
    "npx buf generate SITE --path SITE/google/rpc/error_details.proto": (
        "tests/gateway/node_helpers.py",
        "generate",
    ),
}
"""Commands that a test of their room runs: its file, and words of it."""

CANNOT: dict[str, Sequence[str]] = {
    "installs packages, which .ci/run does in an environment of its own": (
        r"python3 -m venv \.venv",
        r"\. \.venv/bin/activate",
        r"(python3 -m )?pip install .*",
        r"npm install .*",
    ),
    "is the run of the tests itself": (r"pytest( -m deep)?", r"\.ci/(run|check)( .*)?"),
    "needs the network": (r"pytest -m registry", r"vikingctl import https://.*"),
    "needs a program or a model of others, which the packages do not bring": (
        r"python make_openviking\.py .*",
        r"python benchmarks/file_peers\.py .*",
        r"python -m pytest -s tests/answer/smoke_planner\.py",
        r"VIKINGD_EMBEDDING__ONNX_MODEL=multilingual-e5-small vikingd serve --provider onnx",
    ),
    "needs root and an emulated machine": (r"python -m tests\.arm64",),
}
"""Patterns of commands that cannot run here, by the reason."""


def documented() -> dict[str, str]:
    """Return each command with the first guide that has it."""
    return {
        command: str(path.relative_to(ROOT))
        for path in reversed(guides())
        for command in reversed([*commands(path.read_text(encoding="utf-8"))])
    }


def unmatched(patterns: Iterable[str], told: Iterable[str]) -> list[str]:
    """Return the patterns that match no command."""
    told = list(told)
    return [one for one in patterns if not any(re.fullmatch(one, each) for each in told)]
