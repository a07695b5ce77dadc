"""The callers of the gateway: keys, tenants, sessions, and pages of other origins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.daemons import serving
from tests.gateway.gateway_helpers import JSON, Gateway, gateway_of, reason
from tests.patience import eventually
from vikingd.client import Client, ClientError, Draft
from vikingd.client.messages import MessageClient
from vikingd.gateway import callers
from vikingd.gateway.callers import Callers, Sessions
from vikingd.gateway.http_errors import HTTP, Fault

OPEN, HIDDEN = "viking://resources/open/a.md", "viking://resources/hidden/a.md"
ACME = "viking://resources/acme.md"
EVERYWHERE = ("--listen", "0.0.0.0:0", "--trust-network")


class Keys(NamedTuple):
    """A daemon and its keys."""

    address: str
    operator: str
    reader: str  # of viking://resources/open
    acme: str  # of another tenant
    expired: str
    revoked: str


@pytest.fixture(scope="module")
def keys() -> Iterator[Keys]:
    """Yield a daemon with keys and two tenants."""
    with serving("--provider", "none") as where:
        with Client(where) as first:
            operator = first.create_key(operator=True).secret
        with Client(where, key=operator) as client:
            client.put([Draft(OPEN, content="open"), Draft(HIDDEN, content="hidden")])
            reader = client.create_key(read=("viking://resources/open",)).secret
            soon = timedelta(seconds=1)
            expired = client.create_key(read=("viking://",), expires_in=soon).secret
            revoked = client.create_key(read=("viking://",))
            client.revoke_key(revoked.key.id)
            client.put_tenant("acme", create=True)
        with Client(where, key=operator, tenant="acme") as client:
            client.put([Draft(ACME, content="acme")])
            acme = client.create_key(read=("viking://",)).secret
        time.sleep(1)
        yield Keys(where, operator, reader, acme, expired, revoked.secret)


@pytest.fixture(scope="module")
def guarded(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Yield a gateway of the daemon with keys."""
    with gateway_of(keys.address, tmp_path_factory.mktemp("guarded")) as made:
        yield made


