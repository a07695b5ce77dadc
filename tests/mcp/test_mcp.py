"""The tools, resources and the prompt of the MCP server, against a real daemon."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mcp import Client

from tests.answer.intent_helpers import PLANNED, Asked
from tests.daemons import serving
from tests.mcp.mcp_helpers import TREE_TEA as TEA
from tests.mcp.mcp_helpers import failed, run, sections, told
from tests.patience import eventually
from vikingd.client import AsyncClient, Draft
from vikingd.client import Client as Daemon
from vikingd.mcp.mcp_server import WRITING, tools
from vikingd.mcp.pattern_tools import grep
from vikingd.mcp.tool import DESCRIPTIONS
from vikingd.mcp.tool_answers import FoundFile
from vikingd.mcp.write_tools import write


def test_the_tools_say_what_they_change(daemon: str) -> None:
    """Each tool has its description, typed arguments and results, and the hints of its effect."""

    async def test(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == set(DESCRIPTIONS)
        for name, tool in tools.items():
            assert tool.description == DESCRIPTIONS[name]
            assert tool.input_schema["additionalProperties"] is False
            for argument in tool.input_schema["properties"].values():
                assert argument["type"]
                assert "title" not in argument
            assert tool.annotations
            assert tool.annotations.read_only_hint is (name not in WRITING)
            assert tool.annotations.open_world_hint is False
        hints = {name: tool.annotations for name, tool in tools.items() if name in WRITING}
        assert {name: hint and hint.destructive_hint for name, hint in hints.items()} == {
            "remember": False,
            "write": True,
            "forget": True,
        }

    run(test, daemon)


def test_a_read_only_server_has_no_tool_that_writes(tree: Daemon) -> None:
    """With read_only the writing tools are gone, and no tool counts an access."""

    async def test(client: Client) -> None:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == set(DESCRIPTIONS) - set(WRITING)
        for name in WRITING:
            assert name in await failed(client, name)
        recalled = await told(client, "recall", query="oolong", used=[kept.id])
        assert [memory["content"] for memory in recalled["memories"]] == ["Drinks oolong."]

    kept = tree.remember("Drinks oolong.", "preferences")
    run(test, tree.address, read_only=True)
    tree.recall("oolong", used=[kept.id])  # counted within a second, as all before it
    eventually(lambda: tree.recall("oolong", no_touch=True).results[0].access_count == 1)


def test_find_gives_files_with_their_passages(tree: Daemon) -> None:
    """A find gives URIs, types, scores and passages, whose offsets and lines read understands."""

    async def test(client: Client) -> None:
        found = await told(client, "find", query="oolong")
        best = found["results"][0]
        [passage] = best["passages"]
        read = await told(client, "read", uri=best["uri"], offset=passage["offset"])
        assert read["content"].startswith(passage["content"])
        read = await told(client, "read", uri=best["uri"], lines=passage["lines"])
        assert read["content"].strip() == passage["content"]
        again = await told(client, "read", uri=f"{best['uri']}:{passage['lines']}")
        assert (again["uri"], again["content"]) == (best["uri"], read["content"])
        only = await told(client, "find", query="oolong", types=["skill"])
        [skill] = only["results"]
        assert (skill["type"], skill["abstract"]) == ("skill", "Brews tea.")
        below = await told(client, "find", query="oolong", target_uri="viking://resources")
        assert [result["uri"] for result in below["results"]] == [TEA]
        one = await told(client, "find", query="oolong", limit=1)
        assert len(one["results"]) == 1

    run(test, tree.address)


def test_find_takes_a_kind_of_file(tree: Daemon) -> None:
    """Only files of the kind are found, and a kind that no import gives is told with the others."""
    uri = "viking://resources/src/kettle.py"
    tree.put([Draft(uri, content="oolong = 90", metadata={"kind": "source"})])

    async def test(client: Client) -> None:
        found = await told(client, "find", query="oolong", kind="source")
        assert [result["uri"] for result in found["results"]] == [uri]
        assert not (await told(client, "find", query="oolong", kind="test")).get("note")
        wrong = await told(client, "find", query="oolong", kind="tests")
        assert wrong["results"] == []
        assert "no kind 'tests', but one of: source, test, documentation" in wrong["note"]

    run(test, tree.address)


def test_find_names_the_questions_that_it_searched(tree: Daemon) -> None:
    """Two questions in one request are two queries of the answer; one question is none."""

    async def test(client: Client) -> None:
        questions = ["How hot is oolong steeped?", "how fine is coffee ground?"]
        found = await told(client, "find", query=" Also, ".join(questions))
        assert found["queries"] == questions
        assert "queries" not in await told(client, "find", query=questions[0])

    run(test, tree.address)


def test_a_result_names_its_twin_in_both_forms() -> None:
    """A model can read the page in the other language."""
    found = FoundFile(
        uri="viking://resources/zh/x.md", type="resource", score=0.5, twin="viking://y"
    )
    assert found.model_dump()["twin"] == "viking://y"
    assert found.text(1).endswith("\n   the same in another language: viking://y")


def test_search_says_when_the_messages_are_not_read(tree: Daemon) -> None:
    """Without a model that plans, a search with messages says so; its queries are shown."""

    async def test(client: Client) -> None:
        said = [{"role": "user", "content": "I want to drink something."}]
        found = await told(client, "search", query="Help me steep oolong", messages=said)
        assert "steep oolong" in found["queries"]
        assert TEA in [result["uri"] for result in found["results"]]
        assert "messages were not read" in found["note"]
        assert "note" not in await told(client, "search", query="oolong")

    run(test, tree.address)


def test_search_sends_the_conversation(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages reach the model that plans, and its queries are shown."""
    monkeypatch.setenv("VIKINGD_PLANNER__BASE_URL", f"{asked.server.url}/v1")
    monkeypatch.setenv("VIKINGD_PLANNER__MODEL", "m")

    async def test(client: Client) -> None:
        said = [{"role": "user", "content": "It is about the teapot."}]
        found = await told(client, "search", query="Go on", messages=said)
        assert found["queries"] == [PLANNED["query"]]
        assert "note" not in found

    with serving("--provider", "none") as where:
        run(test, where)
    assert "It is about the teapot." in json.dumps(asked.server.requests[-1].json)


