"""Calls of tools: begun once, ended once, whatever becomes of their process."""

from __future__ import annotations

import asyncio

import pytest

from libs.contracts.bus_messages import (
    NOT_FOUND,
    UNAVAILABLE,
    UNPROCESSABLE,
    Accepted,
    JsonObject,
    Rejected,
)
from libs.contracts.letta.tools import ToolState
from libs.contracts.shortened_text import NOTE
from libs.contracts.tools.tool_runs import (
    ARGUMENTS_KEPT_CHARS_MAX,
    StopToolRun,
    ToolRunBegun,
    ToolRunEnded,
)
from libs.contracts.tools.tools import DeleteTool
from libs.encryption.sealer import Sealer
from libs.encryption.sealing_keys import new_key
from libs.eventstore.event_decoding import event_of
from libs.eventstore.ports import StoreUnavailable
from services.tools.domain.tool_run import printed_texts, text_of
from services.tools.engine.custom_tool_runner import in_order, result_of
from services.tools.engine.tool_runs import ToolRuns
from services.tools.sandbox.ports import Outcome
from tests.unit.tools.tool_run_world import (
    CALL,
    DICE,
    FOUR,
    NAMES,
    SEALER,
    TOOL,
    FakeSandbox,
    Process,
    World,
    call,
    for_ever,
)
from tests.waiting import wait_for

SOON_OVER = pytest.mark.usefixtures("a_short_end")  # of a process that is dead already


@pytest.fixture
def a_short_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToolRuns, "drain_seconds_max", 0.05)


@pytest.fixture
async def world() -> World:
    made = World()
    await made.make_tool()
    await made.listen()
    return made


async def test_a_call_is_begun_run_and_ended_and_everybody_is_told(world: World) -> None:
    process = Process(world, "tools-1")

    reply = await process.tell(call())
    await process.idle()

    assert isinstance(reply, Accepted)
    [program] = process.sandbox.programs
    assert (program.function, program.arguments) == ("roll_die", {"sides": 6})
    assert (program.source, program.limits.seconds) == (DICE.source_code, 30.0)
    assert (program.org, program.agent_id) == ("org-1", "agent-1")
    assert program.environment == NAMES
    assert world.story() == ["tool_run.begun", "tool_run.ended"]
    begun, ended = (event_of("tools", stored) for stored in world.schema.streams[CALL])
    assert isinstance(begun, ToolRunBegun)
    assert (begun.tool_id, begun.name, begun.arguments) == (TOOL, "roll_die", '{"sides":6}')
    assert (begun.run_id, begun.tool_call_id) == ("run-1", "call_1")
    assert isinstance(ended, ToolRunEnded)
    assert (ended.result.text, ended.result.stdout) == ("4", ["rolling\n"])
    assert (ended.result.seconds, ended.result.cpu_seconds) == (0.1, 0.05)
    assert world.row()["status"] == "success"
    assert world.row()["result"] == ended.result.model_dump(mode="json")
    assert world.told[-1] == {"result": ended.result.model_dump(mode="json")}
    assert CALL not in world.schema.leases or world.schema.leases[CALL].expires_at <= 0


async def test_a_command_that_comes_twice_is_one_call(world: World) -> None:
    process, other = Process(world, "tools-1"), Process(world, "tools-2")
    await process.tell(call())
    await process.idle()
    again = [await caller.tell(call()) for caller in (process, other)]

    assert all(isinstance(reply, Accepted) for reply in again)
    assert len(process.sandbox.programs) == 1
    assert other.sandbox.programs == []
    assert world.story() == ["tool_run.begun", "tool_run.ended"]


async def test_it_is_durable_that_a_call_was_begun_before_its_code_runs(world: World) -> None:
    async def look() -> Outcome:
        assert world.story() == ["tool_run.begun"]
        assert world.row()["status"] == "running"
        return FOUR

    process = Process(world, "tools-1", FakeSandbox(look))
    await process.tell(call())
    await process.idle()

    assert world.row()["status"] == "success"


@SOON_OVER
async def test_a_call_whose_process_died_is_lost_and_never_made_again(world: World) -> None:
    dead, other = Process(world, "tools-1", FakeSandbox(for_ever)), Process(world, "tools-2")
    await dead.tell(call())
    await other.sweep()
    assert world.row()["status"] == "running"

    world.clock.seconds += 11
    await other.sweep()

    assert world.story() == ["tool_run.begun", "tool_run.lost"]
    assert world.row()["status"] == "lost"
    assert other.sandbox.programs == []
    await dead.runs.drain()
    assert world.story() == ["tool_run.begun", "tool_run.lost"]