@pytest.fixture(scope="module")
def public(daemon: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Yield a gateway that other machines reach, of a daemon without keys."""
    with gateway_of(daemon, tmp_path_factory.mktemp("public"), *EVERYWHERE) as made:
        yield made


def bearer(key: str) -> str:
    """Return the value of `authorization` for a key."""
    return f"Bearer {key}"


def sign_in(gateway: Gateway, key: str, tenant: str = "", **headers: str) -> httpx.Response:
    """Sign in; the cookies are those of the reply alone."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"key": key, "tenant": tenant} if tenant else {"key": key}
    reply = gateway.http.post("/session", json=body, headers=named)
    gateway.http.cookies.clear()
    return reply


def cookie_of(reply: httpx.Response) -> str:
    """Return the value of `cookie` for the session of a reply."""
    ((name, morsel),) = SimpleCookie(reply.headers["set-cookie"]).items()
    return f"{name}={morsel.value}"


@pytest.mark.parametrize("count", [3, pytest.param(None, marks=pytest.mark.deep)])
def test_a_call_needs_a_valid_key(guarded: Gateway, keys: Keys, count: int | None) -> None:
    """No key, a wrong, an expired and a revoked one are 401, a right one is 200."""
    wrong = keys.reader[:-4] + ("aaaa" if not keys.reader.endswith("aaaa") else "bbbb")
    for key in (wrong, keys.expired, keys.revoked, "vk_a", "ü", "a b")[:count]:
        value = bearer(key).encode()
        reply = guarded.http.post("/v1/get", json={"uri": OPEN}, headers={b"authorization": value})
        assert (reply.status_code, reason(reply)) == (401, "UNAUTHENTICATED"), key
        assert reply.headers["www-authenticate"] == "Bearer"
    values = (f"Basic {keys.reader}", keys.reader, "Bearer", f"Bearer {'a' * 300}")
    for value in values if count is None else ():  # many wrong keys wait
        assert guarded.post("get", {"uri": OPEN}, authorization=value).status_code == 401
    assert guarded.post("get", {"uri": OPEN}).status_code == 401
    for scheme in ("Bearer", "bearer"):
        reply = guarded.post("get", {"uri": OPEN}, authorization=f"{scheme} {keys.reader}")
        assert reply.status_code == 200


def test_rights_are_those_of_grpc(guarded: Gateway, keys: Keys) -> None:
    """An unreadable context is 404, and a forbidden act 403: the errors of gRPC."""
    requests: list[tuple[str, dict[str, Any]]] = [
        ("get", {"uri": OPEN}),
        ("get", {"uri": HIDDEN}),
        ("put", {"contexts": [{"uri": OPEN, "content": "x"}]}),
        ("delete", {"uris": [HIDDEN]}),
        ("stats", {}),
        ("backup", {}),
        ("list_keys", {}),
        ("list_tenants", {}),
        ("get", {"uri": "viking://~/notes"}),
    ]
    statuses = []
    with MessageClient(keys.address, key=keys.reader) as client:
        for rpc, fields in requests:
            reply = guarded.post(rpc, fields, authorization=bearer(keys.reader))
            statuses.append(reply.status_code)
            error = _error(client, rpc, fields)
            if error is None:
                assert reply.status_code == 200
            else:
                assert (reply.status_code, reason(reply)) == (HTTP[error.code], error.reason), rpc
    assert statuses == [200, 404, 403, 403, 403, 403, 403, 403, 400]


def _error(client: MessageClient, rpc: str, fields: dict[str, Any]) -> ClientError | None:
    """Return the error of the same call over gRPC; None without one."""
    if rpc == "delete":
        return _raised(lambda: client.delete(HIDDEN))
    if rpc == "put":
        return _raised(lambda: client.put([Draft(OPEN, content="x")]))
    if rpc == "backup":
        return _raised(lambda: list(client.backup()))
    return _raised(lambda: getattr(client, rpc)(**fields))


def _raised(call: Callable[[], object]) -> ClientError | None:
    try:
        call()
    except ClientError as error:
        return error
    return None


def test_tenants_are_named_by_a_header(guarded: Gateway, keys: Keys) -> None:
    """An operator names the tenant; others have that of their key."""

    def status(key: str, uri: str, **headers: str) -> int:
        reply = guarded.post("get", {"uri": uri}, authorization=bearer(key), **headers)
        return reply.status_code

    assert status(keys.operator, ACME) == 404
    assert status(keys.operator, ACME, vikingd_tenant="acme") == 200
    assert status(keys.operator, OPEN, vikingd_tenant="acme") == 404
    assert status(keys.acme, ACME) == 200
    assert status(keys.acme, OPEN, vikingd_tenant="default") == 401
    assert status(keys.operator, ACME, vikingd_tenant="nobody") == 404
    assert status(keys.operator, ACME, vikingd_tenant="a b") == 401


def test_other_machines_need_a_key(
    public: Gateway, daemon: str, gateway: Gateway, tmp_path: Path
) -> None:
    """A call without a key is not sent to a daemon that would take it for a local one."""
    put = {"contexts": [{"uri": OPEN, "content": "x"}]}
    with MessageClient(daemon) as client:
        client.delete(OPEN, allow_missing=True)
        for path in ("/v1/put", "/v1/backup", "/mcp"):
            reply = public.http.post(path, json=put if path == "/v1/put" else {})
            assert (reply.status_code, reason(reply)) == (401, "UNAUTHENTICATED"), path
        for path in ("/v1/find?q=a", "/v1/contexts/resources"):
            assert public.get(path).status_code == 401
        assert public.http.put("/v1/contexts/resources/a.md", json={}).status_code == 401
        assert public.http.delete("/v1/contexts/resources").status_code == 401
        assert OPEN not in [one.uri for one in client.tree()]
    assert public.get("/session").json()["keyNeeded"] is True
    assert public.get("/healthz").status_code == 200
    # The same call of this machine is sent, unless it comes through a proxy.
    assert gateway.get("/v1/find?q=a").status_code == 200
    assert gateway.get("/session").json()["keyNeeded"] is False
    for header in ("x_forwarded_for", "forwarded", "via"):
        assert gateway.get("/v1/find?q=a", **{header: "1.2.3.4"}).status_code == 401
    named = tmp_path / "named.toml"
    named.write_text("[gateway]\nhosts = ['viking.example.org']\n")
    with gateway_of(daemon, tmp_path, "--config", str(named)) as behind:
        assert behind.get("/v1/find?q=a").status_code == 401
        assert behind.get("/session").json()["keyNeeded"] is True


def test_a_session_keeps_the_key(guarded: Gateway, keys: Keys) -> None:
    """Whoever signs in has a cookie that scripts cannot read, and no key in any reply."""
    origin = guarded.url
    reply = sign_in(guarded, keys.reader, origin=origin)
    assert (reply.status_code, reply.json()) == (200, {"signedIn": True, "tenant": ""})
    ((name, morsel),) = SimpleCookie(reply.headers["set-cookie"]).items()
    assert name == f"vikingd-session-{guarded.host.rpartition(':')[2]}"
    assert morsel["httponly"]
    assert morsel["secure"]
    assert (morsel["samesite"], morsel["path"], morsel["domain"]) == ("Strict", "/", "")
    assert len(morsel.value) >= 43  # 256 random bits
    assert keys.reader not in reply.text + str(reply.headers)
    cookie = cookie_of(reply)
    assert guarded.post("get", {"uri": OPEN}, cookie=cookie).status_code == 200
    assert guarded.post("get", {"uri": HIDDEN}, cookie=cookie).status_code == 404
    shown = guarded.get("/session", cookie=cookie)
    assert shown.json() == {"signedIn": True, "tenant": "", "keyNeeded": False}
    assert keys.reader not in shown.text
    # A key of the request itself goes before the session.
    operator = bearer(keys.operator)
    found = guarded.post("get", {"uri": HIDDEN}, cookie=cookie, authorization=operator)
    assert found.status_code == 200

    out = guarded.http.delete("/session", headers={"cookie": cookie})
    assert (out.status_code, SimpleCookie(out.headers["set-cookie"])[name]["max-age"]) == (204, "0")
    again = guarded.post("get", {"uri": OPEN}, cookie=cookie)
    assert (again.status_code, reason(again)) == (401, "UNAUTHENTICATED")
    assert guarded.get("/session", cookie=cookie).json()["signedIn"] is False


def test_a_session_has_a_tenant(guarded: Gateway, keys: Keys) -> None:
    """The tenant of a session holds unless the request names another one."""
    cookie = cookie_of(sign_in(guarded, keys.operator, "acme"))
    assert guarded.post("get", {"uri": ACME}, cookie=cookie).status_code == 200
    other = guarded.post("get", {"uri": OPEN}, cookie=cookie, vikingd_tenant="default")
    assert other.status_code == 200
    assert sign_in(guarded, keys.operator, "nobody").status_code == 404
    assert sign_in(guarded, keys.acme, "default").status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        1,
        {},
        {"key": ""},
        {"key": 1},
        {"key": None},
        {"key": "a b"},
        {"key": "é"},
        {"key": "a" * 300},
        {"key": "a", "user": "b"},
        {"key": "a", "tenant": 3},
    ],
)
def test_a_bad_sign_in_is_told(guarded: Gateway, body: Any) -> None:
    """A sign-in has a key, and a tenant if it likes."""
    reply = guarded.http.post("/session", json=body)
    assert (reply.status_code, reason(reply)) == (400, "INVALID_FIELD")
    assert "set-cookie" not in reply.headers


