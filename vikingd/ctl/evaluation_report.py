"""An evaluation as a table for people, as lines for pipes, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from vikingd.ctl import render, result_rows
from vikingd.ctl.command_session import Session
from vikingd.ctl.evaluation import FIND, Evaluation, Measure, Outcome, Row
from vikingd.ctl.output import Form

_HEADINGS = ("search", "first %", "in 3 %", "in 10 %", "nDCG@10", "none told %")
_LEGEND = (
    "first, in 3, in 10: the questions with an answer that have it there; in brackets the 95% "
    "interval. none told: the questions without an answer for which nothing is returned. find "
    "weak, find strong: a find with less confidence returns nothing."
)
_NO_MEASURE = _NOT_FOUND = "-"


def show(session: Session, evaluation: Evaluation, most: int) -> None:
    """Show the measures, and at most `most` questions that failed; JSON has all of them."""
    rows = evaluation.rows()
    if session.form is Form.JSONL:
        session.show_value(*map(_row_value, rows))
    elif session.is_structured:
        session.show_value(_value(evaluation, rows))
    elif not session.out.is_terminal:
        records = map(result_rows.Row, _lines(evaluation, rows, most))
        session.print(result_rows.Rows(records))
    else:
        _print(session, evaluation, rows, most)
    for detail, count in sorted(evaluation.degraded.items()):
        session.warn(f"degraded: {count:,} questions: {detail}")


def _lines(evaluation: Evaluation, rows: list[Row], most: int) -> Iterator[tuple[str, ...]]:
    """Yield the records for a pipe: the measures of each search method, then each failure."""
    for row in rows:
        yield ("search", row.method, *_cells(row), _difference(row) or row.absent or _NO_MEASURE)
    for one in evaluation.failures()[:most]:
        yield ("failed", str(one.question.line), _place(one), one.question.text, one.first)


def _print(session: Session, evaluation: Evaluation, rows: list[Row], most: int) -> None:
    counts = f"{len(evaluation.answerable):,} questions with an answer"
    if evaluation.unanswerable:
        counts += f", {len(evaluation.unanswerable):,} without"
    session.out.print(Text(counts))
    shown = [result_rows.Row((Text(row.method, "bold"), *_cells(row))) for row in rows]
    session.print(result_rows.Rows(shown, _HEADINGS))
    for row in rows:
        if row.absent:
            session.out.print(Text(f"{row.method}: {row.absent}", "yellow"), soft_wrap=True)
        if difference := _difference(row):
            session.out.print(Text(f"{row.method} - find: {difference}", "dim"))
    session.note(_LEGEND, "dim")
    failed = evaluation.failures()
    if not failed or not most:
        return
    session.out.print(Text(f"\n{len(failed):,} failed with find, the worst first", "bold"))
    for one in failed[:most]:
        answers = ", ".join(one.question.answers) or "nothing answers"
        lines = (
            Text.assemble(
                f"line {one.question.line}, {_place_words(one)}: ",
                (render.snippet(one.question.text), "bold"),
            ),
            Text(f"  first:  {one.first or 'nothing'}"),
            Text(f"  answer: {answers}", "dim"),
        )
        for line in lines:
            session.out.print(line, soft_wrap=True)
    if len(failed) > most:
        session.note(f"and {len(failed) - most:,} more: --failures N, or --json for all", "dim")


def _cells(row: Row) -> tuple[str, ...]:
    shares = (row.first, row.among_three, row.among_ten)
    return (*map(_percent, shares), _number(row.ndcg), _percent(row.told))


def _percent(measure: Measure | None) -> str:
    if measure is None:
        return _NO_MEASURE
    low, high = measure.interval
    return f"{100 * measure.value:.0f} ({100 * low:.0f}-{100 * high:.0f})"


def _number(measure: Measure | None) -> str:
    if measure is None:
        return _NO_MEASURE
    low, high = measure.interval
    return f"{measure.value:.2f} ({low:.2f}-{high:.2f})"


def _difference(row: Row) -> str:
    """Return the differences between a search method and find as text; "" if there are none."""
    if row.first_to_find is None or row.ndcg_to_find is None:
        return ""
    first, gain = row.first_to_find, row.ndcg_to_find
    return (
        f"first {100 * first.value:+.0f} points ({100 * first.interval.low:+.0f} to "
        f"{100 * first.interval.high:+.0f}), nDCG@10 {gain.value:+.3f} "
        f"({gain.interval.low:+.3f} to {gain.interval.high:+.3f})"
    )


def _place(outcome: Outcome) -> str:
    """Return the rank of the first right result of a find; "-" if none of the first ten is right.

    For a question that nothing answers return the strength of the find's confidence.
    """
    if not outcome.answers:
        return outcome.strength
    return str(outcome.place(FIND) or _NOT_FOUND)


def _place_words(outcome: Outcome) -> str:
    place = _place(outcome)
    if not outcome.answers:
        return f"told as {place}"
    return "not found" if place == _NOT_FOUND else f"found as number {place}"


def _value(evaluation: Evaluation, rows: list[Row]) -> dict[str, Any]:
    return {
        "questions": evaluation.asked,
        "asked": len(evaluation.outcomes),
        "answerable": len(evaluation.answerable),
        "unanswerable": len(evaluation.unanswerable),
        "searches": list(map(_row_value, rows)),
        "failures": list(map(_failure, evaluation.failures())),
        "missingAnswers": [{"line": line, "answer": answer} for line, answer in evaluation.missing],
        "degraded": [
            {"detail": detail, "questions": count}
            for detail, count in sorted(evaluation.degraded.items())
        ],
    }


def _row_value(row: Row) -> dict[str, Any]:
    if row.absent:
        return {"search": row.method, "absent": row.absent}
    measures = {
        "first": row.first,
        "amongThree": row.among_three,
        "amongTen": row.among_ten,
        "ndcg": row.ndcg,
        "noneTold": row.told,
        "firstToFind": row.first_to_find,
        "ndcgToFind": row.ndcg_to_find,
    }
    return {"search": row.method} | {
        name: {"value": one.value, "low": one.interval.low, "high": one.interval.high}
        for name, one in measures.items()
        if one is not None
    }


def _failure(outcome: Outcome) -> dict[str, Any]:
    question = outcome.question
    return {
        "line": question.line,
        "question": question.text,
        "answers": list(question.answers),
        "target": question.target,
        "strength": outcome.strength,
        "first": outcome.first,
        "places": {method: outcome.place(method) for method in outcome.found},
    }
