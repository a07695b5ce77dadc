"""Start of child processes that read untrusted files.

Each child process runs a module of its own, and talks to its parent over a socket.
"""

from __future__ import annotations

import socket
import subprocess
import sys


def start_child(module: str, *arguments: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a child process that runs a module, and return it with a socket to it.

    The module limits its process (`confine`). The first argument of the module is the descriptor of
    its socket. The child gets no Ctrl-C, and ends when the parent closes the socket.

    Args:
        module: the name of the module.
        arguments: its further arguments.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        handle = theirs.fileno()
        # Its own session, so that Ctrl-C reaches the parent alone.
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(handle), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[handle],
            start_new_session=True,
        )
    return child, ours
