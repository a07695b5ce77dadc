"""A tool that checks its arguments strictly and explains failures to the model."""

from __future__ import annotations

import tomllib
from collections.abc import Awaitable, Callable, Iterable
from importlib import resources
from typing import Any, TypeAlias

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ConfigDict, PrivateAttr, ValidationError

from vikingd.client import AsyncClient, ClientError, Unsendable
from vikingd.client.argument_checks import nearest
from vikingd.domain.errors import shortened
from vikingd.domain.value_faults import shown
from vikingd.mcp.argument_forms import Forms
from vikingd.mcp.failures import explained
from vikingd.mcp.tool_answers import Answer

ClientOf: TypeAlias = Callable[[Context[Any, Any]], AsyncClient]
"""A function that returns the client for a request, with the key of its caller."""

DESCRIPTIONS: dict[str, str] = tomllib.loads(
    resources.files(__package__).joinpath("descriptions.toml").read_text("utf-8")
)
"""The descriptions of the tools by name."""

_FAULTS = 5  # wrong arguments that an error names
_SHOWN = 60  # characters of a name in an error


class ClientTool(Tool):
    """A tool whose function takes a client and checked arguments, and returns an Answer."""

    _client_of: ClientOf = PrivateAttr()
    _forms: Forms = PrivateAttr()

    @classmethod
    def made(
        cls, function: Callable[..., Awaitable[Answer]], client_of: ClientOf, hints: ToolAnnotations
    ) -> ClientTool:
        """Return a ClientTool that calls a function, with the function's name.

        Args:
            function: takes the client as its first argument, `client`.
            client_of: returns the client for a request.
            hints: what the tool changes.
        """
        name = function.__name__.rstrip("_")
        tool = cls.from_function(
            function,
            name=name,
            description=DESCRIPTIONS[name],
            context_kwarg="client",
            annotations=hints,
        )
        assert isinstance(tool, cls)
        tool._client_of = client_of

        class Arguments(tool.fn_metadata.arg_model):  # type: ignore[name-defined,misc]
            model_config = ConfigDict(extra="forbid", strict=True)

        tool.fn_metadata.arg_model = Arguments
        tool._forms = Forms(Arguments.model_json_schema(by_alias=True))
        tool.parameters = tool._forms.short_form()
        tool.fn_metadata.output_schema = None  # each model would read it with each list of tools
        return tool

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> Any:
        """Check the arguments, call the function and convert its answer.

        Raises:
            ToolError: the call failed; the message says why, and what to do.
        """
        del convert_result
        # Some models send null for an argument that they leave out.
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            values = self.fn_metadata.validate_arguments(self._forms.converted(given))
        except ValidationError as error:
            raise ToolError(self._wrong(error)) from None
        client = self._client_of(context)
        try:
            answer = await self.fn(client, **values)
        except ClientError as error:
            raise ToolError(await explained(error, client, self.parameters["properties"])) from None
        except Unsendable as error:
            raise ToolError(f"An argument cannot be sent: {error}") from None
        except ToolError:
            raise
        except Exception as error:
            raise UnexpectedToolError(
                "This is a bug in vikingd's MCP server, and its log has the details. "
                "Other arguments or another tool may work."
            ) from error
        return CallToolResult(
            content=[TextContent(type="text", text=str(answer))],
            structured_content=answer.model_dump(mode="json", exclude_defaults=True),
        )

    def _wrong(self, error: ValidationError) -> str:
        """Return the faults of the arguments, each with the argument's name."""
        faults = []
        for one in error.errors(include_url=False)[:_FAULTS]:
            name = _path(one["loc"])
            if one["type"] == "missing":
                faults.append(f"{name} is required")
            elif one["type"] == "extra_forbidden" and len(one["loc"]) == 1:
                faults.append(self._unknown(str(one["loc"][0])))
            elif one["type"] == "extra_forbidden":
                faults.append(f"{name} is not known")
            else:
                got = shown(one["input"])
                faults.append(f"{name} is {self._forms.allowed_values(one)}, not {got}")
        # An argument may have half of a surrogate pair, which cannot be sent.
        return f"{'; '.join(faults)}.".encode(errors="replace").decode()

    def _unknown(self, name: str) -> str:
        """Return the error for an argument that the tool does not have, with the nearest one."""
        known = tuple(self.parameters["properties"])
        fault = f"{self.name} has no argument {shortened(name, _SHOWN)!r}"
        near = nearest(name, known)
        meant = f"; did you mean {near}? It has" if near else ", only"
        return f"{fault}{meant} {', '.join(known)}"


def _path(place: Iterable[int | str]) -> str:
    """Return the path of a value, such as messages[0].role."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return shortened("".join(steps).removeprefix("."), _SHOWN)
