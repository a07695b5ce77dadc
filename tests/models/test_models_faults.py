"""Pulls from a hub that lies, fails, breaks off or is silent: a clear error, and nothing half."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.access.tls_helpers import Authority
from tests.models.hub_server import Fault, HubServer, Reply, Request
from tests.models.pull_helpers import GRAPH, NAME, REPOSITORY, Ctl, PinnedHub, assert_answers, left
from tests.patience import eventually
from vikingd.system.install_command import install_command

CUT = 40_000


def of_store(change: Callable[[Reply], Reply]) -> Fault:
    """Return a fault of the host with the large files."""
    return lambda request, reply: change(reply) if request.place == "store" else reply


def of_entries(change: Callable[[Reply], Reply]) -> Fault:
    """Return a fault of the entry of the graph."""

    def fault(request: Request, reply: Reply) -> Reply:
        is_one = request.method == "HEAD" and request.path.endswith(f"/{GRAPH}")
        return change(reply) if is_one else reply

    return fault


def of_config(change: Callable[[Reply], Reply]) -> Fault:
    """Return a fault of the content of a small file."""

    def fault(request: Request, reply: Reply) -> Reply:
        is_one = request.method == "GET" and request.path.endswith("/config.json")
        return change(reply) if is_one else reply

    return fault


def spoiled(reply: Reply) -> Reply:
    """Return a reply whose last byte is another one."""
    return replace(reply, body=reply.body[:-1] + b"~")


def without(*names: str) -> Callable[[Reply], Reply]:
    """Return a change that leaves out headers."""

    def change(reply: Reply) -> Reply:
        return replace(reply, headers={k: v for k, v in reply.headers.items() if k not in names})

    return change


def html(reply: Reply) -> Reply:
    """Return a page of a proxy in place of a reply."""
    return Reply(200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>" + reply.body[6:])


HASH = "0" * 64

FAULTS: dict[str, tuple[Fault, int, str]] = {
    "another content": (of_store(spoiled), 1, "came with another content than that of the hash"),
    "another small content": (of_config(spoiled), 1, "config.json of org/tiny came with another"),
    "another hash": (
        of_entries(lambda reply: reply.but(X_Linked_Etag=f'"{HASH}"')),
        1,
        f"the hub says the SHA-256 {HASH} of {GRAPH}",
    ),
    "another size": (
        of_entries(lambda reply: reply.but(X_Linked_Size="12")),
        1,
        f"the hub says 12 bytes of {GRAPH}",
    ),
    "a longer content": (
        of_store(lambda reply: replace(reply, body=reply.body + b"~")),
        1,
        " bytes, not ",
    ),
    "a longer content without a size": (
        of_store(lambda reply: replace(reply, body=reply.body + b"~", unsized=True)),
        1,
        "has more than ",
    ),
    "no commit": (of_entries(without("X-Repo-Commit")), 1, "without X-Repo-Commit"),
    "another commit": (
        of_entries(lambda reply: reply.but(X_Repo_Commit="1" * 40)),
        1,
        "is of the commit 1111111111",
    ),
    "no hash": (of_entries(without("X-Linked-Etag")), 1, "has the ETag ''"),
    "a hash that is a path": (
        of_entries(lambda reply: reply.but(X_Linked_Etag='"../../../x"')),
        1,
        "has the ETag '../../../x'",
    ),
    "a size that is none": (
        of_entries(lambda reply: reply.but(X_Linked_Size="-1")),
        1,
        "has no size",
    ),
    "a page for the entry": (of_entries(html), 1, "does not answer like a hub"),
    "a page for the content": (of_store(html), 1, "is an HTML page"),
    "redirects of the entry": (
        lambda request, _: Reply(302, {"Location": request.path}),
        1,
        "redirects more than 5 times",
    ),
    "redirects of the content": (
        of_store(lambda _: Reply(302, {"Location": "/again"})),
        1,
        "redirects more than 5 times",
    ),
    "a redirect to a file": (
        lambda request, reply: (
            Reply(302, {"Location": "file:///etc/passwd"}) if request.method == "GET" else reply
        ),
        1,
        "protocol",
    ),
    "401": (of_entries(lambda _: Reply(401)), 5, "(401): it does not exist, or needs a token"),
    "403": (of_entries(lambda _: Reply(403)), 5, "(403): it does not exist, or needs a token"),
    "403 of the store": (of_store(lambda _: Reply(403)), 3, "answers 403"),
    "404 of the repository": (
        of_entries(lambda _: Reply(404, {"X-Error-Code": "RepoNotFound"})),
        4,
        "has no org/tiny",
    ),
    "404 of the revision": (
        of_entries(lambda _: Reply(404, {"X-Error-Code": "RevisionNotFound"})),
        4,
        "has no org/tiny at ",
    ),
    "404": (of_entries(lambda _: Reply(404)), 4, f"the hub has no {GRAPH} of org/tiny"),
    "404 of the store": (of_store(lambda _: Reply(404)), 4, "does not exist"),
    "418": (of_entries(lambda _: Reply(418)), 1, "answers 418"),
    "429": (of_entries(lambda _: Reply(429)), 3, "answers 429"),
    "429 for an hour": (
        of_store(lambda _: Reply(429, {"Retry-After": "3600"})),
        3,
        "answers 429, and asks to wait 3,600 s",
    ),
    "500": (of_entries(lambda _: Reply(500)), 3, "answers 500"),
    "503 of the store": (of_store(lambda _: Reply(503)), 3, "answers 503"),
    "another range": (
        of_store(lambda reply: replace(reply, status=206).but(Content_Range="bytes 7-9/10")),
        1,
        "with the range 'bytes 7-9/10'",
    ),
    "nothing of the content": (of_store(lambda reply: replace(reply, cut=0)), 3, "/resolve/"),
}


@pytest.mark.deep_after(3)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_and_leaves_nothing(hub: PinnedHub, offline_ctl: Ctl, fault: str) -> None:
    """Each fault has its error and exit code, and leaves no wrong file and no part of one.

    The same command pulls the model once the fault is gone.
    """
    hub.fault, expected, message = FAULTS[fault]
    code, out, err = offline_ctl("models", "pull", NAME)
    assert (code, out) == (expected, ""), err
    assert err.startswith("error: ")
    assert message in err
    assert "secret" not in err
    assert left() <= {f"models--org--tiny/blobs/{name}" for name in hub.good_blobs()}
    assert not hub.snapshot.exists()
    hub.fault = None
    code, out, err = offline_ctl("models", "pull", NAME)
    assert (code, out) == (0, f"{hub.snapshot}\n"), err
    assert_answers()


def test_a_changed_commit_is_noticed(hub: PinnedHub, offline_ctl: Ctl) -> None:
    """A hub that serves another content of a pinned commit, with a right ETag, is not believed."""
    changed = hub.files["config.json"].replace(b"32", b"64")
    hub.change(REPOSITORY, hub.model.revision, "config.json", changed)
    code, _, err = offline_ctl("models", "pull", NAME)
    assert code == 1
    assert "config.json of org/tiny came with another content" in err
    assert not any("incomplete" in path or "snapshots" in path for path in left())


def test_a_hub_that_asks_to_wait_for_an_hour_is_asked_once(
    hub: PinnedHub, offline_ctl: Ctl
) -> None:
    """A pull does not wait for longer than a minute, and does not ask again before."""
    hub.fault = of_entries(lambda _: Reply(429, {"Retry-After": "3600"}))
    code, _, err = offline_ctl("models", "pull", NAME)
    assert (code, len(hub.sent(GRAPH, "HEAD"))) == (3, 1)
    assert "asks to wait 3,600 s" in err


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_silent_hub_is_left(
    hub: PinnedHub, offline_ctl: Ctl, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The hub's own variables limit the wait for a hub that says nothing for a while."""
    variable = {"HEAD": "HF_HUB_ETAG_TIMEOUT", "GET": "HF_HUB_DOWNLOAD_TIMEOUT"}[method]
    monkeypatch.setenv(variable, "0.3")
    hub.fault = lambda request, reply: (
        replace(reply, after=3.0) if request.method == method else reply
    )
    code, _, err = offline_ctl("models", "pull", NAME)
    assert (code, left()) == (3, set())
    assert "nothing came for 0.3 s" in err
    monkeypatch.delenv(variable)
    hub.fault = None
    assert offline_ctl("models", "pull", NAME)[0] == 0
    assert_answers()


