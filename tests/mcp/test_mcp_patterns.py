"""Grep and Glob over MCP."""

from __future__ import annotations

from mcp import Client

from tests.mcp.mcp_helpers import failed, run, told


def test_exact_text_and_names_are_found(daemon: str) -> None:
    """Grep gives lines by number, which read takes; glob gives names; both go on where they end."""

    async def test(client: Client) -> None:
        home = "viking://resources/exact"
        for name in ("a", "b"):
            text = f"# {name}\n\nError E4711 in {name}.\nNo error.\nE4712 (twice) E4712"
            await told(client, "write", uri=f"{home}/{name}.md", content=text)
        found = await told(client, "grep", pattern=r"E47\d+", target_uri=home)
        assert [(line["uri"], line["line"]) for line in found["lines"]] == [
            (f"{home}/{name}.md", number) for name in ("a", "b") for number in (3, 5)
        ]
        exact = await told(client, "grep", pattern="2 (twice)", target_uri=home, literal=True)
        assert [line["line"] for line in exact["lines"]] == [5, 5]
        part = await told(client, "read", uri=f"{home}/a.md", line=5)
        assert part["content"] == "E4712 (twice) E4712"
        assert "lines" in await failed(client, "read", uri=f"{home}/a.md", line=99)
        part = await told(client, "read", uri=f"{home}/a.md", lines="3-4")
        assert part["content"] == "Error E4711 in a.\nNo error.\n"
        assert not part.keys() & {"rest", "revision"}
        part = await told(client, "read", uri=f"{home}/a.md", lines="1")
        assert part["content"] == "# a\n"
        whole = await told(client, "read", uri=f"{home}/a.md", lines="4:99")
        assert (whole["content"][:9], "revision" in whole) == ("No error.", True)
        for wrong in ({"lines": "3-2"}, {"lines": "99"}, {"line": 1, "lines": "1"}):
            assert "lines" in await failed(client, "read", uri=f"{home}/a.md", **wrong)
        for wrong in ({"offset": 9, "lines": "1"}, {"lines": "first"}):
            assert "lines: " in await failed(client, "read", uri=f"{home}/a.md", **wrong)
        assert "pattern" in await failed(client, "grep", pattern="(?=x)", target_uri=home)
        names = await told(client, "glob", pattern="*.md", target_uri=home)
        assert [entry["uri"] for entry in names["entries"]] == [f"{home}/a.md", f"{home}/b.md"]
        rest = await told(client, "glob", pattern="*.md", target_uri=home, offset=1)
        assert [entry["uri"] for entry in rest["entries"]] == [f"{home}/b.md"]

    run(test, daemon)
