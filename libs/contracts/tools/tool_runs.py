"""The language of the tools service about calls: the code of a tool is run once, in a sandbox.

Who has a tool run is told of its end by a delta; whoever missed that reads its row."""

from __future__ import annotations

from operator import not_
from typing import ClassVar, Literal

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, JsonObject, Value, delta_subject, is_none
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tool_rules import ToolRule
from libs.contracts.letta.tools import ToolState
from libs.contracts.sealed_text import Sealed
from libs.contracts.storable_text import StorableText

SERVICE = "tools"

# How much of a call's arguments stays in the history, as JSON; and of what a tool printed.
ARGUMENTS_KEPT_CHARS_MAX = 10_000
PRINTED_CHARS_MAX = 50_000

# A program that may call its agent's other tools, and the secrets that a search may need.
CALLS_TOOLS = "run_code_with_tools"
SEARCHES, SEARCH_SECRETS = "web_search", ("EXA_API_KEY", "TAVILY_API_KEY")
# The tools whose calls the tools service carries out.
RUNNABLE_TYPES = frozenset(
    tool_type.value
    for tool_type in (ToolType.custom, ToolType.letta_builtin, ToolType.external_mcp)
)

RunStatus = Literal["success", "error", "timeout", "killed"]


class InnerTool(Value):
    """A tool that a program may call by its name, or (`refused`) why it may not."""

    name: str
    tool_id: str
    parameters: list[str]
    reads_secrets: bool = False
    refused: str = ""


class RunTool(Command, service=SERVICE, topic="tool_run.begin"):
    """Call a tool by its id, or the one that `source` describes.

    The values of its `environment` are sealed, and opened where the code runs. Where it is a
    program, `inner_tools` are what that may call, as the `tool_rules` of the run let it after the
    calls that there were (`called`); such a call is `inner`. `block_ids` are the
    memory blocks that the agent has in this conversation, for a tool that takes its agent; without
    them they are those of the agent. Where a `revision` of the tool was approved, another one is
    not called. It is accepted when it is durable that the call was begun."""

    tool_run_id: str
    tool_id: str = ""
    revision: int = Field(default=0, exclude_if=not_)
    source: ToolState | None = None
    arguments: JsonObject
    environment: dict[str, Sealed] = Field(default_factory=dict, exclude_if=not_)
    agent_id: str = ""
    project_id: str = Field(default="", exclude_if=not_)
    run_id: str = ""
    step_id: str = ""
    tool_call_id: str = ""
    seconds_max: float
    inner_tools: list[InnerTool] = Field(default_factory=list, exclude_if=not_)
    tool_rules: list[ToolRule] = Field(default_factory=list, exclude_if=not_)
    called: list[str] = Field(default_factory=list, exclude_if=not_)
    inner: bool = Field(default=False, exclude_if=not_)
    block_ids: list[str] = Field(default_factory=list, exclude_if=not_)

    @property
    def target(self) -> str:
        """Each call is one of its own: none waits for another."""
        return self.tool_run_id


class StopToolRun(Command, service=SERVICE, topic="tool_run.stop"):
    """End a call that nobody waits for any more; nothing happens if it has ended."""

    tool_run_id: str

    @property
    def target(self) -> str:
        return self.tool_run_id


class ToolRunBegun(Event, service=SERVICE, topic="tool_run.begun"):
    """A tool is about to be called.

    `arguments` are JSON, cut where they are long."""

    tool_id: str
    name: str
    arguments: str
    source_hash: str
    agent_id: str
    run_id: str
    step_id: str
    tool_call_id: str
    seconds_max: float


class ToolRunRefused(Event, service=SERVICE, topic="tool_run.refused"):
    """A tool was not called, because whoever wanted that may not: `reason` says why."""

    tool_id: str
    name: str
    reason: str
    agent_id: str = ""
    run_id: str = ""
    step_id: str = ""
    tool_call_id: str = ""


class SamplingUsage(Value):
    """The use that an MCP server made of an agent's model in one call: the number of requests, and
    the tokens of the answers."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ToolRunSampled(Event, service=SERVICE, topic="tool_run.sampled"):
    """In the course of a call the agent's model was asked by the MCP server of the tool.

    `reason` says why there was no answer."""

    additive: ClassVar[bool] = True
    completion_id: str
    outcome: Literal["answered", "failed"]
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float
    reason: str = ""


class ToolRunResult(Value):
    """The result of a call: the text for the model, the output, and the usage; of a program also
    the tools that it `called`."""

    status: RunStatus
    text: StorableText
    stdout: list[StorableText] = Field(default_factory=list)
    stderr: list[StorableText] = Field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_bytes_max: int = 0
    processes_max: int = Field(default=0, exclude_if=not_)
    output_bytes: int = Field(default=0, exclude_if=not_)
    sampling: SamplingUsage | None = Field(default=None, exclude_if=is_none)
    called: list[str] = Field(default_factory=list, exclude_if=not_)


class ToolRunEnded(Event, service=SERVICE, topic="tool_run.ended"):
    """A call has a result."""

    result: ToolRunResult


class ToolRunStopped(Event, service=SERVICE, topic="tool_run.stopped"):
    """A call was ended because nobody waits for it any more; it may have taken effect."""


class ToolRunLost(Event, service=SERVICE, topic="tool_run.lost"):
    """The process that made a call has died: nobody knows what came of it."""


class ToolRunForgotten(Event, service=SERVICE, topic="tool_run.forgotten"):
    """A call of an agent that was deleted is no longer kept."""


def tool_run_deltas(org: str, tool_run_id: str) -> str:
    """The subject of what whoever waits is told: `{}` while a tool runs, then its `result`."""
    return delta_subject(SERVICE, "tool_run", "progress", org, tool_run_id)