def test_an_unreachable_hub_is_told(
    offline_ctl: Ctl, hub: PinnedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub that nobody serves is an error with its address, as text and as JSON."""
    with socket.socket() as taken:  # not listening
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", url)
        code, _, err = offline_ctl("models", "pull", NAME)
        assert (code, left()) == (3, set())
        assert err.startswith(f"error: {url}/org/tiny/resolve/")
        told = json.loads(offline_ctl("models", "pull", NAME, "--json")[2])
    assert (told["code"], told["reason"]) == ("UNAVAILABLE", "HUB_UNAVAILABLE")
    assert hub.requests == []


# What may pass


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_fault_is_waited_for(hub: PinnedHub, offline_ctl: Ctl, status: int) -> None:
    """Three refusals in a row, of each entry and of a content, do not end a pull."""
    refused: Counter[tuple[str, str]] = Counter()

    def fault(request: Request, reply: Reply) -> Reply:
        key = request.method, request.path
        if (request.method == "HEAD" or request.place == "store") and refused[key] < 3:
            refused[key] += 1
            return Reply(status, {"Retry-After": "0.01"})
        return reply

    hub.fault = fault
    code, _, err = offline_ctl("models", "pull", NAME)
    assert code == 0, err
    assert set(refused.values()) == {3}
    assert_answers()


@pytest.mark.deep
def test_a_slow_hub_is_borne(
    hub: PinnedHub, offline_ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A content that takes longer than the limit of a wait is received whole."""
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "1")
    hub.fault = of_store(lambda reply: replace(reply, pause=0.1))
    code, _, err = offline_ctl("models", "pull", NAME)
    assert code == 0, err
    assert len(hub.sent(hub.sha256)) == 1
    assert_answers()


