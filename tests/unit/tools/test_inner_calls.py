"""Calls that a program makes of tools: within bounds, and never waiting for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter
from pydantic_core import to_json

from libs.bus.ports import BusUnavailable
from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.contracts.letta.tool_rules import ToolRule
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.base_tools.catalogue import CATALOGUE, base_tool_state
from libs.contracts.tools.base_tools.definition import tool_id
from libs.contracts.tools.tool_runs import CALLS_TOOLS, InnerTool, RunTool, StopToolRun
from libs.work import progress
from services.tools.engine.builtin_runner import BuiltinCall
from services.tools.engine.inner_calls import CALLS_MAX, InnerCallPorts, InnerCalls
from services.tools.engine.run_code_with_tools import RunCodeWithToolsTool
from services.tools.sandbox.ports import Outcome, Program
from tests.clock_and_ids import ManualClock

FOUR = {"result": {"status": "success", "text": "4"}}


@pytest.fixture(autouse=True)
def looks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)


class Subscription:
    async def end(self) -> None:
        """Hear no more."""


class FakeBus:
    """Answers commands as it is told, and tells of the end of calls."""

    def __init__(self, reply: object = FOUR) -> None:
        self.reply = reply
        self.sent: list[Command] = []
        self.deliver: Callable[[str, bytes], object] | None = None

    async def subscribe_deltas(
        self, subject: str, deliver: Callable[[str, bytes], object]
    ) -> Subscription:
        self.deliver = deliver
        return Subscription()

    async def request(self, command: Command, context: Context, **_: Any) -> Accepted | Rejected:
        self.sent.append(command)
        if isinstance(self.reply, Exception):
            raise self.reply
        if isinstance(self.reply, Rejected):
            return self.reply
        if isinstance(self.reply, dict) and self.deliver and isinstance(command, RunTool):
            self.deliver("", b"{}")
            self.deliver("", to_json(self.reply))
        return Accepted()


class Rows:
    def __init__(self, *found: dict[str, Any] | None) -> None:
        self.found = [*found]

    async def run_result(self, org: str, tool_run_id: str) -> dict[str, Any] | None:
        return self.found.pop(0)


OUTER = RunTool(
    tool_run_id="tool_run-1",
    tool_id=tool_id("run_code_with_tools"),
    arguments={"code": "1"},
    environment={"LUCK": "sealed:x"},
    agent_id="agent-1",
    project_id="project-1",
    run_id="run-1",
    step_id="step-1",
    tool_call_id="call_1",
    seconds_max=100.0,
    inner_tools=[
        InnerTool(name="roll", tool_id="tool-1", parameters=["sides"], reads_secrets=True),
        InnerTool(name="run_code", tool_id="tool-2", parameters=["code"]),
        InnerTool(name="pay", tool_id="tool-3", parameters=[], refused="'pay' needs an approval"),
    ],
)


def inner(bus: FakeBus, *rows: dict[str, Any] | None) -> tuple[InnerCalls, ManualClock]:
    clock = ManualClock()
    ports = InnerCallPorts(bus=bus, queries=Rows(*rows), clock=clock)  # type: ignore[arg-type]
    return InnerCalls(ports, OUTER, "org-1"), clock


async def test_a_call_goes_the_way_of_every_other_for_the_same_agent() -> None:
    bus = FakeBus()
    calls, clock = inner(bus)
    clock.seconds = 40.0
    assert await calls.answer("roll", {"sides": 6}) == {"status": "success", "text": "4"}
    assert await calls.answer("run_code", {"code": "x"}) == {"status": "success", "text": "4"}
    first, second = bus.sent
    assert isinstance(first, RunTool)
    assert isinstance(second, RunTool)
    assert (first.tool_id, first.arguments, first.inner) == ("tool-1", {"sides": 6}, True)
    assert (first.agent_id, first.project_id, first.step_id) == ("agent-1", "project-1", "step-1")
    assert (first.environment, second.environment) == (OUTER.environment, {})
    assert first.seconds_max == 60.0
    assert first.inner_tools == []
    assert len({first.tool_run_id, second.tool_run_id, OUTER.tool_run_id}) == 3


RULES = TypeAdapter(list[ToolRule])


def ruled(*rules: dict[str, Any], called: list[str] | None = None) -> InnerCalls:
    """The calls of a program of an agent with these rules, whose bus answers `4`."""
    update = {"tool_rules": RULES.validate_python(rules), "called": called or [CALLS_TOOLS]}
    calls, _ = inner(FakeBus())
    calls = InnerCalls(calls.ports, OUTER.model_copy(update=update), "org-1")
    return calls


async def told(calls: InnerCalls, *names: str) -> list[bool]:
    """Which of these calls were made, one after the other."""
    return [(await calls.answer(name, {}))["status"] == "success" for name in names]


@pytest.mark.parametrize(
    ("rule", "called", "names", "made"),
    [
        (
            {"type": "max_count_per_step", "tool_name": "roll", "max_count_limit": 2},
            [CALLS_TOOLS],
            ["roll", "run_code", "roll", "roll", "run_code"],
            [True, True, True, False, True],
        ),
        (
            {"type": "max_count_per_step", "tool_name": "roll", "max_count_limit": 2},
            ["roll", CALLS_TOOLS],
            ["roll", "roll"],
            [True, False],
        ),
        (
            {"type": "constrain_child_tools", "tool_name": "roll", "children": ["run_code"]},
            [CALLS_TOOLS],
            ["roll", "roll", "run_code", "roll"],
            [True, False, True, True],
        ),
        (
            {"type": "parent_last_tool", "tool_name": "roll", "children": ["run_code"]},
            [CALLS_TOOLS],
            ["run_code", "roll", "run_code"],
            [False, True, True],
        ),
        (
            {
                "type": "conditional",
                "tool_name": "roll",
                "child_output_mapping": {"4": "run_code"},
            },
            [CALLS_TOOLS],
            ["roll", "roll", "run_code"],
            [True, False, True],
        ),
        (
            {"type": "constrain_child_tools", "tool_name": CALLS_TOOLS, "children": ["gone"]},
            [CALLS_TOOLS],
            ["roll", "run_code"],
            [False, False],
        ),
    ],
)
async def test_the_rules_of_the_run_hold_for_what_a_program_calls(
    rule: dict[str, Any], called: list[str], names: list[str], made: list[bool]
) -> None:
    """LOOP-21"""
    calls = ruled(rule, called=called)
    assert await told(calls, *names) == made
    assert calls.called_tools == [name for name, was in zip(names, made, strict=True) if was]


async def test_rules_give_arguments_to_what_a_program_calls() -> None:
    child = {"name": "run_code", "args": {"language": "js"}}
    calls = ruled(
        {
            "type": "constrain_child_tools",
            "tool_name": "roll",
            "children": ["run_code"],
            "child_arg_nodes": [child],
        }
    )
    await calls.answer("roll", {"sides": 6})
    await calls.answer("run_code", {"code": "x", "language": "python"})
    assert isinstance(calls.ports.bus, FakeBus)
    sent = [call.arguments for call in calls.ports.bus.sent if isinstance(call, RunTool)]
    assert sent == [{"sides": 6}, {"code": "x", "language": "js"}]


async def test_what_waits_for_people_or_is_not_there_is_refused_without_a_call() -> None:
    bus = FakeBus()
    calls, _ = inner(bus)
    assert (await calls.answer("pay", {}))["text"] == "'pay' needs an approval"
    assert "Yours are: roll, run_code, pay" in str((await calls.answer("fly", {}))["text"])
    assert bus.sent == []


async def test_a_program_calls_so_often_and_not_more() -> None:
    bus = FakeBus()
    calls, _ = inner(bus)
    answers = [await calls.answer("roll", {}) for _ in range(CALLS_MAX + 1)]
    assert [answer["status"] for answer in answers] == ["success"] * CALLS_MAX + ["error"]
    assert len(bus.sent) == CALLS_MAX


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Rejected(code="forbidden", reason="The list does not allow it"), "does not allow it"),
        (BusUnavailable("gone"), "got no answer"),
        ({"result": {"status": "timeout", "text": "took too long"}}, "took too long"),
    ],
)
async def test_what_goes_wrong_is_said(reply: object, words: str) -> None:
    calls, _ = inner(FakeBus(reply))
    answer = await calls.answer("roll", {})
    assert (answer["status"], words in str(answer["text"])) == ("error", True)


async def test_where_nobody_tells_the_row_does() -> None:
    calls, _ = inner(FakeBus(None), {"result": None}, FOUR, None)
    assert await calls.answer("roll", {}) == {"status": "success", "text": "4"}
    assert "was lost" in str((await calls.answer("roll", {}))["text"])


async def test_a_call_that_nobody_waits_for_is_stopped() -> None:
    bus = FakeBus(None)
    calls, _ = inner(bus, *[{"result": None}] * 1000)
    task = asyncio.create_task(calls.answer("roll", {}))
    await asyncio.sleep(0.03)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    begun, stopped = bus.sent
    assert isinstance(begun, RunTool)
    assert isinstance(stopped, StopToolRun)
    assert stopped.tool_run_id == begun.tool_run_id


async def test_a_program_is_run_for_a_model_and_never_by_another_program() -> None:
    class Sandbox:
        def refusal_of(self, program: Program) -> str:
            return ""

        async def run_calling(self, program: Program, answer: object) -> Outcome:
            assert "TOOLS.update({'roll': ['sides'], 'run_code': ['code'], 'pay': []})" in (
                program.prelude
            )
            return Outcome("error", stderr="e", reason="Traceback\nKeyError: 'a'")

    state = base_tool_state(CATALOGUE[tool_id("run_code_with_tools")])
    tool = ToolState.model_validate(state)
    ports = inner(FakeBus())[0].ports
    built_in = RunCodeWithToolsTool(Sandbox(), ports)
    for changes, why in (
        ({"inner": True}, "cannot be called by another one"),
        ({"step_id": ""}, "Only an agent's model"),
        ({}, ""),
    ):
        asked = OUTER.model_copy(update=changes)
        assert why in built_in.refusal_of(BuiltinCall(tool, asked, "org-1"))
    result = await built_in.run(BuiltinCall(tool, OUTER, "org-1"))
    assert result.status == "success"
    assert result.text == (
        '{"status":"error","func_return":"Error executing function run_code_with_tools: KeyError:'
        ' \'a\'","stdout":[],"stderr":["e","Traceback\\nKeyError: \'a\'"]}'
    )
