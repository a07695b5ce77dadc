"""The ports of a store: its writer and its readers may share one, and nobody else."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import grpc

from vikingd.config import split_address

_LOCKS = "ports"
"""A file in the store's directory. A listener holds a lock on the byte with its port's number."""


def check_port(address: str, store: Path) -> None:
    """Refuse a port that another program has taken; listeners of the same store may share it.

    SO_REUSEPORT lets all processes of one user share a port, and spreads connections over them.
    So each listener holds a lock, which tells the listeners of one store from others.

    Raises:
        OSError: the port is taken.
    """
    host, port = split_address(address)
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC binds
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            if not _is_held(store, port):
                raise OSError(f"cannot listen on {address}: {error.strerror}") from None


def bind(server: grpc.aio.Server, address: str, store: Path) -> str:
    """Listen on an address; return it with the port that was taken.

    Raises:
        OSError: the port is taken.
    """
    host, port = split_address(address)
    if port:
        _hold(store, port)
    try:
        taken = server.add_insecure_port(address)
    except RuntimeError:
        raise OSError(f"cannot listen on {address}") from None
    if not port:
        _hold(store, taken)
    return f"{host}:{taken}"


def _hold(store: Path, port: int) -> None:
    """Lock the port's byte until this process ends.

    The file stays open: POSIX drops all locks of a process with the first descriptor it closes.
    """
    locks = os.open(store / _LOCKS, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.lockf(locks, fcntl.LOCK_SH, 1, port)


def _is_held(store: Path, port: int) -> bool:
    try:
        with (store / _LOCKS).open("r+b") as locks:
            fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