def test_a_pull_goes_on_where_its_connection_broke(hub: PinnedHub, offline_ctl: Ctl) -> None:
    """A connection that breaks again and again is taken up at the byte where it broke."""
    hub.fault = of_store(lambda reply: replace(reply, cut=CUT))
    code, _, err = offline_ctl("models", "pull", NAME)
    assert code == 0, err
    asked = [request.headers.get("range") for request in hub.sent(hub.sha256)]
    assert asked == [None, *(f"bytes={n * CUT}-" for n in range(1, len(hub.graph) // CUT + 1))]
    assert_answers()


def test_the_next_pull_goes_on_where_the_last_ended(hub: PinnedHub, offline_ctl: Ctl) -> None:
    """A hub that sends nothing more ends a pull; its part is the beginning of the next one."""

    def fault(request: Request, reply: Reply) -> Reply:
        return replace(reply, cut=0 if "range" in request.headers else CUT)

    hub.fault = lambda request, reply: fault(request, reply) if request.place == "store" else reply
    code, _, _ = offline_ctl("models", "pull", NAME)
    assert (code, hub.part.read_bytes()) == (3, hub.graph[:CUT])
    assert not hub.snapshot.exists()
    assert hub.sha256 not in {path.rpartition("/")[2] for path in left()}
    hub.fault = None
    hub.requests.clear()
    assert offline_ctl("models", "pull", NAME)[0] == 0
    stored = [request.headers.get("range") for request in hub.requests if request.place == "store"]
    assert stored == [f"bytes={CUT}-"]
    assert not hub.part.exists()
    assert_answers()


@pytest.mark.parametrize(
    "part",
    [
        lambda graph: b"~" + graph[1:CUT],
        lambda graph: b"~" + graph[1:],
        lambda graph: graph + b"~",
        lambda _: b"",
        lambda graph: graph,
    ],
    ids=["damaged", "damaged whole", "too long", "empty", "whole"],
)
def test_a_part_of_another_program_is_used_if_it_is_sound(
    hub: PinnedHub, offline_ctl: Ctl, part: Callable[[bytes], bytes]
) -> None:
    """A part that turns out to be wrong is received again in the same pull."""
    hub.part.parent.mkdir(parents=True)
    hub.part.write_bytes(part(hub.graph))
    code, _, err = offline_ctl("models", "pull", NAME)
    assert code == 0, err
    assert_answers()
    assert not hub.part.exists()


@pytest.mark.parametrize("way", ["whole", "416"])
def test_a_store_without_ranges_sends_all_again(hub: PinnedHub, offline_ctl: Ctl, way: str) -> None:
    """A store that ignores or refuses ranges sends the whole content, once more."""
    hub.part.parent.mkdir(parents=True)
    hub.part.write_bytes(hub.graph[:CUT])

    def fault(request: Request, reply: Reply) -> Reply:
        if request.place == "hub" or "range" not in request.headers:
            return reply
        return Reply(416) if way == "416" else Reply(200, {}, hub.graph)

    hub.fault = fault
    code, _, err = offline_ctl("models", "pull", NAME)
    assert code == 0, err
    assert_answers()


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_pull_leaves_only_a_part(
    hub: PinnedHub, offline_ctl: Ctl, number: signal.Signals
) -> None:
    """Ctrl-C and kills leave the part that came, which the next pull uses; no file is visible."""
    hub.fault = of_store(lambda reply: replace(reply, pause=0.05))
    commit = hub.model.revision
    command = ["-m", "vikingd.ctl.main", "models", "pull", REPOSITORY, "--revision", commit]
    pull = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True)
    eventually(lambda: hub.part.exists() and hub.part.stat().st_size)
    pull.send_signal(number)
    _, err = pull.communicate(timeout=60)
    assert pull.returncode == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGINT:
        assert err.endswith("interrupted; the same command goes on where it ended\n")
    size = hub.part.stat().st_size
    assert hub.graph.startswith(hub.part.read_bytes())
    assert not hub.snapshot.exists()
    hub.fault = None
    hub.requests.clear()
    assert offline_ctl("models", "pull", REPOSITORY)[0] == 0
    stored = [request.headers.get("range") for request in hub.requests if request.place == "store"]
    assert f"bytes={size}-" in stored
    assert_answers()


# Refusals before any request


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["e6"], "NAME: 'e6' is not one of multilingual-e5-small"),
        (["../x"], "NAME: '../x' is not ORG/NAME"),
        (["a/.."], "NAME: 'a/..' is not ORG/NAME"),
        (["a/b/c"], "NAME: 'a/b/c' is not ORG/NAME"),
        (["a/b?c"], "NAME: 'a/b?c' is not ORG/NAME"),
        (["/etc"], "NAME: '/etc' is not ORG/NAME"),
        (["a/b", "--revision", "../../x"], "the revision '../../x' is no commit"),
        ([NAME, "--revision", "main"], "--revision: a name has its own revision"),
    ],
)
def test_names_are_checked_before_any_request(
    hub: PinnedHub, offline_ctl: Ctl, arguments: list[str], message: str
) -> None:
    """An unknown name, and one that could leave the cache, is an error of usage."""
    code, _, err = offline_ctl("models", "pull", *arguments, "--json")
    assert (code, hub.requests, left()) == (2, [], set())
    assert message in json.loads(err)["message"]


