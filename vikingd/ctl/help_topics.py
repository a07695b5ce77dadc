"""vikingctl help: the topics that are not about one command."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from vikingd.ctl.command_help import is_common, write_text

_FILES = """\
An import leaves out, and tells: hidden files, but not directories that git tracks; what .ignore
files name, and in a git checkout what .gitignore names; secrets; and what is no reading: lock
files, minified and generated code, source maps, outputs of notebooks, all but the head of large
data.

A GLOB is a line of .gitignore, from PATH. --include takes in any case what it names without a
wildcard. --exclude has the last word. --delete removes what PATH has no more; it keeps what is
stored of files that are left out, and names it. --dry-run shows all of it beforehand.

 vikingctl import ./docs viking://resources/docs --exclude drafts/
 vikingctl import . viking://resources/app --include "*.md" --dry-run"""

_ADDRESSES = """\
`vikingctl import ADDRESS URI` takes a source by its address:

 https://HOST/PAGE                      a page; with --below PREFIX the site below it
 git+https://HOST/REPOSITORY#FOLDER     a folder of a repository; --ref names a branch or tag
 git+ssh://..., git+file:///PATH        the same
 PATH or https://....zip, .tar.gz ...   the files of an archive

`vikingctl sources` lists and refreshes them; --every 6h does that until Ctrl-C.

`--from chroma`, `mem0`, `openviking` and `parquet` take the data of these programs from a
directory, a file or a server, whose key is in VIKINGCTL_SOURCE_KEY. --vectors keep uses their
vectors, though their model may be another one; drop uses none."""

_CODES = """\
Exit codes:

 0    done
 1    failed; of grep and glob: nothing matches
 2    usage, or an argument that is not valid
 3    no daemon answers
 4    not found
 5    the key is missing, not valid or lacks a right
 6    grep and glob failed
 130  interrupted by Ctrl-C"""

_OPTIONS = """\
Options of all commands. They may stand before the command or after it."""

_OUTPUT = """\
On a terminal results are aligned and cut at its width, or at COLUMNS. Elsewhere each result is one
line of tab-separated fields, without a heading; what is told about them goes to stderr."""

TOPICS = {
    "options": ("the options of all commands, and the forms of the output", _OPTIONS),
    "files": ("what an import takes and leaves out", _FILES),
    "addresses": ("pages, repositories, archives and other programs", _ADDRESSES),
    "codes": ("the exit codes", _CODES),
}


def help_(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(help=f"A topic ({', '.join(TOPICS)}) or a command.")] = "",
) -> None:
    """Show the help of a topic or a command.

    Example: vikingctl help options
    """
    parent: Any = ctx.parent
    formatter = parent.make_formatter()
    if not topic:
        with formatter.section("Topics"):
            formatter.write_dl([(name, about) for name, (about, _) in TOPICS.items()])
        formatter.write("\nOf a command: vikingctl COMMAND --help\n")
    elif topic in TOPICS:
        write_text(formatter, TOPICS[topic][1])
        if topic == "options":
            options = [one for one in parent.command.params if is_common(one)]
            formatter.write("\n")
            formatter.write_dl([one.get_help_record(parent) for one in options])
            write_text(formatter, _OUTPUT)
    elif (command := parent.command.get_command(parent, topic)) is not None:
        with command.make_context(f"vikingctl {topic}", ["--help"], parent=parent):
            pass
    else:
        raise typer.BadParameter(
            f"{topic!r} is no topic ({', '.join(TOPICS)}) and no command: vikingctl --help lists "
            "them"
        )
    typer.echo(formatter.getvalue().strip("\n"))
