"""vikingctl hook: answers one event of an agent, and must not delay the agent.

If anything fails, the agent continues: the answer is the empty one of its form, the exit code is 0,
and the log has a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from vikingd.hooks.agent_events import AgentEvent, EventKind, Message
from vikingd.hooks.session_files import SessionFiles, log, pending

AGENTS = ("claude-code", "codex", "gemini", "cursor", "opencode")
"""The agents whose events are understood."""

LIMIT = 2.0
"""The seconds after which the hook gives the empty answer."""

USER = "user"
"""The address of the daemon of this user."""

_MOST_INPUT = 32 << 20  # bytes of an event
_BACKGROUND = 600  # seconds for a process in the background
_STARTS = 60  # seconds in which a daemon starts; the first one compiles its kernels
_LOOK = 0.2  # seconds between two looks for it


class Options(NamedTuple):
    """The arguments of the command."""

    agent: str
    event: str
    address: str
    start: bool


class Answer(NamedTuple):
    """The text for stdout, and the work to do after the agent has it."""

    text: str
    work: Callable[[], None] | None = None


def main(arguments: Sequence[str]) -> NoReturn:
    """Answer the event on stdin, and end this process with the exit code 0."""
    answer = Answer("")
    try:
        signal.signal(signal.SIGALRM, _end_of_time)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        answer = answered(parsed(arguments))
    except BaseException as error:
        log(f"{type(error).__name__}: {error}")
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.buffer.write(answer.text.encode(errors="replace"))
        sys.stdout.buffer.flush()
        if answer.work is not None:
            in_background(answer.work)
    except BaseException as error:
        log(f"{type(error).__name__}: {error}")
    os._exit(0)  # it skips what Python does at an end, which takes milliseconds


def parsed(arguments: Sequence[str]) -> Options:
    """Return the options of a command line.

    Raises:
        ValueError: an argument is unknown, or there are too many.
    """
    address = os.environ.get("VIKINGCTL_ADDRESS") or USER
    start, names, rest = False, list[str](), list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--start":
            start = True
        elif word == "--address" and rest:
            address = rest.pop(0)
        elif word.startswith("--address="):
            address = word.partition("=")[2]
        elif word.startswith("-") or len(names) == 2:
            raise ValueError(f"unknown argument {word}; see vikingctl hook --help")
        else:
            names.append(word)
    agent, event, *_ = *names, "", ""
    if agent and agent not in AGENTS:
        raise ValueError(f"unknown agent {agent}, not one of {', '.join(AGENTS)}")
    return Options(agent, event, address, start)


def answered(options: Options) -> Answer:
    """Return the answer to the event on stdin; the empty one if anything fails."""
    agent, event = options.agent, None
    try:
        given = json.loads(sys.stdin.buffer.read(_MOST_INPUT))
        if not isinstance(given, dict):
            raise ValueError("the event is no JSON object")
        agent = agent or _agent_of(given)
        event = protocol_of(agent).parse(given, options.event)
        if os.environ.get("VIKINGD_HOOKS", "").lower() != "off":
            text, work = _react(event, options)
            return Answer(protocol_of(agent).render(event, text), work)
    except BaseException as error:
        log(f"{agent or 'hook'} {options.event}: {type(error).__name__}: {error}")
    if not agent:
        return Answer("")
    event = event or AgentEvent(agent, EventKind.OTHER, "", "", name=options.event)
    return Answer(protocol_of(agent).render(event, ""))


def protocol_of(agent: str) -> Any:
    """Return the module that speaks to an agent; it has the form of AgentProtocol."""
    return import_module(f"vikingd.hooks.protocols.{agent.replace('-', '_')}")


def in_background(work: Callable[[], None]) -> None:
    """Call a function in a new process that outlives this process and the agent."""
    if os.fork():
        return
    try:
        os.setsid()  # agents end the group of a hook's processes
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):  # the agent waits until stdin, stdout and stderr are closed
            os.dup2(null, number)
        signal.alarm(_BACKGROUND)
        work()
    except BaseException as error:
        log(f"{type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _end_of_time(*_: object) -> NoReturn:
    raise TimeoutError("the time of the hook is over")


def _agent_of(given: dict[str, Any]) -> str:
    """Return the name of the agent that wrote an event: codex or claude-code, by its fields."""
    path = os.path.basename(str(given.get("transcript_path") or ""))
    return "codex" if "turn_id" in given or path.startswith("rollout-") else "claude-code"


def _react(event: AgentEvent, options: Options) -> tuple[str, Callable[[], None] | None]:
    """Handle an event; return the text for the model, and the work to do in the background."""
    if event.kind is EventKind.OTHER:
        return "", None
    from vikingd.hooks.project_names import project_of

    files = SessionFiles(event.agent, event.session)
    if not event.transcript:
        said = {EventKind.PROMPT: event.prompt}.get(event.kind, event.response)
        if said:
            role = "user" if event.kind is EventKind.PROMPT else "assistant"
            files.say(Message(role, said, time.time()))
    project = project_of(event.directory or os.getcwd())
    if event.kind in (EventKind.STOP, EventKind.COMPACT, EventKind.END):
        files.begin(0)
        files.add_pending(event, project)
        return "", lambda: _commit(options, files.key)
    if event.kind is EventKind.START:
        _begin(event, files)
    elif not event.prompt.strip():
        return "", None
    if event.kind not in protocol_of(event.agent).ADDS_AT:
        return "", None
    try:
        text = _remembered(event, files, project, options)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        if not options.start:
            raise
        log(f"no daemon answers ({error}); it is started")
        return "", start_daemon
    leftovers = event.kind is EventKind.START and pending()
    return text, (lambda: _commit(options, "")) if leftovers else None


def _begin(event: AgentEvent, files: SessionFiles) -> None:
    """Prepare the files of a session that begins.

    For a new or emptied context all memories may be given again. For a resumed session that the
    hooks do not know, the old part of the transcript is not committed.
    """
    if event.source not in ("resume", "fork"):
        files.forget_given()
    elif event.transcript and os.path.exists(event.transcript):
        # In a session without files, all earlier messages are of another session, or older than
        # the hooks.
        files.begin(os.stat(event.transcript).st_size)


def _remembered(event: AgentEvent, files: SessionFiles, project: str, options: Options) -> str:
    """Return the text of memories for a START or a PROMPT, and record which memories it has."""
    from vikingd.hooks import daemon_memories, memory_texts
    from vikingd.hooks.unary_calls import Connection

    if event.kind is EventKind.PROMPT and event.prompt.lstrip().startswith("/"):
        return ""  # a command of the agent
    deadline = time.monotonic() + LIMIT * 0.9
    daemon = Connection(_socket(options.address), _metadata(options.address), deadline)
    try:
        if event.kind is EventKind.START:
            text, ids = memory_texts.text_at_start(daemon_memories.present(daemon, project))
        else:
            found = daemon_memories.matching(daemon, project, event.prompt, event.session)
            known = files.given()
            text, ids = memory_texts.text_for_prompt(one for one in found if one.id not in known)
    finally:
        daemon.close()
    files.give(ids)
    return text


def _metadata(address: str) -> dict[str, str]:
    """Return the metadata of each call; without the environment's key for the daemon of USER."""
    from vikingd.hooks.daemon_memories import metadata

    return {} if address == USER else metadata()


def _socket(address: str) -> str:
    """Return the address, with `user` replaced by that of the user's socket."""
    if address != USER:
        return address
    from vikingd.system.user_paths import user_socket

    return f"unix:{user_socket()}"


def start_daemon() -> None:
    """Replace this process by one that starts the daemon of this user, if none runs."""
    os.execv(sys.executable, [sys.executable, "-P", "-m", "vikingd.daemon.user_daemon"])


def _commit(options: Options, first: str) -> None:
    """Commit pending messages; first start the daemon if none runs and the options allow it."""
    from vikingd.hooks.session_memory_commits import commit_pending

    address = _socket(options.address)
    if options.start and not _listens(address):
        if not (pid := os.fork()):
            start_daemon()
        os.waitpid(pid, 0)
        end = time.monotonic() + _STARTS
        while not _listens(address) and time.monotonic() < end:
            time.sleep(_LOOK)
    commit_pending(
        address, _metadata(options.address), lambda agent: protocol_of(agent).message, first
    )


def _listens(address: str) -> bool:
    from vikingd.hooks.unary_calls import Connection

    try:
        Connection(address, {}, time.monotonic() + LIMIT).close()
    except OSError:
        return False
    return True
