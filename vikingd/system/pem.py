"""Reads and checks of PEM files for TLS; errors name the file."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

from vikingd.system.regular_files import read_regular

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_EXPLICIT_VERSION = 0xA0  # tags of ASN.1
_UTC_TIME = 0x17  # its year has two digits


def read_pair(certificate: str, key: str) -> tuple[bytes, bytes]:
    """Return the bytes of a certificate file with its chain, and of its key file.

    Raises:
        ValueError: a file cannot be read, the key is encrypted, or the two do not belong together.
    """
    texts = _read(certificate), _read(key)
    try:  # without a password, an encrypted key would ask on the terminal
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ValueError(f"{key} is not the key of the certificate {certificate}") from None
        reason = f" ({error.reason})" if error.reason else ""
        raise ValueError(
            f"{certificate} and {key} are not a certificate and its unencrypted key, as PEM{reason}"
        ) from None
    return texts


def read_authorities(path: str) -> bytes:
    """Return the bytes of a file with certificates of authorities.

    Raises:
        ValueError: the file cannot be read, or holds no certificate.
    """
    text = _read(path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        raise ValueError(f"{path} holds no certificate of an authority, as PEM") from None
    return text


def period_of(certificate: str) -> tuple[datetime, datetime]:
    """Return (begin, end) of the validity of the first certificate in a file.

    Raises:
        ValueError: the file cannot be read.
    """
    return validity(_read(certificate))


def validity(certificate: bytes) -> tuple[datetime, datetime]:
    """Return (begin, end) of the validity of the first certificate in the bytes of a PEM file."""
    _, begin, rest = certificate.decode("ascii", "replace").partition(_BEGIN)
    der = ssl.PEM_cert_to_DER_cert(begin + rest.partition(_END)[0] + _END)
    (_, signed), *_ = _elements(der)
    (_, content), *_ = _elements(signed)
    fields = [content for tag, content in _elements(content) if tag != _EXPLICIT_VERSION]
    _, _, _, period, *_ = fields  # after the serial number, the algorithm and the issuer
    first, last = (_time(tag, text) for tag, text in _elements(period))
    return first, last


def _time(tag: int, text: bytes) -> datetime:
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text.decode("ascii"), form).replace(tzinfo=UTC)


def _read(path: str) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (tag, content) of each element of a sequence in the DER encoding of ASN.1."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length & 0x80:  # the length itself follows, in so many bytes
            size = length & 0x7F
            length, at = int.from_bytes(der[at : at + size]), at + size
        yield tag, der[at : at + length]
        at += length
