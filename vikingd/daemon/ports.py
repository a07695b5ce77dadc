"""The addresses of a daemon; only the writer and the readers of one store may share a port."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import grpc

from vikingd.daemon.grpc_certificates import GrpcCertificates
from vikingd.domain.daemon_addresses import Address
from vikingd.system import platform
from vikingd.system.regular_files import descriptor_of

_LOCKS = "ports"
"""The name of a file in the store's directory. A listener locks the byte with its port's number."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PROBE = 1.0  # seconds


def check_address(address: Address, store: Path) -> None:
    """Raise OSError if another program uses an address.

    Listeners of the same store may share a port. SO_REUSEPORT alone lets all processes of one user
    share it, and spreads connections over them. So each listener also locks a file of its store,
    which tells the listeners of this store from others.

    Raises:
        OSError: the address is taken, or other users could replace the unix socket.
    """
    if address.path:
        _check_socket(Path(address.path))
        return
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC binds
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            if not _is_held(store, address.port):
                raise OSError(f"cannot listen on {address}: {error.strerror}") from None


def bind(
    server: grpc.aio.Server,
    address: Address,
    store: Path,
    certificates: GrpcCertificates | None,
) -> Address:
    """Listen on an address; return it with the port that was taken.

    Args:
        server: a server that has not started yet.
        address: where to listen.
        store: the directory of the store.
        certificates: the certificates for addresses with TLS.

    Raises:
        OSError: the address is taken.
    """
    if address.port:
        _lock_port(store, address.port)
    try:
        if address.tls:
            assert certificates is not None
            taken = server.add_secure_port(address.target, certificates.credentials())
        else:
            taken = server.add_insecure_port(address.target)
    except RuntimeError:
        raise OSError(f"cannot listen on {address}") from None
    if address.path:
        Path(address.path).chmod(0o600)
        return address
    if not address.port:
        _lock_port(store, taken)
    return Address(address.host, taken, tls=address.tls)


def _check_socket(path: Path) -> None:
    """Create the directory of a unix socket; raise OSError if a daemon listens at the socket.

    Only the modes of directory and socket keep other users away, because gRPC does not learn from a
    unix socket who connects.
    """
    cannot = f"cannot listen on unix:{path}"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = path.parent.stat()
    except OSError as error:
        raise OSError(f"{cannot}: {error.strerror}: {path.parent}") from None
    if directory.st_mode & _OTHERS_WRITE or directory.st_uid not in (0, os.geteuid()):
        raise OSError(
            f"{cannot}: other users can write to {path.parent}; choose a directory with mode 0700"
        )
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(f"{cannot}: it exists, and is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return  # nobody listens any more; gRPC replaces the socket
        except OSError as error:
            raise OSError(f"{cannot}: {error.strerror or error}") from None
        else:
            raise OSError(f"{cannot}: another daemon listens there")


def _lock_port(store: Path, port: int) -> None:
    """Lock the byte of a file whose offset is the port, until this process ends.

    The file must stay open: POSIX drops all locks of a process when it closes any descriptor of the
    file.
    """
    locks = descriptor_of(store / _LOCKS, os.O_RDWR | os.O_CREAT)
    platform.lock_byte(locks, port, shared=True)


def _is_held(store: Path, port: int) -> bool:
    try:
        locks = descriptor_of(store / _LOCKS, os.O_RDWR)
        try:
            return not platform.lock_byte(locks, port)
        finally:
            os.close(locks)
    except FileNotFoundError:
        return False
    except OSError:  # `bind` opens the same file, and raises it
        return True