def test_a_memory_is_remembered_recalled_and_forgotten(tree: Daemon) -> None:
    """A memory is added, reinforced by a repetition, recalled with its id, and forgotten by it."""

    async def test(client: Client) -> None:
        fact = {"text": "Drinks oolong.", "memory_type": "preferences", "project": "lamp"}
        added = await told(client, "remember", **fact)
        assert added["outcome"] == "added"
        again = await told(client, "remember", **fact | {"text": "drinks oolong"})
        assert (again["outcome"], again["near"]) == ("reinforced", "Drinks oolong.")
        recalled = await told(client, "recall", query="what does she drink?", project="lamp")
        [memory] = recalled["memories"]
        assert memory["id"] == added["id"]
        assert memory["said"] == 2
        forgotten = await told(client, "forget", ids=[memory["id"]])
        assert forgotten["memories"] == ["drinks oolong"]
        assert (await told(client, "recall", query="drink", project="lamp"))["memories"] == []

    run(test, tree.address)


def test_a_request_to_forget_is_not_remembered(tree: Daemon) -> None:
    """Remember stores no request, and names the memories that it means; nothing is forgotten."""

    async def test(client: Client) -> None:
        home = await told(client, "remember", text="The user lives in Rome.", memory_type="profile")
        for text in ("Forget that I live in Rome.", "Please forget where I live."):
            asked = await told(client, "remember", text=text, memory_type="profile")
            assert asked["outcome"] == "not_stored"
            assert [one["id"] for one in asked["to_forget"]] == [home["id"]]
        none = await told(client, "remember", text="忘掉我的生日吧。", memory_type="profile")
        assert none == {"outcome": "not_stored", "note": "nothing known matches"}
        recalled = await told(client, "recall", query="where does the user live?")
        assert [one["content"] for one in recalled["memories"]] == ["The user lives in Rome."]

    run(test, tree.address)


