"""The descriptions of the tools, by which a model that has never seen vikingd chooses among them.

Each says what the tool gives, when to take it and not another, and what to do next.
tests/mcp/test_mcp_choice.py holds how well a small model chooses by them.
"""

from __future__ import annotations

DESCRIPTIONS = {
    "recall": (
        "Recall what you know about the user and about earlier work: likes, habits, wishes, "
        "people, dates, what happened, what was said, decided or learned. Call it before you "
        'answer whenever something personal or from the past may matter: "do you remember", '
        '"what do I like", "last week". Gives memories by meaning, age and use, with ids for '
        "forget. For knowledge in documents take find."
    ),
    "find": (
        "Find the answer to a question in documents, manuals and skills: what is it, how does "
        "it work, how do I do it, how long, which rule holds. Compares the content of all files "
        "with the question, by meaning and by words, in any language. Gives URIs with the best "
        "passages; then read the best one. For an exact string take grep."
    ),
    "search": (
        'Search with the conversation, for a request that cannot be understood alone: "go on", '
        '"do the same again", "as we said above", "that one". Pass the last messages: they '
        "become the queries to documents, skills and memories. For a complete question take "
        "find, which is faster."
    ),
    "read": (
        "Read a file by its URI, such as viking://resources/guide.md: open it and show the full "
        "text, or go on with the rest of it. A long file comes in parts: pass offset as the "
        "answer says. The last part has the revision that write and forget need."
    ),
    "list": (
        "List a directory: which files and folders are in it, each with a line on what it is "
        "about. Take it to look around, or to see where a new file belongs."
    ),
    "build_context": (
        "Build one text with numbered sources out of all passages on a subject: material for a "
        "report, a briefing or a prompt, with citations. Collects as much as max_tokens allows, "
        "from a question or from files that you name. To choose among results yourself, take "
        "find."
    ),
    "remember": (
        'Remember a fact for later conversations, when the user says "remember", "do not '
        'forget", "from now on", or tells something of lasting use: a wish, a plan, a decision, '
        "a lesson. One or two sentences. A fact that was said before is reinforced, not added "
        "twice. No passwords or keys. For a longer text take write."
    ),
    "write": (
        "Write a file: create a new document, note or skill, save a text, or change and update "
        "an existing file. To change a file, read it first and pass its revision: then nothing "
        "that others wrote is lost. For a single fact take remember."
    ),
    "forget": (
        "Forget or delete, for good: erase memories by their ids, or remove one file. Take it "
        "when the user wants something deleted, or when a memory is wrong. Get the ids from "
        "recall, or read the file, first. To correct a fact, remember the right one too."
    ),
    "grep": (
        "Search the text of all files for an exact string or a regular expression: where it "
        "occurs, and in which lines. Take it for names in code, error codes, numbers, "
        "addresses, quotations. For a question in words take find."
    ),
    "glob": (
        "Find files by their name: all files whose name or path matches a pattern such as "
        "*.csv, **/README.md or 2024-*. Looks at names only, not into the files. To see one "
        "folder take list."
    ),
}
