"""The choice of files: patterns, ignore files, sizes, and names in NFC."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.ingest.selection_helpers import HAS_GIT, TOP, Case, forget_settings, git, make, taken
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import InvalidField
from vikingd.ingest.file_tree import FileTree
from vikingd.ingest.files import read_tree
from vikingd.ingest.import_remarks import LeftOut, Unreadable
from vikingd.ingest.selected_files import Selection


@pytest.fixture(autouse=True)
def _no_global_excludes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the settings of this machine out."""
    forget_settings(monkeypatch, tmp_path)


CASES = [
    Case("a name anywhere", "secret.env a.md sub/secret.env", {".gitignore": "secret.env"}, "a.md"),
    Case("directories", "dist/x.md sub/dist/y.md dist.md", {".gitignore": "dist/"}, "dist.md"),
    Case("a directory's rule spares a file", "build a.md", {".gitignore": "build/"}, "a.md build"),
    Case("anchored", "build/x.md sub/build/y.md", {".gitignore": "/build"}, "sub/build/y.md"),
    Case("anchored by a slash", "a/b/x.md c/a/b/y.md", {".gitignore": "a/b"}, "c/a/b/y.md"),
    Case("suffixes", "a.log b.md sub/c.log", {".gitignore": "*.log"}, "b.md"),
    Case("negation", "a.log keep.log", {".gitignore": "*.log\n!keep.log"}, "keep.log"),
    Case("the last line decides", "a.log b.log", {".gitignore": "!a.log\n*.log"}, ""),
    Case("nothing comes back from below", "d/keep.md d/x.md", {".gitignore": "d/\n!d/keep.md"}, ""),
    Case("below, but not the directory", "d/k.md d/x.md", {".gitignore": "d/*\n!d/k.md"}, "d/k.md"),
    Case("two stars behind", "d/k.md d/e/x.md", {".gitignore": "d/**\n!d/k.md"}, "d/k.md"),
    Case("two stars before", "x/a.md a.md b.md", {".gitignore": "**/a.md"}, "b.md"),
    Case("two stars within", "a/b a/x/b a/x/y/b a/c", {".gitignore": "a/**/b"}, "a/c"),
    Case("classes", "a1.md a2.md ab.md", {".gitignore": "a[0-9].md"}, "ab.md"),
    Case("no class", "a1.md ab.md", {".gitignore": "a[!0-9].md"}, "a1.md"),
    Case("one character", "a.md ab.md", {".gitignore": "?.md"}, "ab.md"),
    Case("comments and blanks", "a.md #b", {".gitignore": "# a.md\n\n   \n\\#b"}, "a.md"),
    Case("a mark that is meant", "!a.md b.md", {".gitignore": "\\!a.md"}, "b.md"),
    Case(
        "ends of lines, a mark, blanks",
        "a.md b.md c.md",
        {".gitignore": "\ufeffa.md\r\nb.md  \r\n"},
        "c.md",
    ),
    Case("a nested file", "a.md sub/a.md sub/b.md", {"sub/.gitignore": "a.md"}, "a.md sub/b.md"),
    Case("a nested file is anchored there", "x/a sub/x/a", {"sub/.gitignore": "/x"}, "x/a"),
    Case(
        "a nested file comes before",
        "a.log s/a.log",
        {".gitignore": "*.log", "s/.gitignore": "!a.log"},
        "s/a.log",
    ),
    Case("case counts", "A.md a.md", {".gitignore": "a.md"}, "A.md"),
    Case("info/exclude", "a.md b.md", {".git/info/exclude": "a.md"}, "b.md"),
    Case(
        ".gitignore comes before info/exclude",
        "a.md",
        {".git/info/exclude": "a.md", ".gitignore": "!a.md"},
        "a.md",
    ),
    Case(
        "a rule of a directory above", "p/a.md p/b.md", {".gitignore": "a.md"}, "p/b.md", start="p"
    ),
    Case("an anchored rule above", "p/q/a.md p/a.md", {".gitignore": "/p/q"}, "p/a.md", start="p"),
    Case(
        "no rule above the checkout", "p/a.md", {".gitignore": "a.md"}, "p/a.md", git="p", start="p"
    ),
    Case(
        "the start is asked for", "b/a.md b/s.env", {".gitignore": "b/\ns.env"}, "b/a.md", start="b"
    ),
    Case(
        "the start of a virtual environment",
        "v/l/a.md",
        {"v/.gitignore": "*"},
        "v/l/a.md",
        start="v/l",
    ),
    Case("node_modules", "node_modules/a.js a.js", {}, "a.js"),
    # Beyond git: as ripgrep.
    Case(".ignore", "a.md b.md", {".ignore": "a.md"}, "b.md"),
    Case(
        ".ignore comes before .gitignore",
        "a.md",
        {".gitignore": "a.md", ".ignore": "!a.md"},
        "a.md",
    ),
    Case("no checkout", "a.md b.md", {".gitignore": "a.md"}, "a.md b.md", git=None),
    Case("no checkout, .ignore", "s/a.md b.md", {".ignore": "a.md"}, "b.md", git=None),
    Case(
        "an inner checkout begins anew",
        "in/a.md a.md",
        {".git/info/exclude": "", ".gitignore": "a.md"},
        "in/a.md",
        git="in",
    ),
    Case("hidden files", ".a.md .d/b.md c.md", {}, "c.md"),
    # The caller's rules.
    Case("exclude", "a.md d/b.md d/c.txt", {}, "a.md", selection=Selection(exclude=["d/"])),
    Case(
        "exclude with negation",
        "a.md b.md",
        {},
        "b.md",
        selection=Selection(exclude=["*.md", "!b.md"]),
    ),
    Case("exclude anchored", "a.md d/a.md", {}, "d/a.md", selection=Selection(exclude=["/a.md"])),
    Case("exclude as in a shell", "d/a.md b.md", {}, "b.md", selection=Selection(exclude=["./d"])),
    Case(
        "include", "a.md d/b.md d/c.txt", {}, "a.md d/b.md", selection=Selection(include=["*.md"])
    ),
    Case(
        "include a directory",
        "a.md d/b.md d/e/c.txt",
        {},
        "d/b.md d/e/c.txt",
        selection=Selection(include=["d/"]),
    ),
    Case(
        "include, but not all",
        "d/b.md d/c.md",
        {},
        "d/b.md",
        selection=Selection(include=["d", "!c.md"]),
    ),
    Case(
        "include a path",
        "d/e/a.md e/a.md",
        {},
        "d/e/a.md",
        selection=Selection(include=["d/e/*.md"]),
    ),
    Case(
        "include and exclude",
        "a.md b.md",
        {},
        "b.md",
        selection=Selection(include=["*.md"], exclude=["a.md"]),
    ),
    Case(
        "a wildcard takes nothing ignored",
        "s.env a.md",
        {".gitignore": "s.env"},
        "a.md",
        selection=Selection(include=["*"]),
    ),
    Case(
        "a name takes what is ignored",
        "dist/a.md s.md b.md",
        {".gitignore": "dist/\n*.md"},
        "s.md",
        selection=Selection(include=["s.md"]),
    ),
    Case(
        "a name on the way, too",
        "dist/a.md b.md",
        {".gitignore": "dist/"},
        "dist/a.md",
        selection=Selection(include=["dist/**"]),
    ),
    Case(
        "a hidden name",
        ".github/w.yml .x a",
        {},
        ".github/w.yml",
        selection=Selection(include=[".github/"]),
    ),
    Case(
        "node_modules by name",
        "node_modules/x/a.js b",
        {},
        "node_modules/x/a.js",
        selection=Selection(include=["node_modules/x/"]),
    ),
    Case(
        "hidden ones, too",
        ".a.md .d/b.md .git/c .hg/d .svn/e f/.jj/g .env",
        {".d/.ignore": "no.md"},
        ".a.md .d/b.md .d/.ignore",
        selection=Selection(hidden=True),
    ),
    Case(
        "hidden ones, but ignored",
        ".d/b.md c.md",
        {".gitignore": "/.d/"},
        ".gitignore c.md",
        selection=Selection(hidden=True),
    ),
    Case(
        "no ignore files",
        "a.md .b.md",
        {".gitignore": "a.md", ".ignore": "*"},
        "a.md",
        selection=Selection(no_ignore=True),
    ),
    Case(
        "names in NFD and NFC",
        "cafe\u0301.md tea.md",
        {},
        "tea.md",
        selection=Selection(exclude=["caf\u00e9.md"]),
    ),
    Case("rules in NFD", "caf\u00e9.md tea.md", {".gitignore": "cafe\u0301.md"}, "tea.md"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_files_are_chosen(case: Case, tmp_path: Path) -> None:
    """Each rule takes and leaves out what git, ripgrep or the help says."""
    top = make(tmp_path / "tree", case)
    prefix = f"{case.start}/" if case.start else ""
    assert {prefix + name for name in taken(top, case.selection)} == set(case.taken.split())


def test_without_a_selection_no_ignore_file_is_read(tmp_path: Path) -> None:
    """A tree that belongs to the program itself has all its files, wherever it is installed."""
    top = make(tmp_path, Case("", "a.md b.md", {".gitignore": "*", ".ignore": "*"}, ""))
    assert taken(top, None) == {"a.md", "b.md"}


def listed(top: Path) -> set[str]:
    """Return the files that git does not ignore, but hidden ones."""
    names = git("ls-files", "-co", "--exclude-standard", "-z", at=top).split("\0")
    return {name for name in names if name and not any(p.startswith(".") for p in name.split("/"))}


@pytest.mark.skipif(not HAS_GIT, reason="git is not installed: apt-get install git")
def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    """In a real checkout secrets and builds stay out, and a global excludes file counts."""
    git("init", "-q", ".", at=tmp_path)
    make(
        tmp_path,
        Case(
            "",
            "secret.env a.md dist/a.js build/x/b.js src/a.py src/build/c.py src/note.tmp",
            {".gitignore": "secret.env\ndist/\nbuild/\n"},
            "",
            git=None,
        ),
    )
    settings = tmp_path / "no-settings"
    (tmp_path / "my excludes").write_text("*.tmp\n")
    settings.write_text(f'[user]\n\tname = x\n[core]\n\texcludesFile = "{tmp_path}/my excludes"\n')
    own = {"no-settings", "my excludes"}
    assert taken(tmp_path, Selection()) - own == {"a.md", "src/a.py"}
    assert listed(tmp_path) - own == {"a.md", "src/a.py"}
    outs = {
        o.path: o.rule for o in FileTree.of_directory(tmp_path, TOP, Selection()).left_out.values()
    }
    assert outs[f"{tmp_path}/dist/"] == ".gitignore:2"
    assert outs[f"{tmp_path}/src/note.tmp"].endswith("/my excludes:1")


GLOBAL = [
    ("[core]\n\texcludesFile = {0}/mine", {"mine"}),
    ("[CORE]\nexcludesfile={0}/mine ; a remark", {"mine"}),
    ('[core "x"]\n[core] excludesfile = "{0}/mine"', {"mine"}),
    ("[other]\nexcludesfile = {0}/mine", {"usual"}),
    ("", {"usual"}),
]


@pytest.mark.parametrize(("settings", "left_out"), GLOBAL)
def test_the_global_excludes_file_counts_in_a_checkout(
    settings: str, left_out: set[str], tmp_path: Path
) -> None:
    """It is the one of core.excludesFile, or `git/ignore` of the settings of the user."""
    (tmp_path / "no-settings").write_text(settings.format(tmp_path))
    (tmp_path / "mine").write_text("mine.md")
    (tmp_path / "no-config/git").mkdir(parents=True)
    (tmp_path / "no-config/git/ignore").write_text("usual.md")
    top = make(tmp_path / "tree", Case("", "mine.md usual.md", {}, ""))
    names = {"mine.md", "usual.md"}
    assert names - taken(top, Selection()) == {f"{name}.md" for name in left_out}
    (top / ".git/info").rmdir()
    (top / ".git").rmdir()
    assert taken(top, Selection()) == names


@pytest.mark.skipif(not HAS_GIT, reason="git is not installed: apt-get install git")
@pytest.mark.parametrize("seed", range(8))
def test_random_rules_choose_the_files_of_git(seed: int, tmp_path: Path) -> None:
    """Random patterns in nested ignore files leave out what git itself leaves out."""
    chance = random.Random(seed)
    git("init", "-q", ".", at=tmp_path)
    names = ["a", "b", "ab", "a.b", "b.a", "c c"]
    directories = [""]
    for _ in range(12):
        parent = chance.choice(directories)
        directories.append(f"{parent}{chance.choice(names)}d/")
        for _ in range(4):
            path = tmp_path / chance.choice(directories) / chance.choice(names)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
    parts = ["a", "b", "*", "**", "a*", "*b", "?", "[ab]*", "[!a]", "ad", "*d", "c c", "\\a", "a.?"]
    parts += ["*a*b*", "*.*", "?*d"]
    for directory in chance.sample(directories, min(5, len(directories))):
        lines = []
        for _ in range(chance.randint(1, 6)):
            pattern = "/".join(chance.choices(parts, k=chance.choice([1, 1, 1, 2, 3])))
            pattern = chance.choice(["", "", "", "!", "/", "!/"]) + pattern
            lines.append(pattern + chance.choice(["", "", "", "/", " ", "\r"]))
        (tmp_path / directory).mkdir(parents=True, exist_ok=True)
        (tmp_path / directory / ".gitignore").write_text("\n".join(lines) + "\n", newline="")
    assert taken(tmp_path, Selection()) == listed(tmp_path)


@pytest.mark.skipif(not HAS_GIT, reason="git is not installed: apt-get install git")
def test_a_worktree_has_the_excludes_of_its_checkout(tmp_path: Path) -> None:
    """`.git` may be a file that leads to the directory with `info/exclude`."""
    main, other = tmp_path / "main", tmp_path / "other"
    main.mkdir()
    git("init", "-q", ".", at=main)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    git(*who, "commit", "-q", "--allow-empty", "-m", "x", at=main)
    git("worktree", "add", "-q", str(other), at=main)
    (main / ".git/info/exclude").write_text("a.md\n")
    (other / "a.md").write_text("x")
    (other / "b.md").write_text("x")
    assert taken(other, Selection()) == listed(other) == {"b.md"}


def test_a_directory_that_is_left_out_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing below a directory that a rule names is listed."""
    top = make(
        tmp_path, Case("", "build/x/a d/node_modules/x e/b f/g/c h", {".gitignore": "build/"}, "")
    )
    entered = []
    scan = os.scandir

    def scandir(path: str) -> object:
        entered.append(str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    FileTree.of_directory(top, TOP, Selection(exclude=["e/"]))
    assert [Path(one).relative_to(top).as_posix() for one in entered] == [".", "d", "f", "f/g"]


def test_each_rule_is_named(tmp_path: Path) -> None:
    """What is left out has its path, the rule with its line, and the URI that it would have."""
    case = Case(
        "",
        "a.log d/b.tmp .env big.txt c.md x.txt",
        {"d/.gitignore": "# c\n*.tmp", ".gitignore": "*.log"},
        "",
    )
    top = make(tmp_path, case)
    (top / "big.txt").write_text("x" * 2000)
    chosen = Selection(include=["*.txt", "*.log"], exclude=["x.*"], max_file_size="1k")
    tree = FileTree.of_directory(top, TOP, chosen)
    assert set(tree.left_out.values()) == {
        LeftOut(f"{top}/a.log", ".gitignore:1", "*.log", f"{TOP}/a.log"),
        LeftOut(f"{top}/d/b.tmp", "d/.gitignore:2", "*.tmp", f"{TOP}/d/b.tmp"),
        LeftOut(f"{top}/.env", "secrets", "environment file", f"{TOP}/.env"),
        LeftOut(f"{top}/.gitignore", "hidden", "", f"{TOP}/.gitignore"),
        LeftOut(f"{top}/d/.gitignore", "hidden", "", f"{TOP}/d/.gitignore"),
        LeftOut(f"{top}/big.txt", "max_file_size", "", f"{TOP}/big.txt", 2000),
        LeftOut(f"{top}/c.md", "include", "", f"{TOP}/c.md"),
        LeftOut(f"{top}/x.txt", "exclude", "x.*", f"{TOP}/x.txt"),
    }
    assert list(tree.stamps) == [""]  # `d` has nothing else


def test_a_readme_that_is_left_out_describes_nothing(tmp_path: Path) -> None:
    """No word of a file that is left out comes into the abstract of a directory."""
    top = make(tmp_path, Case("", "a.md d/a.md", {".gitignore": "README.md"}, ""))
    for directory in (top, top / "d"):
        (directory / "README.md").write_text("# Secret\n\nNobody may know of this.")
    drafts = [one for one in read_tree(top, TOP, selection=Selection()) if isinstance(one, Draft)]
    assert {draft.uri for draft in drafts} == {f"{TOP}/a.md", f"{TOP}/d/a.md"}
    assert not any("Secret" in draft.title + draft.abstract + draft.content for draft in drafts)
    assert not any("Nobody" in draft.abstract for draft in drafts)


def test_an_ignore_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A rule that cannot be read is no rule without a word."""
    top = make(tmp_path, Case("", "a.md rules", {}, ""))
    (top / ".gitignore").symlink_to(top / "rules")
    items = list(read_tree(top, TOP, selection=Selection()))
    told = [one for one in items if isinstance(one, Unreadable)]
    assert [(one.path, one.reason) for one in told] == [
        (f"{top}/.gitignore", "is a symbolic link: its rules are not used")
    ]


SIZES = [
    (1000, 1000),
    ("1000", 1000),
    ("0", 0),
    ("64k", 64 << 10),
    ("64K", 64 << 10),
    ("64KiB", 64 << 10),
    ("64 kB", 64_000),
    ("10 MB", 10_000_000),
    ("1.5M", 3 << 19),
    ("2GiB", 2 << 30),
    ("7 bytes", 7),
    ("7B", 7),
]


@pytest.mark.parametrize(("given", "limit"), SIZES)
def test_sizes_have_units(given: int | str, limit: int) -> None:
    """A size is bytes, or has a unit."""
    assert Selection(max_file_size=given).limit == limit


WRONG = [
    ({"max_file_size": "ten"}, "max_file_size", "10MB"),
    ({"max_file_size": "-1"}, "max_file_size", "10MB"),
    ({"max_file_size": "1e6"}, "max_file_size", "10MB"),
    ({"max_file_size": True}, "max_file_size", "10MB"),
    ({"include": [""]}, "include", "*.md"),
    ({"include": ["*.{md,txt}"]}, "include", "no braces"),
    ({"exclude": ["# a"]}, "exclude", "*.md"),
    ({"exclude": ["a\\"]}, "exclude", "*.md"),
    ({"encoding": "klingon"}, "encoding", "klingon"),
]


@pytest.mark.parametrize(("given", "field_", "says"), WRONG)
def test_wrong_rules_are_refused(given: dict[str, object], field_: str, says: str) -> None:
    """An error names the argument, and what to type."""
    with pytest.raises(InvalidField) as refused:
        Selection(**given)  # type: ignore[arg-type]
    assert refused.value.field == field_
    assert says in refused.value.description