def test_forgetting_by_words(tree: Daemon) -> None:
    """Forget does what is without doubt, names the rest, and keeps no turn of an episode."""

    async def test(client: Client) -> None:
        for text in ("The user lives in Rome.", "The user's car is red.", "The user sold the car."):
            await told(client, "remember", text=text, memory_type="profile")
        for about in ("that I live in Rome", "where I live"):
            forgotten = await told(client, "forget", about=about)
            expected = ["The user lives in Rome."] if about.startswith("that") else []
            assert forgotten.get("memories", []) == expected
        doubt = await told(client, "forget", about="my car")
        assert [one["content"] for one in doubt["in_doubt"]] == [
            "The user sold the car.",
            "The user's car is red.",
        ]
        assert doubt["note"] == "several different memories match"
        ids = [one["id"] for one in doubt["in_doubt"]]
        assert len((await told(client, "forget", ids=ids))["memories"]) == 2
        assert "names nothing to forget" in await failed(
            client, "forget", about='"I said that I like green tea"'
        )
        assert "Give ids or a uri" in await failed(client, "forget", about="my car", ids=ids)
        assert (await told(client, "recall", query="forget car Rome"))["memories"] == []

    run(test, tree.address)


def test_a_recall_of_a_project_has_the_general_memories_too(tree: Daemon) -> None:
    """A recall with a project looks at its memories and at those of no project."""

    async def test(client: Client) -> None:
        await told(client, "remember", text="Drinks oolong.", memory_type="preferences")
        recalled = await told(client, "recall", query="oolong", project="lamp")
        assert [memory["content"] for memory in recalled["memories"]] == ["Drinks oolong."]

    run(test, tree.address)


def test_a_write_replaces_only_what_was_read(tree: Daemon) -> None:
    """A write without the revision of a read never changes a file; with it, it does."""

    async def test(client: Client) -> None:
        text = {"uri": TEA, "content": "# Tea\n\nOolong: 85 degrees.\n"}
        assert "exists already" in await failed(client, "write", **text)
        read = await told(client, "read", uri=TEA)
        tree.put([Draft(TEA, content="# Tea\n\nFrom another writer.\n")])
        stale = text | {"expected_revision": read["revision"]}
        assert "was changed since you read it" in await failed(client, "write", **stale)
        assert "was changed since" in await failed(
            client, "forget", uri=TEA, expected_revision=read["revision"]
        )
        assert tree.get(TEA).content == "# Tea\n\nFrom another writer.\n"
        read = await told(client, "read", uri=TEA)
        written = await told(client, "write", **text, expected_revision=read["revision"])
        assert written["outcome"] == "updated"
        assert tree.get(TEA).content == text["content"]
        assert tree.get(TEA).revision == written["revision"]
        gone = await told(client, "forget", uri=TEA, expected_revision=written["revision"])
        assert gone["uris"] == [TEA]
        missing = await failed(client, "write", **text, expected_revision=written["revision"])
        assert "does not exist" in missing

    run(test, tree.address)


def test_a_write_keeps_the_fields_that_it_does_not_name(tree: Daemon) -> None:
    """A write of a new text keeps title, abstract and metadata of the file."""

    async def test(client: Client) -> None:
        uri = "viking://resources/kept.md"
        await told(client, "write", uri=uri, content="One.", title="T", abstract="About one.")
        tree.put([Draft(uri, metadata={"year": 2026}, update_mask={"metadata"})])
        read = await told(client, "read", uri=uri)
        await told(client, "write", uri=uri, content="Two.", expected_revision=read["revision"])
        kept = tree.get(uri)
        assert (kept.title, kept.abstract, kept.metadata) == ("T", "About one.", {"year": 2026})
        assert kept.content == "Two."

    run(test, tree.address)