@SOON_OVER
async def test_a_lost_call_that_cannot_be_ended_now_is_ended_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store goes away between the lease and the end: the lease must not be kept for ever."""
    dead, other = Process(world, "tools-1", FakeSandbox(for_ever)), Process(world, "tools-2")
    await dead.tell(call())
    world.clock.seconds += 11

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(other.repository, "load", away)
        await other.sweep()
    assert world.row()["status"] == "running"
    assert other.store.held == {}
    world.clock.seconds += 11
    await other.sweep()

    assert world.story() == ["tool_run.begun", "tool_run.lost"]
    await dead.runs.drain()


@SOON_OVER
async def test_r27_a_call_that_kills_its_process_is_lost_at_once_and_costs_no_other_its_answer(
    world: World,
) -> None:
    """R27: one attempt, not five: what a tool has done is not known, so it is never made again.
    What it was stays in the log; others are answered before and after."""
    poisoned = [Process(world, f"tools-{n}", FakeSandbox(for_ever)) for n in (1, 2)]
    for n, process in enumerate(poisoned):
        await process.tell(call(tool_run_id=f"tool_run-p{n}"), f"m-p{n}")
        await wait_for("the code", lambda: process.sandbox.programs)  # noqa: B023
    healthy = Process(world, "tools-3")
    await healthy.tell(call(), "m-1")
    await healthy.idle()
    world.clock.seconds += 11  # the processes are gone, and their leases run out
    for _ in range(3):
        await healthy.sweep()
    await healthy.tell(call(tool_run_id="tool_run-2"), "m-2")
    await healthy.idle()

    rows = {row["id"]: row["status"] for row in world.schema.rows("tool_runs")}
    assert rows == {
        "tool_run-p0": "lost",
        "tool_run-p1": "lost",
        CALL: "success",
        "tool_run-2": "success",
    }
    assert [len(process.sandbox.programs) for process in (*poisoned, healthy)] == [1, 1, 2]
    begun = event_of("tools", world.schema.streams["tool_run-p0"][0])
    assert isinstance(begun, ToolRunBegun)
    assert (begun.name, begun.arguments) == ("roll_die", '{"sides":6}')
    for process in poisoned:
        await process.runs.drain()


async def test_a_late_result_of_a_lost_call_changes_nothing(world: World) -> None:
    thawed = asyncio.Event()

    async def frozen() -> Outcome:
        await thawed.wait()
        return FOUR

    slow, other = Process(world, "tools-1", FakeSandbox(frozen)), Process(world, "tools-2")
    await slow.tell(call())
    world.clock.seconds += 11
    await other.sweep()
    thawed.set()
    await slow.idle()

    assert world.story() == ["tool_run.begun", "tool_run.lost"]
    assert not any("result" in payload for payload in world.told)


async def test_a_process_that_lost_its_lease_kills_the_code(world: World) -> None:
    process = Process(world, "tools-1", FakeSandbox(for_ever))
    await process.tell(call())
    await wait_for("the code", lambda: process.sandbox.programs)
    for _ in range(2):
        process.runs.leases_held(set())
    await process.idle()

    assert process.sandbox.killed == 1


async def test_a_stopped_call_is_killed_where_it_runs(world: World) -> None:
    process, other = Process(world, "tools-1", FakeSandbox(for_ever)), Process(world, "tools-2")
    await process.tell(call())
    await wait_for("the code", lambda: process.sandbox.programs)

    reply = await other.tell(StopToolRun(tool_run_id=CALL), "m-2")
    assert isinstance(reply, Accepted)
    process.runs.cancelled_somewhere()
    await process.idle()

    assert process.sandbox.killed == 1
    assert world.story() == ["tool_run.begun", "tool_run.stopped"]
    assert world.row()["status"] == "stopped"
    assert not any("result" in payload for payload in world.told)


async def test_stopping_what_has_ended_changes_nothing(world: World) -> None:
    process = Process(world, "tools-1")
    await process.tell(call())
    await process.idle()
    await process.tell(StopToolRun(tool_run_id=CALL), "m-2")
    await process.tell(StopToolRun(tool_run_id="tool_run-unknown"), "m-3")

    assert world.story() == ["tool_run.begun", "tool_run.ended"]


async def test_a_process_that_is_being_stopped_begins_no_call(world: World) -> None:
    process = Process(world, "tools-1")
    await process.runs.drain()

    reply = await process.tell(call())

    assert isinstance(reply, Rejected)
    assert reply.code == UNAVAILABLE, "another process is worth a try"
    assert world.story() == []


async def test_without_a_sandbox_nothing_is_begun(world: World) -> None:
    sandbox = FakeSandbox()
    sandbox.refusal = "This machine grants no sandbox"
    process = Process(world, "tools-1", sandbox)

    reply = await process.tell(call())

    assert isinstance(reply, Rejected)
    assert (reply.code, reply.reason) == (UNPROCESSABLE, "This machine grants no sandbox")
    assert world.story() == []


async def test_a_deleted_tool_and_another_organisations_are_not_called(world: World) -> None:
    process = Process(world, "tools-1")
    foreign = await process.tell(call(), "m-1", org="org-2")
    await process.tell(DeleteTool(tool_id=TOOL), "m-2")
    gone = await process.tell(call(), "m-3")

    for reply in (foreign, gone):
        assert isinstance(reply, Rejected)
        assert (reply.code, TOOL in reply.reason) == (NOT_FOUND, True)
    assert process.sandbox.programs == []


async def test_a_broken_sandbox_ends_the_call(world: World) -> None:
    async def broken() -> Outcome:
        raise OSError("no pipe")

    process = Process(world, "tools-1", FakeSandbox(broken))
    await process.tell(call())
    await process.idle()

    assert world.row()["status"] == "error"
    assert "no pipe" not in str(world.row()["result"])


async def test_long_arguments_are_cut_in_the_history_alone(world: World) -> None:
    process = Process(world, "tools-1")
    await process.tell(call(arguments={"text": "x" * 20_000}))
    await process.idle()

    begun = event_of("tools", world.schema.streams[CALL][0])
    assert isinstance(begun, ToolRunBegun)
    assert len(begun.arguments) == ARGUMENTS_KEPT_CHARS_MAX
    assert process.sandbox.programs[0].arguments == {"text": "x" * 20_000}


async def test_source_is_called_without_a_tool_of_its_own(world: World) -> None:
    process = Process(world, "tools-1")
    source = DICE.model_copy(update={"id": "", "source_code": "def roll_die(sides): return 5"})
    await process.tell(call(tool_id="", source=source, agent_id=""))
    await process.idle()

    assert process.sandbox.programs[0].source == "def roll_die(sides): return 5"
    assert world.row()["status"] == "success"


@pytest.mark.parametrize(
    ("value", "text"),
    [("so", "so"), (4, "4"), (None, "None"), (True, "True"), ({"a": 1}, '{"a":1}'), ([1], "[1]")],
)
def test_what_a_tool_returns_is_read_as_text(value: object, text: str) -> None:
    assert text_of(value) == text  # type: ignore[arg-type]


def test_an_exception_is_told_in_a_line_and_printed_whole() -> None:
    traceback = 'Traceback:\n  File "x"\nZeroDivisionError: division by zero'
    result = result_of("f", Outcome("error", reason=traceback), chars_max=100)

    assert result.text == "Error executing function f: ZeroDivisionError: division by zero"
    assert result.stderr == [traceback]


def test_what_no_database_keeps_is_in_no_result() -> None:
    said = Outcome("error", reason="\x00bad\ud800", stdout="a\x00b", stderr="c\x00")
    result = result_of("f", said, chars_max=100)

    assert result.text == "Error executing function f: bad"
    assert (result.stdout, result.stderr) == (["ab"], ["c"])
    result.model_dump_json()


def test_what_is_long_is_cut() -> None:
    assert printed_texts("") == []
    assert printed_texts("x" * 60_000)[0].endswith("[10000 characters left out]")
    cut = result_of("f", Outcome("success", "y" * 50), chars_max=10)
    assert cut.text == "y" * 10 + NOTE.format(chars=50, limit=10)


class TestEnvironments:
    async def test_what_is_sealed_is_opened_for_the_sandbox_alone(self, world: World) -> None:
        """S12: the event log, the row and what is told hold no secret."""
        process = Process(world, "tools-1")
        await process.tell(call(environment={"TOKEN": SEALER.seal("hunter2")}))
        await process.idle()

        [program] = process.sandbox.programs
        assert program.environment == {"TOKEN": "hunter2", **NAMES}
        kept = [*map(str, world.schema.streams[CALL]), str(world.row()), str(world.told)]
        assert "hunter2" not in "".join(kept)

    async def test_a_lost_key_is_said_in_words_and_nothing_runs(self, world: World) -> None:
        process = Process(world, "tools-1")
        sealed = Sealer([new_key()]).seal("hunter2")
        await process.tell(call(environment={"TOKEN": sealed}))
        await process.idle()

        assert process.sandbox.programs == []
        result = world.row()["result"]
        assert isinstance(result, dict)
        assert result["status"] == "error"
        assert str(result["text"]).startswith("The environment variable TOKEN cannot be read: no")

    def test_what_is_not_sealed_is_no_command(self) -> None:
        with pytest.raises(ValueError, match="environment"):
            call(environment={"TOKEN": "hunter2"})


def test_arguments_of_typescript_are_in_the_order_of_the_schema() -> None:
    properties: JsonObject = {"a": {}, "b": {}, "c": {}}
    schema: JsonObject = {"name": "f", "parameters": {"properties": properties}}
    tool = ToolState(id=TOOL, source_type="typescript", json_schema=schema)
    assert [*in_order({"b": 2, "a": 1}, tool).items()] == [("a", 1), ("b", 2)]
    assert [*in_order({"c": 3, "d": 4}, tool).items()] == [
        ("a", None),
        ("b", None),
        ("c", 3),
        ("d", 4),
    ]
    assert in_order({"b": 2}, DICE) == {"b": 2}
