"""The lines of the sources of a built context."""

from __future__ import annotations

import pytest

from vikingd.client import ContextItem, Draft, Mode, Passage, find_request, retrieve_request
from vikingd.client.messages import MessageClient
from vikingd.pb.retrieval_pb2 import BuildContextResponse

pytestmark = pytest.mark.stores

FILE = "viking://resources/code/client.py"
PASSAGES = (
    "\ndef connect(address):\n    # oolong at ninety degrees, steeped three minutes\n    pass\n\n",
    "def request(path):\n\n    # oolong again, and a longer remark on what is poured\n    pass\n\n",
    "def close():\n    # the third oolong, poured into small cups of porcelain\n    pass",
)
CONTENT = f"import ssl\n\n{PASSAGES[0]}\n{PASSAGES[1]}\n\n# no passage\n\n{PASSAGES[2]}\n"


@pytest.fixture
def filled(client: MessageClient) -> MessageClient:
    """Return the client of a daemon with a file of three passages, two of which are neighbours."""
    starts = [CONTENT.index(passage) for passage in PASSAGES]
    cut = [Passage("", at, at + len(one)) for at, one in zip(starts, PASSAGES, strict=True)]
    client.put([Draft(FILE, content=CONTENT, passages=tuple(cut))])
    return client


def cited(reply: BuildContextResponse) -> list[tuple[str, str]]:
    """Return the text of each citation of a content, and its lines in the file."""
    lines = CONTENT.splitlines(keepends=True)
    return [
        (reply.text[one.start : one.end], "".join(lines[one.first_line - 1 : one.last_line]))
        for one in reply.citations
        if one.level == 2
    ]


def test_a_citation_has_the_lines_of_its_text(filled: MessageClient) -> None:
    """However the pieces are chosen, the lines of a citation are those that the text shows."""
    retrieval = retrieve_request("oolong", mode=Mode.KEYWORD)
    for reply, count in (
        (filled.build_context(find=find_request("oolong"), max_tokens=2000), 2),
        (filled.build_context(retrieve=retrieval, max_tokens=2000), 2),
        (
            filled.build_context(
                items=[ContextItem(FILE, 3), ContextItem(FILE, 1)], max_tokens=2000
            ),
            2,
        ),
        (filled.build_context(uris=[FILE], max_tokens=2000), 1),
    ):
        found = cited(reply)
        assert len(found) == count, reply
        assert [text for text, _ in found] == [lines.removesuffix("\n") for _, lines in found]


def test_lines_end_where_a_text_is_cut(filled: MessageClient) -> None:
    """A cut text has the lines as far as it is shown, and a summary has none."""
    ends = set()
    for most in range(8, 60, 3):
        reply = filled.build_context(
            items=[ContextItem(FILE, 2)], max_tokens=most, reserve_tokens=0
        )
        for text, lines in cited(reply):
            assert lines.startswith(text.removesuffix("…").rstrip()), reply
            assert text.removesuffix("…").rstrip().count("\n") == lines.rstrip().count("\n")
            ends.add(lines)
        assert all(not one.first_line for one in reply.citations if one.level < 2)
    assert len(ends) > 1
