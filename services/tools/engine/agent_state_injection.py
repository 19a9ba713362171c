"""Tools that take `agent_state`: they are given their agent as it is, and what they change of its
memory blocks is changed there, by the commands that everybody sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import Protocol

from pydantic import TypeAdapter, ValidationError

from libs.bus.ports import Bus, BusUnavailable, Clock
from libs.contracts.bus_messages import Context, Json, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.tools import ToolState
from libs.contracts.memory.blocks import Cause, RewriteBlock
from libs.contracts.tools.tool_permission_evaluation import Caller, ToolPolicies, is_withheld
from libs.contracts.tools.tool_runs import RunTool
from libs.work.acceptance import ask_until_accepted
from services.tools.domain.tool_definition import AGENT_STATE, TYPESCRIPT, takes_agent_state
from services.tools.sandbox.ports import Outcome, Program

CHANGED_BLOCKS_MAX = 50
REWRITE_SECONDS_MAX = 10.0
CALLED = "heeler_call_with_agent_state"
SOURCES_REMEMBERED = 64
_OUTCOME = TypeAdapter(dict[str, Json])
_BLOCKS = TypeAdapter(dict[str, str])

takes = lru_cache(SOURCES_REMEMBERED)(takes_agent_state)


class AgentQueries(Protocol):
    """The queries about agents, for tools."""

    async def agent_state(self, org: str, agent_id: str, block_ids: list[str]) -> JsonObject | None:
        """An agent with these blocks, or with those that are attached to it; None for none."""


class AgentStates:
    """Gives tools their agents, and writes back what they change."""

    def __init__(
        self,
        queries: AgentQueries,
        bus: Bus,
        clock: Clock,
        policies: Callable[[], ToolPolicies | None],
    ) -> None:
        self.queries = queries
        self.bus = bus
        self.clock = clock
        self.policies = policies

    def takes_agent(self, tool: ToolState) -> bool:
        """Whether the function of a tool has an argument `agent_state`."""
        source = tool.source_code or ""
        return tool.source_type != TYPESCRIPT and AGENT_STATE in source and takes(source)

    async def with_agent(self, program: Program, command: RunTool, org: str) -> Program:
        """The program with its agent as an argument. The agent is None where no agent makes the
        call, and has no blocks where a list withholds memory."""
        agent = None
        if command.agent_id:
            agent = await self.queries.agent_state(org, command.agent_id, command.block_ids)
        caller = Caller(org, command.project_id, command.agent_id)
        if agent and is_withheld(self.policies(), caller, "memory"):
            agent = {**agent, "blocks": []}
        own = {name: value for name, value in program.arguments.items() if name != AGENT_STATE}
        source = program.source
        if "from __future__" not in source:  # there annotations are not looked at
            source = f"AgentState = {expression_of('AgentState')}\n{source}"
        called = f"{expression_of('with_agent_state')}({program.function})"
        return replace(
            program,
            source=f"{source}\n\n{CALLED} = {called}\n",
            function=CALLED,
            arguments={**own, AGENT_STATE: agent},
        )

    async def write_back(
        self, outcome: Outcome, tool: ToolState, command: RunTool, org: str
    ) -> Outcome:
        """The value that a tool returned, once its changes to memory are made; else an error that
        names the changes that were not."""
        if outcome.status != "success":
            return outcome
        try:
            answer = _OUTCOME.validate_python(outcome.value)
            changed = _BLOCKS.validate_python(answer.get("blocks"))
        except ValidationError:
            return replace(outcome, status="error", reason="What the tool gave back is unreadable")
        if len(changed) > CHANGED_BLOCKS_MAX:
            why = f"A tool may change {CHANGED_BLOCKS_MAX} memory blocks: none was changed"
            return replace(outcome, status="error", value=None, reason=why)
        not_changed = await self.rewrite_blocks(changed, tool, command, org)
        if not_changed:
            why = f"It returned, but its changes to memory were not all made: {not_changed}"
            return replace(outcome, status="error", value=None, reason=why)
        return replace(outcome, value=answer.get("value"))

    async def rewrite_blocks(
        self, changed: Mapping[str, str], tool: ToolState, command: RunTool, org: str
    ) -> str:
        """Give blocks these values; returns which blocks were not changed and why, empty if all
        were."""
        agent = await self.queries.agent_state(org, command.agent_id, command.block_ids)
        caller = Caller(org, command.project_id, command.agent_id)
        if changed and is_withheld(self.policies(), caller, "memory"):
            return "a list of capabilities leaves out `memory`"
        blocks = agent["blocks"] if agent else []
        assert isinstance(blocks, list)
        known = {str(block["id"]): block for block in blocks if isinstance(block, dict)}
        problems: list[str] = []
        for block_id, value in changed.items():
            block = known.get(block_id)
            if block is None:
                problems.append(f"{block_id[:60]}: the agent has no such block")
                continue
            why = await self.rewrite_block(block_id, value, tool, command, org)
            if why:
                problems.append(f"'{block['label']}': {why}")
        return "; ".join(problems)

    async def rewrite_block(
        self, block_id: str, value: str, tool: ToolState, command: RunTool, org: str
    ) -> str:
        """Give a block this value; returns why it was not changed, empty if it was. Safe to
        repeat."""
        cause = Cause(
            agent_id=command.agent_id,
            run_id=command.run_id,
            tool_call_id=command.tool_call_id,
            tool=tool.name,
        )
        rewrite = RewriteBlock(block_id=block_id, value=value.replace("\0", ""), cause=cause)
        name = derived_id("cmd", command.tool_run_id, block_id)
        context = Context(name, org=org, causation_id=command.tool_run_id)
        try:
            reply = await ask_until_accepted(
                *(self.bus, self.clock, rewrite, context),
                seconds_max=REWRITE_SECONDS_MAX,
                outage_seconds_max=REWRITE_SECONDS_MAX,
            )
        except BusUnavailable:
            return "the memory service did not answer, so it may or may not be changed"
        return reply.reason if isinstance(reply, Rejected) else ""


@lru_cache(2)
def expression_of(name: str) -> str:
    """A Python expression for a name of `agent_state_prelude.py`, whose other names stay hidden."""
    source = (
        resources.files("services.tools.sandbox").joinpath("agent_state_prelude.py").read_text()
    )
    code = f"compile({source!r}, 'agent_state_prelude.py', 'exec', dont_inherit=True)"
    return (
        f"(lambda names: (exec({code}, names), names[{name!r}])[1])({{'__name__': 'agent_state'}})"
    )