def test_a_write_does_not_give_the_revision_of_another_writer(tree: Daemon) -> None:
    """If another writer is quicker than the read after a write, the write gives no revision."""
    uri = "viking://resources/raced.md"

    async def test(client: Client) -> None:
        del client

        class Raced(AsyncClient):
            async def get(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
                await asyncio.to_thread(tree.put, [Draft(uri, content="Another.")])
                return await AsyncClient.get.__get__(self, AsyncClient)(*args, **kwargs)

        async with Raced(tree.address) as raced:
            assert (await write(raced, uri, "Mine.")).revision is None

    run(test, tree.address)


def test_a_file_comes_in_parts(tree: Daemon) -> None:
    """The parts of a long file make the file, and only the last one has the revision."""
    content = sections(40) + "最后一段。" * 200
    tree.put([Draft("viking://resources/long.md", content=content)])

    async def test(client: Client) -> None:
        parts: list[str] = []
        for _ in range(50):
            offset = sum(map(len, parts))
            read = await told(
                client, "read", uri="viking://resources/long.md", offset=offset, max_tokens=600
            )
            parts.append(read["content"])
            if "rest" not in read:
                break
            assert "revision" not in read
            assert f"offset={sum(map(len, parts))}" in read["rest"]
        assert "".join(parts) == content
        assert len(parts) > 5
        assert read["revision"] == tree.get("viking://resources/long.md").revision

    run(test, tree.address)


def test_lines_come_in_parts(tree: Daemon) -> None:
    """Lines that have no room in one answer are read on to the last of them, and not behind it."""
    content = "".join(f"Line {number} of a long file.\n" for number in range(1, 401))
    tree.put([Draft("viking://resources/long.md", content=content)])

    async def test(client: Client) -> None:
        uri, seen, more = "viking://resources/long.md", "", {}
        for _ in range(50):
            read = await told(client, "read", uri=uri, lines="100-300", max_tokens=600, **more)
            seen += read["content"]
            if "rest" not in read:
                break
            offset = read["offset"] + len(read["content"])
            assert read["rest"] == f"Cut: read again with offset={offset} and lines=100-300."
            more = {"offset": offset}
        assert seen.splitlines() == content.splitlines()[99:300]

    run(test, tree.address)


def test_a_listing_comes_in_parts(tree: Daemon) -> None:
    """The parts of a listing make the listing, of one level and of several."""
    made = [f"viking://resources/many/{n // 10:02}/{n:03}.md" for n in range(90)]
    tree.put([Draft(uri, content=f"File {uri[-6:]}") for uri in made])

    async def test(client: Client) -> None:
        for depth, expected in ((1, 9), (2, 99)):
            seen: list[str] = []
            for _ in range(50):
                arguments = {"depth": depth, "offset": len(seen), "max_tokens": 400}
                listed = await told(client, "list", uri="viking://resources/many", **arguments)
                seen += [entry["uri"] for entry in listed["entries"]]
                if "offset=" not in listed.get("rest", ""):
                    break
                assert f"offset={len(seen)}." in listed["rest"]
            assert len(seen) == len(set(seen)) == expected
        assert set(made) < set(seen)
        past = await told(client, "list", uri="viking://resources/many", offset=500)
        assert (past["entries"], bool(past["rest"])) == ([], True)

    run(test, tree.address)


def test_grep_and_glob_come_in_parts(tree: Daemon) -> None:
    """The parts of many matches are all of them, each once, in order."""
    made = [f"viking://resources/many/{n:03}.txt" for n in range(150)]
    tree.put([Draft(uri, content=f"needle {uri[-7:-4]}\n") for uri in made])

    async def test(client: Client) -> None:
        for tool, pattern, items in (("grep", "needle", "lines"), ("glob", "**/*.txt", "entries")):
            seen: list[str] = []
            for _ in range(50):
                more = {"offset": len(seen), "max_tokens": 500}
                part = await told(client, tool, pattern=pattern, **more)
                seen += [one["uri"] for one in part[items]]
                if "rest" not in part:
                    break
                assert f"offset={len(seen)}." in part["rest"]
            assert seen == made

    run(test, tree.address)


def test_a_search_of_the_tree_ends_in_time(tree: Daemon) -> None:
    """If the time ends before the last file, what was found is given, and the rest is told."""

    class Slow(AsyncClient):
        async def grep(self, *_: Any, **__: Any) -> Any:  # type: ignore[override]
            async for match in AsyncClient.grep.__get__(self, AsyncClient)("Oolong", TEA):
                yield match
            await asyncio.sleep(60)

    async def main() -> None:
        async with Slow(tree.address, 0.5) as slow:
            async with asyncio.timeout(5):
                found = await grep(slow, "Oolong")
            assert [line.uri for line in found.lines] == [TEA]
            assert "target_uri" in found.rest

    asyncio.run(main())


def test_a_built_context_names_its_sources(tree: Daemon) -> None:
    """A built context has a text whose markers are its sources; missing files are told."""

    async def test(client: Client) -> None:
        built = await told(client, "build_context", query="oolong")
        for source in built["sources"]:
            assert source["marker"] in built["content"]
        assert TEA in [source["uri"] for source in built["sources"]]
        missing = "viking://resources/missing.md"
        of_files = await told(client, "build_context", uris=[TEA, missing])
        assert [source["uri"] for source in of_files["sources"]] == [TEA]
        assert missing in of_files["note"]
        assert "one of them" in await failed(client, "build_context")
        assert "one of them" in await failed(client, "build_context", query="a", uris=[TEA])

    run(test, tree.address)


def test_a_directory_is_read_and_not_forgotten(tree: Daemon) -> None:
    """A read of a directory points at list, and forget removes files alone."""

    async def test(client: Client) -> None:
        directory = {"uri": "viking://resources/drinks"}
        read = await told(client, "read", **directory)
        assert read["directory"]
        assert "list" in read["rest"]
        assert "revision" not in read
        assert "directory" in await failed(client, "forget", **directory, expected_revision=1)
        assert "expected_revision" in await failed(client, "forget", uri=TEA)
        assert tree.get(TEA).content

    run(test, tree.address)


def test_both_forms_of_an_answer_say_the_same(tree: Daemon) -> None:
    """The text form has the URIs and texts of the structured one, which is an Answer."""

    async def test(client: Client) -> None:
        nobody: Any = None
        made = tools(lambda _: nobody, read_only=False)
        typed = {tool.name: tool.fn_metadata.output_model for tool in made}
        calls: dict[str, dict[str, Any]] = {
            "find": {"query": "oolong"},
            "search": {"query": "oolong"},
            "recall": {"query": "oolong"},
            "build_context": {"query": "oolong"},
            "read": {"uri": TEA},
            "list": {"uri": "viking://resources/drinks"},
            "grep": {"pattern": "Oolong"},
            "glob": {"pattern": "**/*.md"},
            "outline": {"uri": TEA},
            "remember": {"text": "Drinks oolong.", "memory_type": "journal"},
            "write": {"uri": "viking://resources/new.md", "content": "New."},
        }
        for name, arguments in calls.items():
            result = await client.call_tool(name, arguments)
            model = typed[name]
            assert model is not None
            answer = model.model_validate(result.structured_content)
            assert answer.model_dump(exclude_defaults=True) == result.structured_content
            [text] = result.content
            assert_said(result.structured_content, text.text)  # type: ignore[union-attr]

    tree.remember("Likes oolong.", "preferences")
    run(test, tree.address)


def assert_said(value: Any, text: str) -> None:
    """Assert that a text has each line of the strings in a value."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name != "section":
                assert_said(item, text)
    elif isinstance(value, list):
        for item in value:
            assert_said(item, text)
    elif isinstance(value, str):
        assert all(line in text for line in value.splitlines()), value
