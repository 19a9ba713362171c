"""`shell` and the file tools: programs in the sandbox and the workspace of an agent."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from libs.contracts.shortened_text import cut
from libs.contracts.tools.tool_runs import ToolRunResult
from services.tools.engine.builtin_runner import BuiltinCall
from services.tools.engine.custom_tool_runner import limits_of, result_of, usage
from services.tools.sandbox import workspace_files
from services.tools.sandbox.ports import Outcome, Program, Sandbox

SHELL_SECONDS = 30
SHELL_SECONDS_MAX = 300
FILE_SECONDS_MAX = 15.0
WRITTEN_CHARS_MAX = 1 << 20
PATH_CHARS_MAX = 4_096
SOURCE = Path(workspace_files.__file__).read_text(encoding="utf-8")


class Arguments(BaseModel):
    """The arguments of a tool; an unknown one is an error that the model sees."""

    model_config = ConfigDict(extra="forbid")


class Shell(Arguments):
    """The arguments of `shell`."""

    command: str = Field(min_length=1, max_length=WRITTEN_CHARS_MAX)
    timeout_seconds: int = Field(SHELL_SECONDS, ge=1, le=SHELL_SECONDS_MAX)


class ReadFile(Arguments):
    """The arguments of `read_file`."""

    path: str = Field(max_length=PATH_CHARS_MAX)
    offset: int = Field(1, ge=1)
    limit: int = Field(workspace_files.LINES_MAX, ge=1)


class WriteFile(Arguments):
    """The arguments of `write_file`."""

    path: str = Field(min_length=1, max_length=PATH_CHARS_MAX)
    content: str = Field(max_length=WRITTEN_CHARS_MAX)
    append: bool = False


class ListFiles(Arguments):
    """The arguments of `list_files`."""

    path: str = Field("", max_length=PATH_CHARS_MAX)
    recursive: bool = False


FILE_TOOLS: dict[str, type[Arguments]] = {
    "read_file": ReadFile,
    "write_file": WriteFile,
    "list_files": ListFiles,
}


class WorkspaceTool:
    """The common part of the tools of a workspace: `sandbox` runs programs in it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def refusal_of(self, call: BuiltinCall) -> str:
        """Why the caller has no workspace; empty if it has one."""
        agent_id = call.command.agent_id
        return self.sandbox.refusal_of(
            Program("shell", "", org=call.org or "org", agent_id=agent_id)
        )


class ShellTool(WorkspaceTool):
    """Keeps the contract of `Builtin` for `shell`."""

    async def run(self, call: BuiltinCall) -> ToolRunResult:
        """The output of a command, and its exit status."""
        asked = Shell.model_validate(call.command.arguments)
        program = Program(
            "shell",
            asked.command,
            limits=limits_of(min(call.command.seconds_max, asked.timeout_seconds)),
            org=call.org,
            agent_id=call.command.agent_id,
            in_workspace=True,
        )
        outcome = await self.sandbox.run(program)
        text = cut(printed_text(outcome), call.chars_max)
        return ToolRunResult(status=outcome.status, text=text, **usage(outcome))


class FileTool(WorkspaceTool):
    """Keeps the contract of `Builtin` for one of the file tools."""

    async def run(self, call: BuiltinCall) -> ToolRunResult:
        """The outcome for a file."""
        name = call.tool.name
        asked = FILE_TOOLS[name].model_validate(call.command.arguments)
        program = Program(
            "python",
            SOURCE,
            name,
            arguments=asked.model_dump(),
            limits=limits_of(min(call.command.seconds_max, FILE_SECONDS_MAX)),
            org=call.org,
            agent_id=call.command.agent_id,
            in_workspace=True,
        )
        outcome = await self.sandbox.run(program)
        return result_of(name, outcome, chars_max=call.chars_max)


def printed_text(outcome: Outcome) -> str:
    """The output of a command, and how it ended unless it succeeded."""
    parts = [outcome.stdout.rstrip("\n")]
    if outcome.stderr:
        parts.append(f"[stderr]\n{outcome.stderr.rstrip()}")
    if outcome.status != "success":
        parts.append(f"[{outcome.reason}]")
    return "\n".join(part for part in parts if part) or "(it printed nothing)"
