"""Sources in other encodings than UTF-8 are cut as the same in UTF-8."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.code_cases import cases
from vikingd.domain.contexts import Draft
from vikingd.ingest.code.outline import outline
from vikingd.ingest.file_syntax import comment_mark
from vikingd.ingest.files import read_tree
from vikingd.ingest.formats.encodings import decode
from vikingd.ingest.passages import split
from vikingd.ingest.selected_files import Selection

CHINESE = "防波堤和灯塔在去年的风暴以后都修好了，港口的费用从今年起每天增加十元，渔船除外。"
JAPANESE = "昨年の嵐のあと、防波堤と灯台はすべて修理されました。港の料金は今年から上がります。"
FRENCH = (
    "Après la tempête de l'année dernière, la jetée a été réparée à grands frais, et les droits du "
    "port sont dès cette année plus élevés pour les bateaux étrangers."
)


@pytest.mark.parametrize(
    ("codec", "words"),
    [
        ("gb18030", CHINESE),
        ("shift_jis", JAPANESE),
        ("euc_jp", JAPANESE),
        ("utf-16", CHINESE),
        ("utf-16-le", JAPANESE),
        ("utf-16-be", FRENCH),
        ("latin-1", FRENCH),
    ],
    ids=lambda value: value if value.isascii() else "",
)
def test_the_cut_is_that_of_utf8(codec: str, words: str, tmp_path: Path) -> None:
    """Each source of the table with a remark in some language has the same text in any encoding."""
    for case in cases():
        source = f"{case.source}\n{comment_mark(case.file)} {words}\n"
        if source.encode(codec, "ignore").decode(codec) == source:
            assert decode(source.encode(codec)).text == source, case.title
    (tmp_path / "a.py").write_bytes(f"# {words}\ndef harbour():\n    return 1\n".encode(codec))
    drafts = read_tree(tmp_path, "viking://resources/t", selection=Selection())
    (draft,) = (one for one in drafts if isinstance(one, Draft) and not one.is_directory)
    assert [one.section for one in split(draft.content, "a.py")] == ["harbour"]
    assert [one.heading for one in outline(draft.content, "a.py") or ()] == ["harbour"]
    assert draft.content.startswith(f"# {words}\n")
