"""vikingctl completion: the words of a command line, completed by the shell."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

_PROGRAM = "vikingctl"
_VARIABLE = "_VIKINGCTL_COMPLETE"


class Shell(StrEnum):
    """A shell that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the script that completes commands and options in a shell.

    Bash: add `eval "$(vikingctl completion bash)"` to ~/.bashrc. Zsh: the same with zsh in
    ~/.zshrc, after compinit. Fish: write the script to ~/.config/fish/completions/vikingctl.fish.
    PowerShell: append it to the file $PROFILE.

    Example: vikingctl completion bash
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name=_PROGRAM, complete_var=_VARIABLE, shell=shell.value))


def prepare_completion() -> None:
    """Register the shells with typer, if a shell asks for completions."""
    if _VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
