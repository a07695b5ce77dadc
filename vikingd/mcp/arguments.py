"""The arguments of the tools: types with bounds, and descriptions for a model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from vikingd.mcp.argument_forms import CHOICES

MAX_URI = 1024
MAX_INTEGER = 1 << 53
"""The largest integer that every JSON client writes exactly."""

MEMORY_TYPES = (
    "preferences",
    "instructions",
    "entities",
    "tasks",
    "decisions",
    "patterns",
    "journal",
)
"""The usual types of memories; others are allowed."""

Query = Annotated[str, Field(min_length=1, description="The question, in any language.")]
Uri = Annotated[
    str, Field(min_length=1, max_length=MAX_URI, description="A URI as another tool gave it.")
]
Target = Annotated[
    str,
    Field(
        max_length=MAX_URI,
        description="Only below this directory, as viking://resources.",
    ),
]
Kind = Literal["memory", "resource", "skill"]
Kinds = Annotated[
    list[Kind],
    Field(max_length=3, description="Only these types. Empty: all."),
]
FileKindName = Annotated[
    str,
    Field(
        max_length=64,
        description="Only this kind of file: source, test, documentation, example...",
    ),
]
Prefer = Annotated[
    Literal["none", "code", "docs"], Field(description="The kind of files to rank higher.")
]
Limit = Annotated[int, Field(ge=1, le=100, description="The most results.")]
MaxTokens = Annotated[int, Field(ge=200, le=50_000, description="Most tokens of the answer.")]
Offset = Annotated[
    int,
    Field(ge=0, le=MAX_INTEGER, description="Where to go on, as the answer says."),
]
Project = Annotated[
    str,
    Field(max_length=256, description="The name of the project, if it is about one."),
]
MemoryType = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9_-]{0,63}$",
        json_schema_extra={CHOICES: [*MEMORY_TYPES]},
        description=(
            "preferences (likes and habits), instructions (standing orders), entities (people and "
            "things), tasks, decisions, patterns (lessons), journal (events by day), or another "
            "word in lower case."
        ),
    ),
]


class Message(BaseModel):
    """A message of the conversation."""

    model_config = ConfigDict(extra="forbid", strict=True)

    role: Literal["user", "assistant", "system", "tool"]
    content: Annotated[str, Field(min_length=1)]
