"""The result of an import."""

from __future__ import annotations

from dataclasses import dataclass, field

from vikingd.client.batch_results import Failure
from vikingd.ingest.import_remarks import (
    Assumed,
    LeftOut,
    ManyPassages,
    Remark,
    Renamed,
    SecretLeftOut,
    Unreadable,
)
from vikingd.sources.fetch_result import NotTaken


@dataclass(slots=True)
class ImportSummary:
    """The result of an import, or its plan with `dry_run`.

    Attributes:
        end: "done", "interrupted" or "failed".
        moved: the number of contexts that were renamed; only a watched folder has some.
        linked: the number of links of the import that exist now, old or new.
        revision: the first revision with all changes; 0 if nothing was sent.
        planned: (change, URI) of each planned change of a dry run.
        unreadable: the files, lines and parts of files that were not imported.
        failed: the contexts that the daemon refused.
        as_text: the values of front matter that became text or were left out, and the files whose
            whole front matter became text.
        left_out: the files and directories that a rule leaves out, and the parts left out of files
            that are otherwise imported. Of such a directory nothing is read.
        kept: the URIs of files and directories that are left out now but are still stored, without
            those below another one. `delete` does not remove them.
        renamed: the files and directories whose names were not in NFC; their URIs are.
        secrets: the secrets that were replaced by a marker, by file and line. A file that consists
            of secrets, such as a private key, is in `left_out`.
        encodings: the text files whose encoding was assumed or detected.
        many_passages: the files with very many passages, such as one long line of words.
        not_taken: the pages, files and members of an address that did not come in.
        not_moved: the contexts whose files were renamed, and that were written anew.
        commit: the commit of an imported repository.
        is_unchanged: True if a source has not changed since its last import, and was not compared.
    """

    end: str = "failed"
    dry_run: bool = False
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    moved: int = 0
    linked: int = 0
    revision: int = 0
    seconds: float = 0.0
    unreadable: list[Unreadable] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    as_text: list[Failure] = field(default_factory=list)
    planned: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    renamed: list[Renamed] = field(default_factory=list)
    secrets: list[SecretLeftOut] = field(default_factory=list)
    encodings: list[Assumed] = field(default_factory=list)
    many_passages: list[ManyPassages] = field(default_factory=list)
    not_taken: list[NotTaken] = field(default_factory=list)
    not_moved: list[Failure] = field(default_factory=list)
    commit: str = ""
    is_unchanged: bool = False

    def tell(self, remark: Remark) -> None:
        """Add a remark on a file to the list of its kind."""
        if isinstance(remark, LeftOut):
            self.left_out.append(remark)
        elif isinstance(remark, Renamed):
            self.renamed.append(remark)
        elif isinstance(remark, SecretLeftOut):
            self.secrets.append(remark)
        elif isinstance(remark, ManyPassages):
            self.many_passages.append(remark)
        else:
            self.encodings.append(remark)
