"""Tools that return what a scenario says, and are not called: the client carries them out."""

from __future__ import annotations

import difflib
import json
from collections.abc import Container, Sequence
from typing import Any

from cli.agent_tests.answers import Call
from cli.agent_tests.expectations import is_part
from cli.agent_tests.scenarios import Mock

ANY_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": True}


class WrongMock(Exception):
    """A mock that no call could come to; the words say why."""


class Mocks:
    """The mocks of one case."""

    def __init__(
        self, mocks: Sequence[Mock], tools: Sequence[Any], *, more: Container[str] = ()
    ) -> None:
        """
        Args:
            mocks: those of the scenario.
            tools: those of the agent, as its document has them. Raises WrongMock.
            more: names of tools of which nothing is known, such as those of an MCP server that
                this server does not have.
        """
        self.mocks = mocks
        self.names = list(dict.fromkeys(mock.tool for mock in mocks))
        self.unfitting: list[str] = []
        schemas = {tool["name"]: tool["json_schema"] or {} for tool in tools}
        for name in self.names:
            if name not in schemas and name not in more:
                close = difflib.get_close_matches(name, schemas, n=1)
                hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(schemas)}"
                raise WrongMock(f"the agent has no tool {name} to mock: {hint}")
        self.client_tools = [_client_tool(name, schemas.get(name, {})) for name in self.names]

    def result(self, call: Call) -> dict[str, Any]:
        """The result that goes back to the agent for a call."""
        for mock in self.mocks:
            if mock.tool == call.name and is_part(mock.arguments, call.arguments):
                return _tool_return(call, mock.error or mock.returns, failed=bool(mock.error))
        note = f"no mock of {call.name} is for the arguments {json.dumps(call.arguments)}"
        self.unfitting.append(note)
        return _tool_return(call, note, failed=True)


def _client_tool(name: str, schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": schema.get("description") or "",
        "parameters": schema.get("parameters") or ANY_ARGUMENTS,
    }


def _tool_return(call: Call, value: Any, *, failed: bool) -> dict[str, Any]:
    return {
        "type": "tool",
        "tool_call_id": call.id,
        "tool_return": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
        "status": "error" if failed else "success",
    }
