"""Definitions of SQL that the grammar cannot read: procedures of T-SQL, Oracle and MySQL."""

from __future__ import annotations

import pytest

from vikingd.ingest.code.grammars import grammar_of
from vikingd.ingest.code.outline import read_outline
from vikingd.ingest.code.sql_statements import sql_statements
from vikingd.ingest.code.syntax_tree import Piece
from vikingd.ingest.passages import read_passages

BATCHES = """USE shop;
GO

-- Reads the orders
-- of a customer.
CREATE OR ALTER PROCEDURE [dbo].[GetOrders]
    @Id INT
AS
BEGIN
    SET NOCOUNT ON;

    SELECT * FROM Orders WHERE Id = @Id;
END
GO

/*
CREATE PROCEDURE commented AS
*/
CREATE FUNCTION dbo.Twice (@x int)
RETURNS int AS
BEGIN
RETURN @x * 2
END
GO

CREATE TABLE #tmp (a int)
CREATE TABLE plain_table (a int);
"""
DELIMITED = """DELIMITER //
CREATE DEFINER=`a`@`%` PROCEDURE `refund`(IN p_id INT)
BEGIN
  DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK;
  START TRANSACTION;
  CREATE TEMPORARY TABLE inner_one (a int);
END //
DELIMITER ;
"""


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            BATCHES,
            [("dbo > GetOrders", 6, 14), ("dbo > Twice", 19, 24), ("plain_table", 27, 27)],
        ),
        (DELIMITED, [("refund", 2, 7)]),
        ("-- of data/*.sql\nPRINT 'a/*'\nGO\n" + DELIMITED, [("refund", 5, 10)]),
        ("SELECT @x = (( FROM\nGO\nPRINT 'CREATE TABLE a'\n", None),
        ("-- CREATE PROCEDURE a AS\nEXEC (( @create\n", None),
    ],
)
def test_statements_have_names_and_lines(
    text: str, rows: list[tuple[str, int, int]] | None
) -> None:
    """Comments, bodies and temporary tables define nothing."""
    found = read_outline(text, "a.sql")
    assert (found and [(one.heading, one.first_line, one.last_line) for one in found]) == rows


def test_passages_of_statements_have_headings() -> None:
    """A comment belongs to the statement after it; no text is lost."""
    found = read_passages(BATCHES, "a.sql", entries=False, by_syntax=True)
    sections = {one.section: BATCHES[one.start : one.end] for one in found}
    assert sections["dbo > GetOrders"].startswith("-- Reads the orders")
    assert "USE shop" not in sections["dbo > GetOrders"]
    covered = "".join(BATCHES[one.start : one.end] for one in found)
    assert "".join(covered.split()) == "".join(BATCHES.split())


def test_a_file_that_can_be_read_has_its_tree() -> None:
    """The statements are for pieces without a tree, and for no other language."""
    text = b"CREATE TABLE a (b int);\n"
    sql, python = grammar_of(".sql"), grammar_of(".py")
    assert sql is not None
    assert python is not None
    pieces = [Piece(0, len(text), None)]
    assert [one.name for one in sql_statements(text, pieces, sql)] == ["a"]
    assert not list(sql_statements(text, pieces, python))
    assert not list(sql_statements(text, [], sql))


@pytest.mark.deep
@pytest.mark.parametrize(
    "unit", ["create table a ((\n", "--\n", "/* create ", "go\ncreate proc a\n"]
)
def test_half_a_million_bytes_of_near_statements_end(unit: str) -> None:
    """The time is linear; a quadratic search would not end within the limit of a test."""
    text = (unit * ((1 << 19) // len(unit))).encode()
    sql = grammar_of(".sql")
    assert sql is not None
    assert all(
        one.start < one.end for one in sql_statements(text, [Piece(0, len(text), None)], sql)
    )