def test_a_large_sign_in_is_refused(guarded: Gateway) -> None:
    """A sign-in is small."""
    reply = guarded.http.post("/session", content=b" " * 5000, headers=JSON)
    assert reply.status_code == 413


def test_a_refused_key_ends_its_session(guarded: Gateway, keys: Keys) -> None:
    """When the daemon refuses the key, the session is gone and the cookie is removed."""
    with Client(keys.address, key=keys.operator) as client:
        created = client.create_key(read=("viking://",))
        cookie = cookie_of(sign_in(guarded, created.secret))
        assert guarded.post("get", {"uri": OPEN}, cookie=cookie).status_code == 200
        client.revoke_key(created.key.id)
    reply = guarded.post("get", {"uri": OPEN}, cookie=cookie)
    assert reply.status_code == 401
    assert "Max-Age=0" in reply.headers["set-cookie"]
    assert guarded.get("/session", cookie=cookie).json()["signedIn"] is False
    assert "the session has ended" in guarded.get("/v1/find?q=a", cookie=cookie).text


def test_an_unknown_session_is_no_local_caller(gateway: Gateway) -> None:
    """A cookie of a session that has ended is 401, even where a call needs no key."""
    name = f"vikingd-session-{gateway.host.rpartition(':')[2]}"
    reply = gateway.get("/v1/find?q=a", cookie=f"{name}=AAAA")
    assert reply.status_code == 401
    assert f"{name}=;" in reply.headers["set-cookie"]
    assert gateway.get("/v1/find?q=a", cookie="other=1").status_code == 200


