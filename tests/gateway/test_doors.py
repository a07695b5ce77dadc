"""All doors of one daemon with keys: what one writes all others see, and each asks for a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.gateway.doors_helpers import Chromium, Curl, Door, McpHttp, McpStdio, NodeDoor, Refused
from tests.gateway.node_helpers import built
from tests.gateway.page_helpers import Browser, Site, site
from vikingd.client import Client, Draft

HOME = "viking://resources/doors"
HIDDEN = "viking://resources/hidden/plan.md"
pytestmark = pytest.mark.deep

DOORS = ("node", "curl", "mcp-stdio", "mcp-http", "chromium")
WRONG = "vk_00000000_" + "0" * 64


@dataclass
class House:
    """A daemon with keys, its gateway, and the doors by their names."""

    at: Site
    keys: dict[str, str]
    doors: dict[str, Callable[[str], Door]]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[House]:
    """Yield a daemon with the keys of an operator, a user, a revoked one and a reader."""
    client_directory = built(tmp_path_factory.mktemp("node"))
    with site(tmp_path_factory.mktemp("doors") / "store") as at:
        operator = at.client.create_key(operator=True).secret
        with Client(at.address, key=operator) as client:
            client.put(
                [Draft(HIDDEN, content="The zebra plan."), Draft(f"{HOME}/a.md", content="a")]
            )
            both = [HOME, "viking://user/memories"]
            keys = {
                "user": client.create_key(write=both).secret,
                "reader": client.create_key(read=both).secret,
            }
            gone = client.create_key(write=both)
            client.revoke_key(gone.key.id)
            keys |= {"revoked": gone.secret, "wrong": WRONG, "none": ""}
        doors: dict[str, Callable[[str], Door]] = {
            "node": lambda key: NodeDoor(client_directory, at.address, key),
            "curl": lambda key: Curl(at.url, key),
            "mcp-stdio": lambda key: McpStdio(at.address, key),
            "mcp-http": lambda key: McpHttp(at.url, key),
            "chromium": lambda key: Chromium(browser, at, key),
        }
        yield House(at, keys, doors)


@pytest.mark.parametrize("name", DOORS)
def test_a_door_finds_reads_writes_remembers_and_recalls(house: House, name: str) -> None:
    """Each door does all five, and curl sees what it wrote."""
    door, other = house.doors[name](house.keys["user"]), house.doors["curl"](house.keys["user"])
    word = name.replace("-", "")
    uri = f"{HOME}/of-{word}.md"
    door.write(uri, f"The lantern of {word} burns.")
    assert door.read(uri) == other.read(uri) == f"The lantern of {word} burns."
    assert uri in door.find(f"lantern of {word}")
    assert uri in other.find(f"lantern of {word}")
    door.remember(f"Prefers the harbour of {word}.")
    for each in (door, other):
        assert any(f"harbour of {word}" in memory for memory in each.recall(f"harbour of {word}"))


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize(
    ("key", "text"), [("none", "key|Sign in"), ("wrong", "key"), ("revoked", "revoked")]
)
def test_a_door_asks_for_a_valid_key(house: House, name: str, key: str, text: str) -> None:
    """Without a right key nothing is answered, and the caller is told why."""
    door = house.doors[name](house.keys[key])
    with pytest.raises(Refused, match=text):
        door.find("lantern")


@pytest.mark.parametrize("name", DOORS)
def test_a_door_holds_the_rights_of_the_key(house: House, name: str) -> None:
    """A reader writes nothing, and what a key may not read does not exist for it."""
    reader = house.doors[name](house.keys["reader"])
    assert HIDDEN not in reader.find("zebra plan")
    with pytest.raises(Refused, match=r"plan\.md"):
        reader.read(HIDDEN)
    uri = f"{HOME}/forbidden.md"
    with pytest.raises(Refused, match=r"right|may not|write"):
        reader.write(uri, "forbidden")
    with pytest.raises(Refused):
        reader.read(uri)
