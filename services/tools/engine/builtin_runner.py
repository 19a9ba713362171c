"""The tools that come with the server and that this service carries out, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.tool_runs import RunTool, ToolRunResult

PROBLEMS_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class BuiltinCall:
    """A call of one of them."""

    tool: ToolState
    command: RunTool
    org: str

    @property
    def chars_max(self) -> int:
        """The length of its result's text at most, in characters."""
        return self.tool.return_char_limit


class Builtin(Protocol):
    """Carries out the calls of one of them."""

    def refusal_of(self, call: BuiltinCall) -> str:
        """Why a call cannot be carried out on this server; empty if it can. The organisation is
        not known here."""

    async def run(self, call: BuiltinCall) -> ToolRunResult:
        """The result of a call. Raises ValidationError for arguments that do not fit."""


class BuiltinRunner:
    """Keeps the contract of `ToolRunner` with a table of tools."""

    def __init__(self, builtins: Mapping[str, Builtin]) -> None:
        self.builtins = builtins

    def refusal_of(self, tool: ToolState, command: RunTool) -> str:
        """Why a tool cannot be called here."""
        builtin = self.builtins.get(tool.name)
        if builtin is None:
            return f"The tool '{tool.name}' is not built yet on this server."
        return builtin.refusal_of(BuiltinCall(tool, command, org=""))

    async def run(self, tool: ToolState, command: RunTool, org: str) -> ToolRunResult:
        try:
            return await self.builtins[tool.name].run(BuiltinCall(tool, command, org))
        except ValidationError as invalid:
            why = summary(invalid)
            return failure(f"The arguments do not fit '{tool.name}': {why}")


def failure(text: str) -> ToolRunResult:
    """The result of a call that failed, with a text for the model."""
    return ToolRunResult(status="error", text=text)


def summary(invalid: ValidationError) -> str:
    """The problems with the arguments, field by field."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
        for problem in invalid.errors(include_input=False)[:PROBLEMS_SHOWN_MAX]
    )