@pytest.mark.parametrize(
    ("variables", "code", "message"),
    [
        ({"HF_HUB_OFFLINE": "1"}, 3, "HF_HUB_OFFLINE is set"),
        ({"HF_ENDPOINT": "ftp://hub"}, 1, "HF_ENDPOINT is 'ftp://hub', not https://HOST"),
        ({"HF_ENDPOINT": "hub"}, 1, "HF_ENDPOINT is 'hub', not https://HOST"),
        ({"HF_ENDPOINT": "http://hub:x"}, 1, "HF_ENDPOINT is no URL"),
        (
            {"HF_ENDPOINT": "http://hub.example", "HF_TOKEN": "hf_secret"},
            1,
            "HF_TOKEN would go to http://hub.example in plain text",
        ),
        ({"HF_TOKEN": "hf_secret\u2026"}, 1, "HF_TOKEN has characters that are in no token"),
        ({"SSL_CERT_FILE": "/missing"}, 1, "SSL_CERT_FILE or SSL_CERT_DIR cannot be used"),
        ({"HF_HUB_ETAG_TIMEOUT": "soon"}, 1, "HF_HUB_ETAG_TIMEOUT is 'soon'"),
        ({"HF_HUB_DOWNLOAD_TIMEOUT": "-1"}, 1, "HF_HUB_DOWNLOAD_TIMEOUT is '-1'"),
    ],
)
def test_variables_are_checked_before_any_request(
    hub: PinnedHub,
    offline_ctl: Ctl,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    code: int,
    message: str,
) -> None:
    """A variable that cannot be used is named; offline, no hub is asked."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ended, _, err = offline_ctl("models", "pull", NAME)
    assert (ended, hub.requests, left()) == (code, [], set())
    assert message in err
    assert "hf_secret" not in err


def test_a_pull_without_its_library_names_the_extra(
    hub: PinnedHub, offline_ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client alone lists models; a pull names the packages that it needs."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    for module in ("pull", "hub_client"):
        monkeypatch.delitem(sys.modules, f"vikingd.models.hub.{module}", raising=False)
    assert NAME in offline_ctl("models", "list")[1]
    code, _, err = offline_ctl("models", "pull", NAME)
    assert (code, hub.requests) == (1, [])
    command = install_command("server,onnx")
    assert err == f"error: httpx is not installed; install it with: {command}\n"


# The disk


def test_a_cache_that_cannot_be_written_is_named(
    hub: PinnedHub, offline_ctl: Ctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache below a file is an error with its path."""
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("HF_HUB_CACHE", str(file / "hub"))
    code, _, err = offline_ctl("models", "pull", NAME)
    assert code == 1
    assert str(file) in err
    assert hub.sent(GRAPH) == []
    assert "Not a directory" in err


