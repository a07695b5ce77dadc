"""Imports of Parquet that pyarrow wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from tests.programs import package
from vikingd.client.messages import MessageClient
from vikingd.client.replies import micros
from vikingd.ingest.files import microseconds

Ctl = Callable[..., tuple[int, str, str]]

TOP = "viking://resources/rows"


@pytest.fixture(autouse=True)
def _with_pyarrow() -> None:
    package("pyarrow", "pyarrow")


def _write(path: Path, columns: dict[str, Any], **metadata: str) -> str:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(columns)
    parquet.write_table(table.replace_schema_metadata(metadata), path)
    return str(path)


def _import(ctl: Ctl, *arguments: str, code: int = 0) -> dict[str, Any]:
    ended, out, err = ctl("import", "--from", "parquet", *arguments, "--json")
    assert (ended, err) == (code, "")
    summary = json.loads(out)
    assert isinstance(summary, dict)
    return summary


def _refused(ctl: Ctl, *arguments: str) -> str:
    """Return the message of an import that begins nothing."""
    ended, out, err = ctl("import", "--from", "parquet", *arguments, "--json")
    assert (ended, out) == (2, "")
    return str(json.loads(err)["message"])


def test_each_row_is_a_file(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """Text, title, abstract and time arrive, other columns become metadata, ids become names."""
    path = _write(
        tmp_path / "rows.parquet",
        {
            "id": ["a", "b/c"],
            "content": ["The harbour opens at nine.", "A long text. " * 200],
            "title": ["Harbour", None],
            "abstract": ["When it opens", None],
            "time": [datetime(2024, 1, 2, 3, 4, 5, 6, UTC), None],
            "year": [2024, None],
            "big": [1 << 60, 3],
            "ratio": [0.5, float("nan")],
            "day": [date(2024, 1, 2), None],
            "price": [Decimal("1.50"), None],
            "nested": [{"tags": ["x", "y"]}, None],
            "raw": [b"\1", None],
        },
    )
    summary = _import(ctl, path, TOP)
    assert (summary["created"], summary["unreadable"], summary["failed"]) == (2, [], [])
    first = client.get(f"{TOP}/a").context
    assert (first.content, first.title) == ("The harbour opens at nine.", "Harbour")
    assert first.abstract == "When it opens"
    assert micros(first.time) == microseconds("2024-01-02T03:04:05.000006Z")
    assert MessageToDict(first.metadata) == {
        "year": 2024,
        "big": str(1 << 60),
        "ratio": 0.5,
        "day": "2024-01-02",
        "price": "1.50",
        "nested": {"tags": ["x", "y"]},
    }
    second = client.get(f"{TOP}/b%2Fc").context
    assert MessageToDict(second.metadata) == {"big": 3, "ratio": "nan", "id": "b/c"}
    assert len(second.passages) > 1
    notes = summary["notes"]
    assert "metadata 'raw': values of the type bytes are left out: 1" in notes
    assert "metadata 'ratio': numbers that metadata cannot have are now strings: 1" in notes
    revision = client.stats().revision
    again = _import(ctl, path, TOP)
    assert (again["created"], again["updated"], again["unchanged"]) == (0, 0, 2)
    assert client.stats().revision == revision


def test_rows_with_uris_need_no_uri(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """All files of a directory are read, absolute URIs place rows, --delete removes others."""
    uri = "viking://resources/{}.md".format
    _write(tmp_path / "1.parquet", {"uri": [uri("x"), uri("y")], "text": ["x", "y"]})
    (tmp_path / "deep").mkdir()
    _write(tmp_path / "deep/2.parquet", {"uri": [uri("z")], "document": ["z"]})
    assert _import(ctl, str(tmp_path))["created"] == 3
    assert "needs a URI" in _refused(ctl, str(tmp_path), "--delete")
    (tmp_path / "deep/2.parquet").unlink()
    summary = _import(ctl, str(tmp_path), "viking://resources", "--delete")
    assert (summary["unchanged"], summary["deleted"]) == (2, 1)
    assert client.get(uri("x")).context.content == "x"


@pytest.mark.usefixtures("client")
def test_a_faulty_row_is_named_and_the_others_are_imported(ctl: Ctl, tmp_path: Path) -> None:
    """Each faulty row is listed with its number and the reason."""
    path = _write(
        tmp_path / "rows.parquet",
        {
            "id": ["good", None, "good", "late", "x" * 1100, "nul"],
            "text": ["good", "b", "c", "d", "e", "\0"],
            "time": [None, None, None, "soon", None, None],
        },
    )
    summary = _import(ctl, path, TOP)
    assert summary["created"] == 1
    faults = [(u["path"].removeprefix(f"{path}, "), u["reason"]) for u in summary["unreadable"]]
    for (where, reason), (row, part) in zip(
        faults,
        (
            ("row 2", "id: is missing"),
            ("row 3", "occurs twice"),
            ("row 4", "'soon' is not ISO 8601"),
            ("row 5", "at most 1024"),
            ("row 6", "NUL"),
        ),
        strict=True,
    ):
        assert where == row
        assert part in reason


def test_columns_of_other_names_are_mapped(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """--map names the column of a field; a wrong name is refused with the names that exist."""
    path = _write(
        tmp_path / "rows.parquet", {"key": [7], "body": ["text of 7"], "text": ["a remark"]}
    )
    _import(ctl, path, TOP, "--map", "id=key", "--map", "text=body")
    context = client.get(f"{TOP}/7").context
    assert context.content == "text of 7"
    assert MessageToDict(context.metadata) == {"text": "a remark"}
    pages = {"uri": ["https://example.com/a"], "text": ["a page"]}
    page = _write(tmp_path / "pages.parquet", pages)
    assert _import(ctl, page, TOP, code=1)["unreadable"][0]["reason"].startswith(
        "uri: must begin with"
    )
    _import(ctl, page, TOP, "--map", "id=uri")
    assert client.get(f"{TOP}/https:%2F%2Fexample.com%2Fa").context.content == "a page"
    assert "no column for uri or id; --map id=COLUMN" in _refused(ctl, path, TOP)
    message = _refused(ctl, path, TOP, "--map", "id=none")
    assert "no column 'none' for id; its columns are: key, body, text" in message
    for pair in ("id", "name=key", "id="):
        assert "is not FIELD=COLUMN" in _refused(ctl, path, TOP, "--map", pair)
    assert "is required, since the rows have ids" in _refused(ctl, path, "--map", "id=key")


def test_vectors_of_a_table(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """Vectors are dropped with a notice, or kept on request; a row with a wrong one is listed."""
    columns = {
        "id": ["a", "b", "c", "d", "e"],
        "text": ["A long text. " * 200, "b", "c", "d", "e"],
        "embedding": [[0.6, 0.8], [1.0, 0.0], [0.0, 0.0], [1.0], None],
    }
    path = _write(tmp_path / "rows.parquet", columns, embedding_model="some-model")
    dropped = _import(ctl, path, TOP)
    assert (dropped["created"], dropped["unreadable"]) == (5, [])
    assert "not used: they are made by some-model, the daemon has no model" in dropped["notes"][0]
    assert "embedding" not in MessageToDict(client.get(f"{TOP}/a").context.metadata)
    kept = _import(ctl, path, f"{TOP}/kept", "--vectors", "keep")
    assert kept["created"] == 3
    reasons = [item["reason"] for item in kept["unreadable"]]
    assert "is all zeros" in reasons[0]
    assert "has 1 numbers, the daemon's have 2" in reasons[1]
    assert len(client.get(f"{TOP}/kept/a").context.passages) == 1
    found = client.find(vector=[0.6, 0.8], target_uri=f"{TOP}/kept").resources
    assert [r.uri for r in found] == [f"{TOP}/kept/a", f"{TOP}/kept/b"]


def test_what_is_no_table_is_refused(ctl: Ctl, tmp_path: Path) -> None:
    """A directory without tables and a file of another format have clear errors."""
    assert "has no .parquet file" in _refused(ctl, str(tmp_path), TOP)
    wrong = tmp_path / "wrong.parquet"
    wrong.write_text("no table")
    assert "is not readable as Parquet" in _refused(ctl, str(wrong), TOP)


@pytest.mark.usefixtures("client")
def test_a_damaged_table_keeps_what_is_stored(ctl: Ctl, tmp_path: Path) -> None:
    """A table that breaks in the middle is named, and --delete removes nothing."""
    path = tmp_path / "rows.parquet"
    count = 3000
    _write(
        path, {"id": [f"{i}" for i in range(count)], "text": [f"text {i}" for i in range(count)]}
    )
    _import(ctl, str(path), TOP)
    data = bytearray(path.read_bytes())
    middle = len(data) // 3
    data[middle : middle + 64] = bytes(64)
    path.write_bytes(data)
    summary = _import(ctl, str(path), TOP, "--delete", code=1)
    assert (summary["deleted"], len(summary["unreadable"])) == (0, 1)
    assert "cannot be read after row" in summary["unreadable"][0]["reason"]