@pytest.mark.deep
def test_many_wrong_keys_are_slowed(keys: Keys, guarded: Gateway) -> None:
    """Wrong keys at the sign-in wait as those of gRPC do; right ones do not."""
    for _ in range(12):
        assert sign_in(guarded, "vk_wrong").status_code == 401
    started = time.perf_counter()
    assert sign_in(guarded, "vk_wrong").status_code == 401
    assert time.perf_counter() - started > 0.3
    started = time.perf_counter()
    assert sign_in(guarded, keys.reader).status_code == 200
    assert time.perf_counter() - started < 0.3


@pytest.mark.deep
def test_a_large_body_of_a_wrong_key_is_not_read(guarded: Gateway) -> None:
    """The daemon accepts the key before the gateway reads a large body."""
    head = (
        f"POST /v1/put HTTP/1.1\nhost: {guarded.host}\ncontent-type: application/json\n"
        "authorization: Bearer vk_wrong\ncontent-length: 1000000"
    )
    assert guarded.raw(head)[0] == 401  # without a byte of the body
    chunked = head.replace("content-length: 1000000", "transfer-encoding: chunked")
    chunk = b"19000\r\n" + b" " * 0x19000 + b"\r\n"
    assert guarded.raw(chunked, chunk)[0] == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"origin": "http://127.0.0.1"},
        {"origin": "{url}.evil.example"},
        {"origin": "ftp://{host}"},
        {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ],
)
def test_foreign_pages_may_not_call(
    guarded: Gateway, gateway: Gateway, daemon: str, keys: Keys, headers: dict[str, str]
) -> None:
    """A page of another origin can neither use a session nor a gateway that needs no key."""
    cookie = cookie_of(sign_in(guarded, keys.operator))
    put = {"contexts": [{"uri": "viking://resources/evil", "content": "x"}]}
    for door, more in ((guarded, {"cookie": cookie}), (gateway, {})):
        given = {k: v.format(url=door.url, host=door.host) for k, v in headers.items()} | more
        for method, path in (("POST", "/v1/put"), ("GET", "/v1/find?q=a"), ("POST", "/session")):
            body = put if path == "/v1/put" else None
            reply = door.http.request(method, path, json=body, headers=given)
            assert (reply.status_code, reason(reply)) == (403, "ORIGIN_NOT_ALLOWED")
            assert "access-control-allow-origin" not in reply.headers
        preflight = door.http.options("/v1/put", headers=given)
        assert preflight.status_code == 403
    with MessageClient(daemon) as client:
        assert "viking://resources/evil" not in [one.uri for one in client.tree()]


