"""Start of child processes that read untrusted files.

Each runs a module, at the end of a socket.
"""

from __future__ import annotations

import socket
import subprocess
import sys


def start_child(module: str, *arguments: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a child process that runs a module, and return it with a socket to it.

    The child limits itself (`confine`). Its first argument is the descriptor of its socket. It gets
    no Ctrl-C, and ends when it sees the end of the socket.

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
