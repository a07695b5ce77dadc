"""The identification of callers by the key, the certificate or the address of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from vikingd.access.keys import KeyStore
from vikingd.access.quotas import Limits
from vikingd.domain.errors import StoreDamaged, Unauthenticated
from vikingd.domain.rights import DEFAULT_TENANT, LOCAL, Caller

AUTHORIZATION = "authorization"
TENANT = "vikingd-tenant"

MAX_HEADER = 256
"""The most characters of the metadata that name a key or a tenant; longer values are refused."""

_SCHEME = "bearer "
_LOOPBACK = ("unix:", "ipv4:127.", "ipv6:[::1]:", "ipv6:%5B::1%5D:")
_NO_LIMITS = Limits()

_KEY_NEEDED = (
    "a key is needed: send it as `authorization: Bearer KEY` (vikingctl: VIKINGD_KEY; Python: "
    'Client(key="vk_...") or VIKINGD_KEY); '
    "an operator creates keys with `vikingctl keys create`"
)
_FIRST_KEY = (
    "this address needs a key, and no key exists yet: create the first one on the daemon's "
    "machine, with `vikingctl keys create --operator`"
)

Metadata = Sequence[tuple[str, str | bytes]]


class Authenticator:
    """Identifies the caller of each call. Its methods are called on the event loop alone.

    Args:
        keys: the keys.
        allow_local: calls over loopback and unix sockets need no key, even if keys exist.
        trust_network: while no key exists, calls from other machines need no key.
        certificates: a client certificate counts as the key that has its subject.
    """

    def __init__(
        self,
        keys: KeyStore,
        *,
        allow_local: bool,
        trust_network: bool,
        certificates: bool = False,
    ) -> None:
        self._keys = keys
        self._key_always = not (allow_local or certificates)
        self._allow_local = allow_local
        self._trust_network = trust_network

    def refuses(self, metadata: Metadata) -> bool:
        """Return True if a call with these metadata is refused, whatever its address is."""
        try:
            given, tenant = _values(metadata)
            if given is None:
                return self._key_always and self._keys.had_key
            self._of_key(given, tenant)
        except (Unauthenticated, StoreDamaged):
            return True
        return False

    def caller(
        self,
        metadata: Metadata,
        peer: str,
        subjects: Callable[[], Iterable[str]],
    ) -> tuple[Caller, Limits]:
        """Return the caller of a call, and the limits of its key.

        Args:
            metadata: the metadata of the call.
            peer: the address of the caller, as gRPC writes it.
            subjects: returns the names in the verified certificate of the client, if it has one.

        Raises:
            Unauthenticated: the call needs a valid key. It never tells which keys exist.
            StoreDamaged: the file of the keys cannot be read.
        """
        given, tenant = _values(metadata)
        if given is not None:
            return self._of_key(given, tenant)
        had_key = self._keys.had_key
        if had_key:
            found = self._keys.caller_of_subject(subjects(), tenant)
            if found is not None:
                return found
        is_local = peer.startswith(_LOOPBACK)
        if (is_local and self._allow_local) or (not had_key and (is_local or self._trust_network)):
            return _local(tenant or DEFAULT_TENANT), _NO_LIMITS
        raise Unauthenticated(_KEY_NEEDED if had_key else _FIRST_KEY)

    def _of_key(self, given: str, tenant: str) -> tuple[Caller, Limits]:
        if given[: len(_SCHEME)].lower() != _SCHEME:
            raise Unauthenticated("`authorization` must be `Bearer KEY`")
        return self._keys.caller(given[len(_SCHEME) :].strip(), tenant)


@lru_cache(1000)
def _local(tenant: str) -> Caller:
    """Return a caller without a key, which has all rights in a tenant."""
    return LOCAL if tenant == DEFAULT_TENANT else Caller("", tenant, "", (), is_operator=True)


def _values(metadata: Metadata) -> tuple[str | None, str]:
    """Return the values of the metadata `authorization` (None if missing) and `vikingd-tenant`.

    Raises:
        Unauthenticated: one of them is given twice, is too long or is not text. With two values, a
            proxy and the daemon could take different ones.
    """
    given: str | None = None
    tenant: str | None = None
    for name, value in metadata:
        if name == AUTHORIZATION:
            if given is not None:
                raise Unauthenticated("there are several values of `authorization`")
            given = _text(name, value)
        elif name == TENANT:
            if tenant is not None:
                raise Unauthenticated(f"there are several values of `{TENANT}`")
            tenant = _text(name, value)
    return given, tenant or ""


def _text(name: str, value: str | bytes) -> str:
    if not isinstance(value, str) or len(value) > MAX_HEADER:
        raise Unauthenticated(
            f"the value of `{name}` is no text of at most {MAX_HEADER} characters"
        )
    return value
