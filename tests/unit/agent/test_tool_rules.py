"""Each kind of tool rule: what it allows, and what becomes of a run under it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.contracts.agent.conversations import MessageAppended, ToolCall
from libs.contracts.agent.runs import RunAccepted
from libs.contracts.agent.steps import ModelReplied, ToolCallRefused
from libs.contracts.agent.tool_rule_evaluation import RULES, ToolRules
from libs.contracts.letta.tool_rules import ToolRule
from services.agent.domain.agents.agent_configuration import (
    RULE_VALUES_MAX,
    TOOL_RULES_BYTES_MAX,
    unfit_rules,
)
from services.agent.domain.runs.step_results import ModelReply
from services.agent.domain.tools.tool_rules import rule_lines, rules_in_force
from tests.processor_bounds import processor_time
from tests.unit.agent import anthropic_documents
from tests.unit.agent.model_replies import calls, words
from tests.unit.agent.openai_documents import body_of
from tests.unit.agent.rule_runs import rule, stop_reason
from tests.unit.agent.world import ASK, Process, World

TOOLS = ("a", "b", "c")


def rules(*asked: dict[str, Any], called: str = "", returned: str = "") -> ToolRules:
    """These rules after calls of tools with names of one letter."""
    return ToolRules(RULES.validate_python(asked), list(called), returned)


FIRST = rule("run_first")
CHILDREN = rule("constrain_child_tools", children=["b"])
PARENT = rule("parent_last_tool", children=["b"])
TWICE = rule("max_count_per_step", max_count_limit=2)
CHOICE = rule("conditional", child_output_mapping={"yes": "b"}, default_child="c")
STRICT = {**CHOICE, "require_output_mapping": True}
OPEN = rule("conditional", child_output_mapping={"yes": "b"})


@pytest.mark.parametrize(
    ("asked", "called", "returned", "allowed", "must_call"),
    [
        ([], "", "", "abc", False),
        ([FIRST], "", "", "a", True),
        ([FIRST], "a", "", "abc", False),
        ([FIRST, rule("run_first", "c")], "", "", "ac", True),
        ([CHILDREN], "", "", "abc", False),
        ([CHILDREN], "a", "", "b", True),
        ([CHILDREN], "ab", "", "abc", False),
        ([PARENT], "", "", "ac", False),
        ([PARENT], "a", "", "b", True),
        ([PARENT], "ac", "", "ac", False),
        ([TWICE], "a", "", "abc", False),
        ([TWICE], "aab", "", "bc", False),
        ([CHOICE], "", "", "abc", False),
        ([CHOICE], "a", "yes", "b", True),
        ([CHOICE], "a", "no", "c", True),
        ([OPEN], "a", "no", "abc", True),
        ([STRICT], "a", "no", "abc", True),  # nothing is left: all may be called
        ([CHILDREN, rule("max_count_per_step", "b", max_count_limit=1)], "ba", "", "abc", True),
        ([CHILDREN, PARENT], "a", "", "b", True),
        ([rule("exit_loop"), rule("continue_loop", "b")], "", "", "abc", False),
    ],
)
def test_what_may_be_called_next(
    asked: list[dict[str, Any]], called: str, returned: str, allowed: str, must_call: bool
) -> None:
    now = rules(*asked, called=called, returned=returned)
    assert now.allowed_tools(TOOLS) == set(allowed)
    assert now.must_call is must_call


def test_a_tool_that_the_agent_has_not_is_never_allowed_and_never_required() -> None:
    asked = [rule("run_first", "z"), rule("required_before_exit", "z"), rule("exit_loop")]
    assert rules(*asked).allowed_tools(TOOLS) == set(TOOLS)
    assert rules(*asked).still_required(TOOLS) == []
    assert [tool_rule.tool_name for tool_rule in rules_in_force(asked, TOOLS)] == ["a"]


def test_only_rules_about_the_order_of_calls_forbid_several_at_once() -> None:
    assert not rules().one_at_a_time
    assert not rules(rule("requires_approval")).one_at_a_time
    assert rules(rule("exit_loop")).one_at_a_time


def test_arguments_that_rules_give() -> None:
    first = {**FIRST, "args": {"x": 1}}
    child = {**CHILDREN, "child_arg_nodes": [{"name": "b", "args": {"y": 2}}]}
    assert rules(first, child).prefilled_arguments(TOOLS) == {"a": {"x": 1}}
    assert rules(first, child, called="a").prefilled_arguments(TOOLS) == {"b": {"y": 2}}
    assert rules(first, child, called="a").prefilled_arguments("c") == {}
    assert rules(first, child, called="ab").prefilled_arguments(TOOLS) == {}


def test_a_model_reads_every_rule_but_approvals() -> None:
    kinds = [FIRST, CHILDREN, PARENT, TWICE, CHOICE]
    ends = [rule(kind, "b") for kind in ("exit_loop", "continue_loop", "required_before_exit")]
    lines = rule_lines(RULES.validate_python([*kinds, *ends, rule("requires_approval")]))
    assert len(lines) == 8
    assert all("`a`" in line for line in lines[:5])
    assert all("`b`" in line for line in lines[5:])


# Whole runs


def giving(*nodes: tuple[str, dict[str, Any]]) -> list[ToolRule]:
    """One rule that gives these arguments to these tools."""
    given = [{"name": name, "args": args} for name, args in nodes]
    return RULES.validate_python([{**CHILDREN, "child_arg_nodes": given}])


def test_the_arguments_of_the_greatest_number_of_nodes_are_checked_soon() -> None:
    count = TOOL_RULES_BYTES_MAX // 60
    many = giving(*[("send_message", {"message": f"{n:04}"}) for n in range(count)])
    tags = giving(("archival_memory_insert", {"tags": ["a"] * (RULE_VALUES_MAX - 1)}))
    unfit_rules(many[:1])  # what checks is prepared once
    for asked in (many, tags):
        with processor_time(0.2):
            assert unfit_rules(asked) is None


def test_more_arguments_than_are_checked_are_refused() -> None:
    refused = unfit_rules(giving(("archival_memory_insert", {"tags": [1] * RULE_VALUES_MAX})))
    assert refused
    assert "at most 2000 keys and items" in refused.reason


SEARCH = ToolCall(id="call_1", name="conversation_search", arguments='{"query": "tea"}')
KEEP = ToolCall(id="call_2", name=ASK, arguments='{"content": "tea"}')


def again(call: ToolCall, number: int) -> ToolCall:
    return call.model_copy(update={"id": f"call_{number}"})


async def ran(world: World, *turns: ModelReply, rules: list[dict[str, Any]]) -> Process:
    """A process that has answered one message of an agent with these rules."""
    await world.agent(tool_rules=rules)
    process = world.process("p-1", *turns)
    world.build_tool(process)
    await process.say("run-1")
    await process.idle()
    assert not process.model.turns, "the model was asked as often as it should be"
    return process


def offered(process: Process) -> list[list[str]]:
    """The names of the tools that the model was offered, step by step."""
    return [[str(tool["name"]) for tool in request.tools] for request in process.model.asked]


async def test_exit_loop_ends_the_run_after_the_call(world: World) -> None:
    await ran(world, calls(SEARCH), rules=[rule("exit_loop", SEARCH.name)])
    assert stop_reason(world) == "tool_rule"
    assert world.story()[-3:] == ["tool_call.finished", "message.appended", "run.completed"]


async def test_run_first_offers_one_tool_and_wants_a_call(world: World) -> None:
    process = await ran(world, calls(SEARCH), words(), rules=[rule("run_first", SEARCH.name)])
    first, second = process.model.asked
    assert offered(process)[0] == [SEARCH.name]
    assert len(second.tools) == 3
    assert body_of(first)["tool_choice"] == "required"
    assert body_of(second)["tool_choice"] == "auto"
    choice = anthropic_documents.body_of(first)["tool_choice"]
    assert choice == {"type": "any", "disable_parallel_tool_use": True}
    assert stop_reason(world) == "end_turn"
    replied = [event.offered for event in world.events() if isinstance(event, ModelReplied)]
    assert replied == [[SEARCH.name], None]


async def test_a_call_that_the_rules_forbid_is_not_carried_out(world: World) -> None:
    asked = [rule("run_first", SEARCH.name)]
    process = await ran(world, calls(KEEP), calls(SEARCH), words(), rules=asked)
    assert world.tool_runs == []
    [refused] = [event for event in world.events() if isinstance(event, ToolCallRefused)]
    assert (refused.tool, refused.tool_call_id) == (KEEP.name, KEEP.id)
    shown = process.model.asked[1].messages[-1]
    assert (shown.role, shown.tool_status) == ("tool", "error")
    assert f"may call: `{SEARCH.name}`" in str(shown.content)
    assert offered(process)[1] == [SEARCH.name], "a call that was refused is no first call"
    assert "tool_call.started" in world.story()
    assert stop_reason(world) == "end_turn"


async def test_children_come_next(world: World) -> None:
    asked = [rule("constrain_child_tools", SEARCH.name, children=[ASK])]
    process = await ran(world, calls(SEARCH), calls(KEEP), words(), rules=asked)
    assert offered(process)[1] == [ASK]
    assert len(offered(process)[2]) == 3
    assert world.tool_runs == ["p-1 call_2"]


async def test_a_parent_comes_right_before(world: World) -> None:
    asked = [rule("parent_last_tool", SEARCH.name, children=[ASK])]
    process = await ran(world, calls(SEARCH), calls(KEEP), words(), rules=asked)
    assert ASK not in offered(process)[0]
    assert offered(process)[1] == [ASK]
    assert ASK not in offered(process)[2]


async def test_what_a_tool_returns_decides(world: World) -> None:
    found = "No results found."  # what the search of these tests returns
    asked = [rule("conditional", SEARCH.name, child_output_mapping={found: ASK})]
    process = await ran(world, calls(SEARCH), calls(KEEP), words(), rules=asked)
    assert offered(process)[1] == [ASK]


async def test_a_tool_may_be_called_so_often(world: World) -> None:
    asked = [rule("max_count_per_step", ASK, max_count_limit=1)]
    process = await ran(world, calls(KEEP), calls(again(KEEP, 3)), words(), rules=asked)
    assert ASK not in offered(process)[1]
    assert world.tool_runs == ["p-1 call_2"], "the second call was refused"


async def test_a_tool_that_is_required_keeps_the_run_going(world: World) -> None:
    asked = [rule("required_before_exit", ASK)]
    process = await ran(world, words("Bye"), calls(KEEP), words(), rules=asked)
    reminder = process.model.asked[1].messages[-1]
    assert (reminder.role, ASK in str(reminder.content)) == ("user", True)
    kept = [event.message for event in world.events() if isinstance(event, MessageAppended)]
    assert reminder.content not in [message.content for message in kept], (
        "it is no part of the history"
    )
    assert stop_reason(world) == "end_turn"


async def test_a_tool_that_is_never_called_ends_with_the_last_step(world: World) -> None:
    await world.agent(tool_rules=[rule("required_before_exit", ASK)])
    process = world.process("p-1", *[words()] * 3)
    await process.say("run-1", max_steps=3)
    await process.idle()
    assert stop_reason(world) == "max_steps"


async def test_arguments_of_a_rule_win_over_those_of_the_model(world: World) -> None:
    asked = [{**rule("run_first", ASK), "args": {"content": "given"}}]
    await ran(world, calls(KEEP), words(), rules=asked)
    [replied, _] = [event for event in world.events() if isinstance(event, ModelReplied)]
    assert json.loads(replied.tool_calls[0].arguments) == {"content": "given"}


async def test_of_several_calls_under_rules_the_first_counts(world: World) -> None:
    asked = [rule("continue_loop", ASK)]
    await ran(world, calls(KEEP, SEARCH), words(), rules=asked)
    assert world.story().count("tool_call.started") == 1


async def test_a_run_keeps_the_rules_that_it_was_accepted_under(world: World) -> None:
    asked = [rule("exit_loop", ASK), rule("exit_loop", "a_tool_that_it_has_not")]
    await ran(world, words(), rules=asked)
    [accepted] = [event for event in world.events() if isinstance(event, RunAccepted)]
    assert [tool_rule.tool_name for tool_rule in accepted.tool_rules] == [ASK]


async def test_a_process_that_takes_over_goes_on_by_the_same_rules(world: World) -> None:
    await world.agent(tool_rules=[rule("constrain_child_tools", SEARCH.name, children=[ASK])])
    died = world.process("p-1", calls(SEARCH), RuntimeError("it dies here"))
    await died.say("run-1")
    await died.idle()
    world.lease_expires()
    heir = world.process("p-2", calls(KEEP), words())
    world.build_tool(heir)
    await heir.drivers.sweep()
    await heir.idle()
    assert offered(heir)[0] == [ASK]
    assert stop_reason(world) == "end_turn"
