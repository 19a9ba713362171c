"""What the types of agents have of their own, and the loop that their runs follow."""

from __future__ import annotations

import pytest

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.letta.enums import AgentType
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.agents.agent_types import PROFILES
from services.agent.domain.conversations.active_run import ActiveRun, PendingCall
from services.agent.domain.prompts.model_context import ShownMemory, system_prompt
from services.agent.domain.prompts.system_prompt import AttachedBlock
from services.agent.domain.runs.agent_loops import loop_of
from services.agent.domain.runs.run_actions import (
    AskModel,
    EndRun,
    NextAction,
    RunTools,
    StartTools,
)
from tests.contract.examples import CONFIG, RUN_CONFIG
from tests.unit.given import NOW

TEA = ToolCall(id="call_1", name="memory_insert", arguments="{}")
CAKE = ToolCall(id="call_2", name="memory_insert", arguments="{}")
BLOCK = AttachedBlock("block-1", 1, "human", "Ada", None, 100, False)


def run(*calls: PendingCall, steps: int = 1, finish_reason: str = "stop") -> ActiveRun:
    """A run after so many steps, the last of which made these calls."""
    return ActiveRun(
        run=RUN_CONFIG,
        max_steps=2,
        started_at=NOW,
        steps=steps,
        step_id="step-1",
        calls=list(calls),
        finish_reason=finish_reason,
    )


WAITING, STARTED, FINISHED = (
    PendingCall(call=TEA, state=state) for state in ("waiting", "started", "finished")
)


V1_TYPES = (AgentType.letta_v1_agent, AgentType.sleeptime_agent)
OLDER_TYPES = [agent_type for agent_type in AgentType if agent_type not in V1_TYPES]


@pytest.mark.parametrize("agent_type", AgentType)
@pytest.mark.parametrize(
    ("stands", "action"),
    [
        (run(steps=0), AskModel(run(steps=0).next_step_id)),
        (run(WAITING), StartTools((TEA,))),
        (run(STARTED), RunTools("step-1", (TEA,))),
        (run(FINISHED, PendingCall(call=CAKE)), StartTools((CAKE,))),
        (run(), EndRun("end_turn")),
        (run(finish_reason="length"), EndRun("max_tokens_exceeded")),
    ],
    ids=["begun", "called", "running", "next call", "said", "cut"],
)
def test_what_comes_next_follows_from_where_a_run_stands(
    agent_type: AgentType, stands: ActiveRun, action: NextAction
) -> None:
    assert loop_of(agent_type).next_action(stands) == action


@pytest.mark.parametrize("agent_type", V1_TYPES)
def test_any_call_goes_on_until_the_last_step(agent_type: AgentType) -> None:
    loop = loop_of(agent_type)
    assert loop.next_action(run(FINISHED)) == AskModel(run(FINISHED).next_step_id)
    assert loop.next_action(run(FINISHED, steps=2)) == EndRun("max_steps")


@pytest.mark.parametrize("agent_type", OLDER_TYPES)
def test_a_call_goes_on_in_the_older_types_if_it_asks_for_that(agent_type: AgentType) -> None:
    asking = TEA.model_copy(update={"arguments": '{"request_heartbeat": true}'})
    asked = PendingCall(call=asking, state="finished")
    loop = loop_of(agent_type)
    assert loop.next_action(run(FINISHED)) == EndRun("end_turn")
    assert loop.next_action(run(asked)) == AskModel(run(asked).next_step_id)
    assert loop.next_action(run(asked, steps=2)) == EndRun("max_steps")


def test_a_model_is_offered_the_tools_that_its_agent_holds() -> None:
    config = CONFIG.model_copy(
        update={"llm_config": CONFIG.llm_config.model_copy(update={"parallel_tool_calls": True})}
    )
    design = AgentDesign(config=config, tools=["memory_insert"], tags=[], block_ids=[])
    offered = loop_of(config.agent_type).offered_tools(design, run(steps=0))
    assert offered.schemas == [BASE_TOOLS["memory_insert"].json_schema]
    assert offered.parallel


@pytest.mark.parametrize("agent_type", AgentType)
def test_every_type_has_a_row_and_its_tools_are_in_the_catalogue(agent_type: AgentType) -> None:
    assert set(PROFILES[agent_type].tools) <= BASE_TOOLS.keys()


@pytest.mark.parametrize("agent_type", AgentType)
def test_only_types_that_show_blocks_have_them_in_their_prompts(agent_type: AgentType) -> None:
    config = CONFIG.model_copy(update={"agent_type": agent_type})
    shown = system_prompt(config, ShownMemory([BLOCK]), previous_messages=0, at=NOW).content
    without_blocks = {AgentType.react_agent, AgentType.workflow_agent}
    assert ("<memory_blocks>" in shown) is (agent_type not in without_blocks)
