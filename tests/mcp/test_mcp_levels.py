"""Abstracts and overviews over MCP: list, and the levels of read."""

from __future__ import annotations

from mcp import Client

from tests.mcp.mcp_helpers import failed, run, told
from vikingd.client import Client as Daemon
from vikingd.client import Draft

TOP = "viking://resources/levels"
OOLONG = "Oolong tea is brewed at ninety degrees for three minutes."
STEPS = "\n\n".join(f"## Step {n}\n\nPour for {n} minutes. {OOLONG * 3}" for n in range(40))


def test_a_model_reads_as_much_as_it_wants(daemon: str) -> None:
    """A directory tells its contents in a line, then in a list; a file its headings."""
    with Daemon(daemon) as filler:
        filler.put(
            [Draft(f"{TOP}/hot/tea.md", content=OOLONG), Draft(f"{TOP}/a.md", content=STEPS)]
        )

    async def test(client: Client) -> None:
        listed = {one["uri"]: one for one in (await told(client, "list", uri=TOP))["entries"]}
        assert listed[f"{TOP}/hot"]["abstract"] == OOLONG
        brief = await told(client, "read", uri=TOP, level="abstract")
        assert OOLONG in brief["content"]
        for level in ("content", "overview"):
            parts = await told(client, "read", uri=TOP, level=level)
            assert parts["content"].startswith("- hot/: Oolong tea")
            assert not parts.get("revision")
        headings = await told(client, "read", uri=f"{TOP}/a.md", level="overview", max_tokens=300)
        assert headings["content"].startswith("- Step 0: ")
        assert "and level=overview." in headings["rest"]
        assert "revision" not in headings
        further = await told(
            client, "read", uri=f"{TOP}/a.md", level="overview", offset=len(headings["content"])
        )
        assert "Step 39" in further["content"]
        assert "revision" not in further
        short = await told(client, "read", uri=f"{TOP}/hot/tea.md", level="overview")
        assert (short["content"], short["rest"]) == (
            "",
            "It has no overview: read it without level.",
        )
        said = await failed(client, "read", uri=f"{TOP}/a.md", level="overview", lines="1-2")
        assert "lines" in said
        assert "abstract" in await failed(client, "read", uri=TOP, level="some")

    run(test, daemon)