def test_the_own_page_may_call(gateway: Gateway) -> None:
    """A request of the own origin is answered, and so is a visit by a link."""
    for headers in (
        {"origin": gateway.url},
        {"origin": gateway.url.replace("http", "https")},  # a proxy ends the TLS
        {"origin": gateway.url, "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    ):
        assert gateway.http.get("/v1/find?q=a", headers=headers).status_code == 200
    localhost = gateway.host.replace("127.0.0.1", "localhost")
    own = {"host": localhost, "origin": f"http://{localhost}"}
    assert gateway.http.get("/v1/find?q=a", headers=own).status_code == 200


def test_named_origins_may_call(daemon: str, tmp_path: Path) -> None:
    """Pages of `origins` get the headers of CORS, after a preflight too; others do not."""
    named = tmp_path / "named.toml"
    named.write_text("[gateway]\norigins = ['https://app.example.org']\n")
    with gateway_of(daemon, tmp_path, "--config", str(named)) as gateway:
        origin = {"origin": "https://app.example.org", "sec-fetch-site": "cross-site"}
        asked = {**origin, "access-control-request-method": "PUT"}
        preflight = gateway.http.options("/v1/contexts/resources/a", headers=asked)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "https://app.example.org"
        assert "PUT" in preflight.headers["access-control-allow-methods"]
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in preflight.headers
        for path, status in (("/v1/find?q=a", 200), ("/v1/nothing", 404)):
            reply = gateway.http.get(path, headers=origin)
            assert reply.status_code == status
            assert reply.headers["access-control-allow-origin"] == "https://app.example.org"
            assert "etag" in reply.headers["access-control-expose-headers"]
            assert reply.headers["vary"] == "origin"
        other = {"origin": "https://app.example.org.evil.example"}
        assert gateway.http.get("/v1/find?q=a", headers=other).status_code == 403


def test_foreign_names_are_refused(gateway: Gateway, public: Gateway, tmp_path: Path) -> None:
    """A Host that is not one of the gateway is 421, which stops DNS rebinding."""
    port = gateway.host.rpartition(":")[2]
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "10.0.0.1", ""):
        reply = gateway.get("/v1/find?q=a", host=host)
        assert (reply.status_code, reason(reply)) == (421, "HOST_NOT_ALLOWED"), host
    for host in ("localhost", "LOCALHOST:9", f"127.0.0.1:{port}", "[::1]:80", "127.1.2.3"):
        assert gateway.get("/v1/find?q=a", host=host).status_code == 200, host
    assert gateway.raw("GET /healthz HTTP/1.0")[0] == 421
    assert gateway.raw(f"GET /healthz HTTP/1.1\nhost: {gateway.host}\nhost: evil")[0] == 400
    # Only a name can be rebound: an address is one of the machine.
    assert public.get("/healthz", host="10.0.0.1:80").status_code == 200
    assert public.get("/healthz", host="evil.example").status_code == 421
    named = tmp_path / "named.toml"
    named.write_text("[gateway]\nhosts = ['Viking.example.org']\n")
    with gateway_of("127.0.0.1:1", tmp_path, "--config", str(named)) as other:
        assert other.get("/session", host="viking.example.org").status_code == 200
        assert other.get("/session", host="x.viking.example.org").status_code == 421


def test_cookies_are_for_tls_unless_the_browser_would_drop_them(keys: Keys, tmp_path: Path) -> None:
    """The cookie is not Secure for plain HTTP to another machine alone, which is a trusted net."""
    with gateway_of(keys.address, tmp_path, *EVERYWHERE) as gateway:
        for host, scheme, secure in (
            ("10.0.0.1:80", "http", False),
            ("10.0.0.1:80", "https", True),
            ("127.0.0.1:80", "http", True),
            ("localhost", "http", True),
        ):
            reply = sign_in(gateway, keys.reader, host=host, origin=f"{scheme}://{host}")
            assert reply.status_code == 200, reply.text
            assert ("Secure" in reply.headers["set-cookie"]) == secure


def test_keys_are_in_no_log_and_no_error(guarded: Gateway, keys: Keys) -> None:
    """Whatever a caller does with a key, it is neither logged nor sent back."""
    key = keys.reader
    secret = key.rpartition("_")[2]
    cookie = cookie_of(sign_in(guarded, key))
    replies = [
        guarded.get(f"/v1/find?q=a&key={key}", authorization=bearer(key)),
        guarded.get("/v1/find?q=a", authorization=key),
        guarded.get("/v1/find?q=a", authorization=bearer(f"{key} {key}")),
        guarded.get("/v1/find?q=a", authorization=bearer(key), host="evil.example"),
        guarded.get("/v1/find?q=a", authorization=bearer(key), origin="https://evil.example"),
        guarded.post("stats", {}, authorization=bearer(key)),
        guarded.post("stats", {}, cookie=cookie),
        guarded.http.post("/session", json={"key": f"{key} {key}"}),
        guarded.http.post("/session", json={"key": [key]}),
        guarded.http.post("/session", content=f'{{"key": "{key}", }}', headers=JSON),
        sign_in(guarded, f"{key}x"),
    ]
    assert all(reply.status_code >= 400 for reply in replies), [r.status_code for r in replies]
    for reply in replies:
        assert secret not in reply.text + str(reply.headers)
    eventually(lambda: guarded.log.count('event="request refused"') >= 5)
    assert secret not in guarded.log
    assert cookie.partition("=")[2] not in guarded.log


def test_a_session_ends_when_it_is_idle() -> None:
    """A session lives while it is used."""
    now = 0.0
    sessions = Sessions(lambda: now)
    name = sessions.begin("key", "acme")
    for _ in range(5):
        now += callers.IDLE - 1
        caller = sessions.caller(name)
        assert caller is not None
        assert (caller.key, caller.tenant) == ("key", "acme")
        assert "key" not in repr(caller)
    now += callers.IDLE + 1
    assert sessions.caller(name) is None
    assert not sessions._sessions


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One key cannot end the sessions of others, and all together have a limit."""
    monkeypatch.setattr(callers, "MOST_SESSIONS", 30)
    sessions = Sessions()
    first = sessions.begin("one", "")
    many = [sessions.begin("two", "") for _ in range(callers.MOST_OF_KEY + 5)]
    assert sessions.caller(first) is not None
    assert sum(sessions.caller(name) is not None for name in many) == callers.MOST_OF_KEY
    assert sessions.caller(many[0]) is None
    assert sessions.caller(many[-1]) is not None
    others = [sessions.begin(f"key{i}", "") for i in range(30)]
    assert len(sessions._sessions) == 30
    assert sessions.caller(first) is None
    assert all(sessions.caller(name) is not None for name in others)


def test_cookies_of_any_form_are_read() -> None:
    """A malformed cookie is no session."""
    found = Callers(needs_key=False, cookie="c")
    for cookie in ("", "c", "c=", "=", ";;;", 'c="', "c=\x00", "d=e; c", "\udcff", "a=b" * 5000):
        assert found.of({"cookie": cookie}).key == ""
    name = found.sessions.begin("key", "")
    assert found.of({"cookie": f"a=b; c={name}; d=e"}).key == "key"
    with pytest.raises(Fault):
        found.of({"cookie": f"c={name}x"})