def test_a_model_larger_than_the_disk_is_refused(hub: PinnedHub, offline_ctl: Ctl) -> None:
    """Files that do not fit are refused before any of them is received."""
    hub.fault = of_entries(lambda reply: reply.but(X_Linked_Size=str(10**15)))
    code, _, err = offline_ctl("models", "pull", REPOSITORY)
    assert (code, left()) == (1, set())
    assert "bytes free, and 1,000,000,0" in err
    assert "HF_HUB_CACHE names another directory" in err


# TLS


def test_a_redirect_out_of_tls_is_refused(
    hub: PinnedHub, offline_ctl: Ctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub with TLS needs a certificate of a known authority, and may not redirect to plain HTTP.

    Small files, which the hub serves itself, come by TLS.
    """
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.signed("hub", "IP:127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with HubServer(context) as secure:
        monkeypatch.setenv("HF_ENDPOINT", secure.url)
        secure.add("org/small", hub.files, large=10**9)
        code, _, err = offline_ctl("models", "pull", "org/small")
        assert (code, left()) == (3, set())
        assert "CERTIFICATE_VERIFY_FAILED" in err
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        assert offline_ctl("models", "pull", "org/small")[0] == 0
        secure.add(REPOSITORY, hub.files)
        code, _, err = offline_ctl("models", "pull", NAME)
        assert (code, hub.snapshot.exists()) == (1, False)
        assert "redirects to plain HTTP, which is refused" in err
