"""The command that measures how well searches answer questions of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from vikingd.client import ClientError, Mode, find_request
from vikingd.ctl import render
from vikingd.ctl.command_session import Session, text_of
from vikingd.ctl.evaluation import (
    HYBRID,
    KEYWORD,
    VECTOR,
    Evaluation,
    K,
    Outcome,
    results_of_find,
)
from vikingd.ctl.evaluation_report import show
from vikingd.ctl.exit_codes import INTERRUPTED
from vikingd.ctl.progress import meter
from vikingd.ctl.question_file import Places, Question, read_questions
from vikingd.pb import retrieval_pb2
from vikingd.pb.retrieval_pb2 import FindResponse, RetrieveResponse

_MOST_MISSING = 5  # missing answers that are printed; JSON has all
_BATCH = 32  # questions of one call
_PAGE = 10_000  # URIs of one call
_MODES = {HYBRID: Mode.HYBRID, VECTOR: Mode.VECTOR, KEYWORD: Mode.KEYWORD}
_NO_EMBEDDER = "the daemon has no embedder"
_NOT_ALLOWED = ("PERMISSION_DENIED", "UNAUTHENTICATED")


def evaluate(
    session: Session,
    questions: Annotated[
        typer.FileBinaryRead,
        typer.Argument(
            metavar="QUESTIONS.jsonl", help="File of questions, a line each; - is stdin."
        ),
    ],
    failures: Annotated[
        int, typer.Option(min=0, help="Show so many questions that failed; JSON has all.")
    ] = 10,
) -> None:
    """Measure how well searches answer questions whose answers you know.

    A line of the file is {"question": "...", "answers": ["guide/start.md"]}, with a URI or its
    end for each context that answers, or "answers": "none"; "target" names a directory.

    RPC: viking.retrieval.v1.Retrieval/BatchFind, viking.retrieval.v1.Retrieval/Retrieve,
    viking.retrieval.v1.Contexts/Glob, viking.retrieval.v1.Admin/Stats

    Example: vikingctl evaluate questions.jsonl
    """
    try:
        asked = read_questions(text_of(questions))
    except ValueError as error:
        raise typer.BadParameter(f"{questions.name}: {error}") from None
    answers = _matching_uris(session, asked)
    evaluation = Evaluation(len(asked), _missing(asked, answers))
    for line, answer in evaluation.missing[:_MOST_MISSING]:
        session.warn(f"line {line}: answers: {answer} is not in the store; it counts as not found")
    if (more := len(evaluation.missing) - _MOST_MISSING) > 0:
        session.warn(f"and {more:,} more answers are not in the store")
    _warn_of_backlog(session)
    is_whole = _ask(session, list(zip(asked, answers, strict=True)), evaluation)
    show(session, evaluation, failures)
    if not is_whole:
        session.warn(f"interrupted after {len(evaluation.outcomes):,} of {len(asked):,} questions")
        raise typer.Exit(INTERRUPTED)


def _missing(
    asked: Sequence[Question], answers: Sequence[Sequence[frozenset[str]]]
) -> list[tuple[int, str]]:
    """Return (line, answer) of each answer in the file that matches no context."""
    return [
        (one.line, answer)
        for one, named in zip(asked, answers, strict=True)
        for answer, uris in zip(one.answers, named, strict=True)
        if not uris
    ]


def _matching_uris(session: Session, asked: Sequence[Question]) -> list[list[frozenset[str]]]:
    """Return, for each question and each of its answers, the matching URIs below its target."""
    places: dict[str, Places] = {}
    for one in asked:
        if one.target not in places:
            try:
                entries = session.client.glob("**", one.target, page_size=_PAGE)
                places[one.target] = Places([one.target, *(entry.uri for entry in entries)])
            except ClientError as error:
                if error.reason in ("NOT_FOUND", "INVALID_ARGUMENT"):
                    error.message = f"line {one.line}: target: {error.message}"
                raise
    return [[places[one.target].of(answer) for answer in one.answers] for one in asked]


def _warn_of_backlog(session: Session) -> None:
    """Print a warning if texts wait for a vector and the key may see that."""
    try:
        embedder = session.client.stats().embedder
    except ClientError as error:
        if error.code.name not in _NOT_ALLOWED:
            raise
        return
    if embedder.backlog:
        session.warn(f"{embedder.backlog:,} texts wait for a vector: words alone find them so far")


def _ask(
    session: Session,
    asked: Sequence[tuple[Question, Sequence[frozenset[str]]]],
    evaluation: Evaluation,
) -> bool:
    """Ask all questions by each search method, and add their outcomes to the evaluation.

    Return False if Ctrl-C ended this before the last question.
    """
    try:
        with meter(session, "questions", len(asked)) as shown:
            for at in range(0, len(asked), _BATCH):
                batch = asked[at : at + _BATCH]
                requests = [
                    find_request(one.text, target_uri=one.target, limit=K) for one, _ in batch
                ]
                finds = session.client.batch_find(requests).responses
                new = [
                    _outcome(session, one, answers, find, evaluation)
                    for (one, answers), find in zip(batch, finds, strict=True)
                ]
                evaluation.outcomes += new
                shown.advance(len(new))
    except KeyboardInterrupt:
        return False
    return True


def _outcome(
    session: Session,
    question: Question,
    answers: Sequence[frozenset[str]],
    find: FindResponse,
    evaluation: Evaluation,
) -> Outcome:
    """Retrieve by each further search method, and return the outcome of a question.

    Args:
        session: the session.
        question: the question.
        answers: the URIs of each answer.
        find: the reply of the question's find.
        evaluation: gets the methods that cannot be used, and the degradations.
    """
    hits = [[match.uri] for match in render.by_score(find)]
    strength = render.value_name(retrieval_pb2.Strength, find.confidence.strength)
    found = results_of_find(hits, strength)
    notes = {one.detail for one in find.degraded}
    for method, mode in _MODES.items():
        if method in evaluation.absent:
            continue
        try:
            reply = _retrieved(session, question, mode)
        except ClientError as error:
            if error.metadata.get("field") == "vector":
                evaluation.absent[method] = _NO_EMBEDDER
            elif mode is Mode.VECTOR and error.reason.startswith("EMBEDDER"):
                evaluation.absent[method] = error.message
            else:
                raise
            continue
        notes.update(one.detail for one in reply.degraded)
        found[method] = [[item.uri, *item.copies] for item in reply.items]
    for note in notes:
        evaluation.degraded[note] = evaluation.degraded.get(note, 0) + 1
    return Outcome(question, answers, found, strength)


def _retrieved(session: Session, question: Question, mode: Mode) -> RetrieveResponse:
    return session.client.retrieve(
        question.text,
        target_uri=question.target,
        mode=mode,
        top_k=K,
        group_by_context=True,
        degrade=mode is Mode.HYBRID,
    )
