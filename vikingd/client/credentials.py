"""The credentials of a client: its key, its tenant and the files of TLS."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from vikingd.client.argument_checks import described, wrong_type
from vikingd.domain.daemon_addresses import MAX_PORT, TLS, UNIX, USER, Address, parse
from vikingd.system.regular_files import read_text

if TYPE_CHECKING:
    import grpc

_PLAIN_SCHEME = "viking://"
_DNS = "dns:///"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The key of a client, the tenant of an operator, and PEM files; "" where there is none."""

    key: str = field(default="", repr=False)
    tenant: str = ""
    ca: str = ""
    certificate: str = ""
    private_key: str = ""
    trust_network: bool = False

    @classmethod
    def found(
        cls,
        *,
        key: str | None = None,
        tenant: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        private_key: str | os.PathLike[str] | None = None,
        trust_network: bool = False,
        address: str = "",
    ) -> Self:
        """Return the credentials; those that are None are read from the environment.

        The variables are VIKINGD_KEY, else VIKINGD_KEY_FILE, VIKINGD_TENANT, VIKINGD_CA,
        VIKINGD_CERT and VIKINGD_CERT_KEY. With the address `user` no key and no tenant comes from
        the environment: they are for another daemon.

        Raises:
            ValueError: the file of the key cannot be read, or a value cannot be sent.
        """
        if address == USER:
            key, tenant = key or "", tenant or ""
        if key is None:
            key = os.environ.get("VIKINGD_KEY") or _from_file(os.environ.get("VIKINGD_KEY_FILE"))
        return cls(
            _header("the key", key),
            _header("the tenant", _or_variable(tenant, "VIKINGD_TENANT")),
            _or_variable(ca, "VIKINGD_CA"),
            _or_variable(certificate, "VIKINGD_CERT"),
            _or_variable(private_key, "VIKINGD_CERT_KEY"),
            trust_network,
        )

    def metadata(self) -> tuple[tuple[str, str], ...] | None:
        """Return the gRPC metadata to send with each call."""
        pairs = []
        if self.key:
            pairs.append(("authorization", f"Bearer {self.key}"))
        if self.tenant:
            pairs.append(("vikingd-tenant", self.tenant))
        return tuple(pairs) or None

    def target(
        self, address: str
    ) -> tuple[str, tuple[tuple[str, str], ...], grpc.ChannelCredentials | None]:
        """Return the gRPC target of one or several addresses, with channel options and credentials.

        The credentials are None for plain TCP. The certificates of several IP addresses must all
        name the first one, because gRPC expects one name for a channel.

        Raises:
            ValueError: the address or a file cannot be used, or a key would cross the network in
                plain text.
        """
        parsed = self._parsed(address)
        target, named = parsed.target, tuple[tuple[str, str], ...]()
        if _is_list(address):
            several = _several(address)
            parsed = several[0]
            kind = "ipv6" if ":" in parsed.host else "ipv4"
            target = f"{kind}:{','.join(one.target for one in several)}"
            named = (("grpc.default_authority", parsed.target),)
        elif not parsed.tls and not parsed.path:
            target = address
        if not parsed.path and _is_name(parsed) and not target.startswith(_DNS):
            target = f"{_DNS}{target}"
        if not parsed.tls:
            return target, named, None
        import grpc

        from vikingd.system import pem

        certificate = private_key = None
        if self.certificate or self.private_key:
            if not (self.certificate and self.private_key):
                raise ValueError("a client certificate needs its key, and the key its certificate")
            certificate, private_key = pem.read_pair(self.certificate, self.private_key)
        roots = pem.read_authorities(self.ca) if self.ca else None
        return target, named, grpc.ssl_channel_credentials(roots, private_key, certificate)

    def addresses(self, address: str) -> list[Address]:
        """Return the TCP addresses in a text; none for a unix socket.

        Raises:
            ValueError: it has another form, which only gRPC can parse.
        """
        several = _several(address) if _is_list(address) else [parse(address.removeprefix(_DNS))]
        return [one for one in several if one.port]

    def with_key(self, address: str, key: str, tenant: str) -> Self:
        """Return the credentials with another key, checked for a connection to an address.

        Raises:
            ValueError: a value cannot be sent, or the key would cross the network in plain text.
        """
        other = replace(self, key=_header("the key", key), tenant=_header("the tenant", tenant))
        other._parsed(address)
        return other

    def _parsed(self, address: str) -> Address:
        """Return the parsed address; of several, the first one.

        Raises:
            ValueError: it is no address, or the key would cross the network in plain text.
        """
        if address.startswith(_PLAIN_SCHEME):
            raise ValueError(f"{address} is a URI of the tree; an address is HOST:PORT")
        if _is_list(address):
            for one in (several := _several(address)):
                if not one.tls:
                    self._check_plain(one, str(one))
            return several[0]
        try:
            parsed = parse(address)
        except ValueError:
            # gRPC knows further forms of names, of which none is known to be local.
            if address.startswith(("vikings:", "unix:")):
                raise
            parsed = Address(address)
        if not parsed.tls:
            self._check_plain(parsed, address)
        return parsed

    def _check_plain(self, parsed: Address, address: str) -> None:
        if self.key and not (parsed.is_local or self.trust_network):
            raise ValueError(
                f"a key is not sent to {address} in plain text: connect to vikings://{address}, "
                "or trust the network by name (trust_network, --trust-network)"
            )


