"""Tools that take their agent: what they are given, and what becomes of what they change."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.bus_messages import UNPROCESSABLE, Accepted, Context, JsonObject, Rejected
from libs.contracts.letta.tools import ToolState
from libs.contracts.memory.blocks import RewriteBlock
from libs.contracts.tools.tool_permission_evaluation import NO_LIMIT, CompiledList, ToolPolicies
from libs.contracts.tools.tool_runs import RunTool
from services.tools.engine.agent_state_injection import CALLED, AgentStates
from services.tools.sandbox.ports import Outcome, Program
from tests.clock_and_ids import ManualClock

AGENT: JsonObject = {
    "id": "agent-1",
    "name": "Ada",
    "blocks": [
        {"id": "block-1", "label": "human", "value": "tea"},
        {"id": "block-2", "label": "full", "value": "x"},
    ],
}
SOURCE = (
    "def f(word, agent_state):\n"
    "    block = agent_state.memory.get_block('human')\n"
    "    block.value += ' ' + word\n"
    "    return agent_state\n"
)
TOOL = ToolState(id="tool-1", name="f", source_code=SOURCE)


class Queries:
    async def agent_state(self, org: str, agent_id: str, block_ids: list[str]) -> JsonObject | None:
        return AGENT if (org, agent_id) == ("org-1", "agent-1") else None


class Bus:
    def __init__(self) -> None:
        self.sent: list[tuple[RewriteBlock, Context]] = []

    async def request(
        self, command: RewriteBlock, context: Context, **_: Any
    ) -> Accepted | Rejected:
        self.sent.append((command, context))
        if command.block_id == "block-2":
            return Rejected(code=UNPROCESSABLE, reason="it is too long")
        return Accepted()


def call(**fields: Any) -> RunTool:
    asked = {"tool_run_id": "tool_run-1", "arguments": {}, "seconds_max": 10, **fields}
    return RunTool.model_validate({"agent_id": "agent-1", "tool_call_id": "call-1", **asked})


def states(bus: Bus, system: CompiledList = NO_LIMIT) -> AgentStates:
    return AgentStates(Queries(), bus, ManualClock(), lambda: ToolPolicies(system))  # type: ignore[arg-type]


def executed(program: Program) -> Any:
    """What the program returns; its source is this test's own."""
    names: dict[str, Any] = {}
    exec(program.source, names)
    return names[program.function](**program.arguments)


async def test_a_tool_is_given_its_agent_and_its_changes_come_back() -> None:
    there, bus = states(Bus()), Bus()
    there.bus = bus  # type: ignore[assignment]
    assert there.takes_agent(TOOL)
    assert not there.takes_agent(ToolState(id="t", source_code="def g(x): return 'agent_state'"))
    program = await there.with_agent(
        Program("python", SOURCE, "f", {"word": "pie"}), call(), "org-1"
    )
    assert program.function == CALLED
    told = executed(program)
    assert told["blocks"] == {"block-1": "tea pie"}
    assert "Ada" in told["value"]
    outcome = await there.write_back(Outcome("success", told), TOOL, call(), "org-1")
    assert (outcome.status, outcome.value) == ("success", told["value"])
    [(command, context)] = bus.sent
    assert (command.block_id, command.value) == ("block-1", "tea pie")
    assert (command.cause.agent_id, command.cause.tool_call_id) == ("agent-1", "call-1")
    assert (context.org, context.causation_id) == ("org-1", "tool_run-1")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"block-2": "y"}, "'full': it is too long"),
        ({"block-of-another": "y"}, "the agent has no such block"),
        ({f"block-{n}": "y" for n in range(51)}, "none was changed"),
    ],
)
async def test_what_cannot_be_changed_is_an_error_in_words(
    changed: dict[str, str], said: str
) -> None:
    """A program may say that it has changed anything: only blocks of its agent are."""
    bus = Bus()
    told: Any = {"value": 1, "blocks": changed}
    outcome = await states(bus).write_back(Outcome("success", told), TOOL, call(), "org-1")
    assert outcome.status == "error"
    assert said in outcome.reason
    assert {command.block_id for command, _ in bus.sent} <= {"block-2"}


async def test_a_list_that_withholds_memory_withholds_it_from_tools_too() -> None:
    bus = Bus()
    there = states(bus, CompiledList(None, frozenset({"code"})))
    program = await there.with_agent(
        Program("python", SOURCE, "f", {"word": "pie"}), call(), "org-1"
    )
    with pytest.raises(KeyError, match="no memory block"):
        executed(program)
    told: Any = {"value": 1, "blocks": {"block-1": "forged"}}
    outcome = await there.write_back(Outcome("success", told), TOOL, call(), "org-1")
    assert (outcome.status, "`memory`" in outcome.reason) == ("error", True)
    assert bus.sent == []


async def test_without_an_agent_there_is_none_and_garbage_is_told() -> None:
    there = states(Bus())
    program = await there.with_agent(
        Program("python", "def f(agent_state): return agent_state", "f"), call(agent_id=""), "org-1"
    )
    assert executed(program) == {"value": None, "blocks": {}}
    outcome = await there.write_back(Outcome("success", "garbage"), TOOL, call(), "org-1")
    assert (outcome.status, "unreadable" in outcome.reason) == ("error", True)
