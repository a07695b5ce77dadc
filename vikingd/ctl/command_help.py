"""The help of a command on one screen, without the options that all commands have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand

from vikingd.ctl.common_options import PANEL
from vikingd.ctl.plain_values import convert_plainly
from vikingd.daemon.command_groups import PlainGroup
from vikingd.daemon.entry_points import raised_interrupts

COMMON_LINE = "Common options, such as --json, -q and --address: vikingctl help options"

_FORMS = {"int range": "N", "int": "N", "float range": "X", "float": "X", "str": "TEXT"}
_FULL, _FULL_FLAG = "--trace=full", "--full-trace"


class Command(TyperCommand):
    """A command whose help lists only its own options, and whose --trace may have a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, --help among them."""
        return convert_plainly(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; `--trace=full` is parsed as the flag `--full-trace`."""
        end = args.index("--") if "--" in args else len(args)
        has_full = any(_FULL_FLAG in one.opts for one in self.params)
        known = [_FULL_FLAG if has_full and one == _FULL else one for one in args[:end]]
        for one in known:
            if one.startswith("--trace="):
                more = f", or {_FULL} for all of it" if has_full else ""
                raise typer.BadParameter(f"{one}: it is --trace{more}", ctx=ctx)
        return super().parse_args(ctx, known + args[end:])

    def invoke(self, ctx: Any) -> Any:
        """Run the command with its own handling of Ctrl-C."""
        with raised_interrupts():
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        self.format_usage(ctx, formatter)
        write_text(formatter, self.help or "")
        records = {"argument": [], "option": []}  # type: dict[str, list[tuple[str, str]]]
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record and param.name != "help" and not is_common(param):
                records[param.param_type_name].append((_with_placeholders(record[0]), record[1]))
        for kind, listed in records.items():
            if listed:
                with formatter.section(f"{kind.title()}s"):
                    formatter.write_dl(listed)
        if any(map(is_common, self.params)):
            formatter.write(f"\n{COMMON_LINE}\n")


class Group(PlainGroup):
    """A group of commands, with one line for each in its help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, --help among them."""
        return convert_plainly(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the command; without any argument show the help."""
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            raise typer.Exit(2)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        self.format_usage(ctx, formatter)
        write_text(formatter, self.help or "")
        for title, commands in self.sections(ctx):
            with formatter.section(title):
                formatter.write_dl(list(commands))
        path = ctx.command_path
        formatter.write(f"\nThe options of a command: {path} COMMAND --help\n{COMMON_LINE}\n")

    def sections(self, ctx: Any) -> Iterable[tuple[str, Iterable[tuple[str, str]]]]:
        """Yield the sections of the list of commands: a title, and (name, summary) of each."""
        names = self.list_commands(ctx)
        found = ((name, self.get_command(ctx, name)) for name in names)
        yield "Commands", [(name, summary(one)) for name, one in found if one is not None]


def group(about: str) -> typer.Typer:
    """Return an empty group of commands."""
    return typer.Typer(cls=Group, help=about, rich_markup_mode=None)


def summary(command: Any) -> str:
    """Return the first sentence of a command's help."""
    sentence = " ".join((command.help or "").split("\n\n")[0].split())
    return sentence.removesuffix(".")


def _with_placeholders(names: str) -> str:
    """Replace typer's type names in the help of an option: `--limit <int>` becomes `--limit N`."""
    names = re.sub(r"<list\[(.*)\]>", r"<\1>", names)
    for type_name, word in _FORMS.items():
        names = names.replace(f"<{type_name}>", word)
    return names


def is_common(param: Any) -> bool:
    """Return True if all commands have the option."""
    return getattr(param, "rich_help_panel", None) == PANEL


def write_text(formatter: Any, text: str) -> None:
    """Write the text of a command's help.

    Paragraphs are wrapped, except those that are indented or begin with "Example:" or "RPC:".
    """
    for paragraph in text.strip().split("\n\n"):
        formatter.write("\n")
        if paragraph.startswith(("Example:", "RPC:", " ")):
            formatter.write(paragraph + "\n")
        else:
            formatter.write_text(" ".join(paragraph.split()))