def is_several(target: str) -> bool:
    """Return True if a gRPC target may have several addresses."""
    return target.startswith(("ipv4:", "ipv6:", _DNS))


def _is_list(address: str) -> bool:
    """Return True for a text with several addresses that is no gRPC target such as `ipv4:A,B`."""
    return "," in address and not address.startswith(("ipv4:", "ipv6:", "unix:"))


def _is_name(parsed: Address) -> bool:
    return parsed.port > 0 and parsed.ip is None and parsed.host != "localhost"


def _several(text: str) -> list[Address]:
    """Return the addresses in a text with commas; `vikings://` before the first counts for all.

    Raises:
        ValueError: they are not all IP addresses of one family, all with TLS or all without.
    """
    parts = [part.strip() for part in text.split(",")]
    if parts[0].startswith(TLS):
        parts = [part if part.startswith(TLS) else f"{TLS}{part}" for part in parts]
    found = [parse(part) for part in parts]
    for one in found:
        if one.ip is None:
            raise ValueError(
                f"address is {text!r}; several addresses are IP addresses, and {one} is none: "
                "give one name that resolves to all nodes, such as dns:///nodes.example:7716"
            )
        if one.tls != found[0].tls:
            raise ValueError(f"address is {text!r}; give {TLS} before all addresses or none")
        if one.ip.version != (found[0].ip or one.ip).version:
            raise ValueError(f"address is {text!r}; give IPv4 or IPv6 addresses, not both")
    return found


_SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "vsock:", "xds:")
"""The prefixes of addresses in gRPC's own notation."""


def check_address(address: str, typed: str = 'Client("{}")') -> None:
    """Raise an error that shows the right form if a text is clearly no address.

    Args:
        address: the address.
        typed: the text to type for a right address; {} stands for the address.

    Raises:
        TypeError: it is no text.
        ValueError: it is a URL, a path or a host without a port.
    """
    forms = f"give HOST:PORT, such as {typed.format('127.0.0.1:7716')}"
    if not isinstance(address, str):
        raise TypeError(f"address is {described(address)}; {forms}")
    if found := re.match(r"(https?|grpcs?|tcp|wss?|vikingd)://(.*)", address):
        tls = found[1] in ("https", "grpcs", "wss")
        rest = found[2].rstrip("/")
        right = typed.format(f"vikings://{rest}" if tls else rest)
        raise ValueError(f"address is {address!r}; without {found[1]}:// it is {right}")
    if address.startswith(("/", "./", "../", "~")):
        raise ValueError(
            f"address is {address!r}, a path: vikingd.open({address!r}) opens a directory, and "
            f"{typed.format(f'unix:{address}')} connects to the socket of a daemon"
        )
    if address == USER or address.startswith((UNIX, "unix-abstract:", TLS, _PLAIN_SCHEME)):
        return  # the parser has the errors for these
    found = re.match(r"([a-z][a-z\d+.-]*)://", address, re.I)
    if found and not address.startswith(_SCHEMES):
        raise ValueError(f"address is {address!r}, and {found[0]} is not known; {forms}")
    if re.search(r"\s", address):
        raise ValueError(f"address is {address!r}, with a space; {forms}")
    if _is_ipv6(address):
        right = typed.format(f"[{address}]:7716")
        raise ValueError(f"address is {address!r}, without a port; with one it is {right}")
    if ":" not in address:
        raise ValueError(f"address is {address!r}, without a port; {forms}")
    host, _, port = address.rpartition(":")
    if address.startswith(_SCHEMES) or not re.fullmatch(r"[^\s:,\[\]]*:[^:,]*", address):
        return
    if not re.fullmatch(r"[0-9]{1,9}", port):
        raise ValueError(f"address is {address!r}, whose port is no number; {forms}")
    if not 0 < int(port) <= MAX_PORT:
        raise ValueError(f"address is {address!r}; a port is a number from 1 to {MAX_PORT}")
    if not host:
        raise ValueError(f"address is {address!r}, without a host; {forms}")


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _or_variable(value: str | os.PathLike[str] | None, variable: str) -> str:
    return os.environ.get(variable, "") if value is None else os.fspath(value)


def key_from(path: str | os.PathLike[str]) -> str:
    """Return the key in a file.

    Raises:
        ValueError: the file cannot be read.
    """
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"cannot read the key in {os.fspath(path)}: {reason}") from None


def _from_file(path: str | None) -> str:
    return key_from(path) if path else ""


def _header(name: str, value: str) -> str:
    """Return a value without white space at its ends.

    Raises:
        ValueError: gRPC metadata cannot hold the value; the message does not show it.
    """
    if not isinstance(value, str):
        raise wrong_type(name, value, "a str")
    value = value.strip()
    if not re.fullmatch(r"[!-~]*", value):
        raise ValueError(f"{name} may hold printable ASCII characters without spaces alone")
    return value
