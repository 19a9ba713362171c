"""`pause_heartbeats`: how long, what ends, what follows, and whatever clocks, processes and people
do meanwhile (LOOP-12, LOOP-13)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from libs.contracts.agent.agents import DeleteAgent
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.runs import CancelRuns, HeartbeatsPaused
from libs.contracts.bus_messages import CONFLICT, PENDING_APPROVAL, Accepted, Rejected
from libs.contracts.bus_messages import DEFAULT_ORG as ORG
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.tool_rules import RequiredBeforeExitToolRule
from services.agent.adapters.conversation_queries import PAUSES_SEEN_MAX, PausedConversation
from services.agent.domain.runs.heartbeat_pauses import MINUTES_DEFAULT, pause_minutes
from services.agent.handlers import waiting_conversations
from services.agent.handlers.waiting_conversations import LOOKED_SECONDS_MAX, MonotonicDeadlines
from tests.clock_and_ids import ManualClock
from tests.contract.examples import AGENT
from tests.unit.agent.driven_runs import ACCEPTED, WORDS
from tests.unit.agent.model_replies import calls, words
from tests.unit.agent.world import CONVERSATION, Process, World
from tests.unit.given import NOW
from tests.waiting import wait_for

TOOLS = ["pause_heartbeats", "send_message", "conversation_search"]
TYPES = [AgentType.memgpt_agent, AgentType.letta_v1_agent]


def pauses(minutes: object = 2, **arguments: object) -> ToolCall:
    arguments = {"minutes": minutes, **arguments}
    return ToolCall(id="call_p", name="pause_heartbeats", arguments=json.dumps(arguments))


def ahead(process: Process, seconds: float) -> None:
    """Give a process a clock of its own, that is so much ahead."""
    clock = ManualClock()
    clock.ahead = seconds
    process.handlers.ports.clock = clock
    process.handlers.pauses.ends.clock = clock


@pytest.fixture
async def world() -> World:
    world = World()
    await world.start_memory()
    await world.agent(tools=TOOLS)
    return world


async def after(process: Process, world: World, seconds: float) -> None:
    """The sweep of a process after so many seconds in which it looked as often as it does."""
    for _ in range(int(seconds // 2)):
        world.clock.seconds += 2
        await process.handlers.pauses.sweep()
        await process.idle()
    world.clock.seconds += seconds % 2
    await process.handlers.pauses.sweep()
    await process.idle()


async def paused(world: World, *later: Any, minutes: object = 2) -> Process:
    """A process in which an agent pauses; it looked for pauses before, and goes on looking."""
    process = world.process("p-1", calls(pauses(minutes)), *later)
    await process.handlers.pauses.sweep()
    await process.say("run-1")
    await process.idle()
    await process.handlers.pauses.sweep()
    assert pause_rows(world), "it pauses"
    return process


def pause_rows(world: World) -> list[Any]:
    return world.schema.rows("heartbeat_pauses")


def runs(world: World) -> list[str]:
    return [event.run_id for event in world.events() if event.topic == "run.accepted"]  # type: ignore[attr-defined]


class TestHowLong:
    @pytest.mark.parametrize(
        ("asked", "minutes"),
        [
            *((minutes, minutes) for minutes in (1, 2, 5, 30, 59, 60)),
            *((wish, 1) for wish in (0, -1, -(10**9), 0.4, "0")),
            *((wish, 60) for wish in (61, 120, 10**400, "90", float("inf"), "1e9")),
            *((wish, 2) for wish in ("2", " 2 ", 2.0, 2.9)),
            *((wish, MINUTES_DEFAULT) for wish in (None, "", "soon", "ten", True, False)),
            *(
                (wish, MINUTES_DEFAULT)
                for wish in ([], {}, [5], {"minutes": 5}, float("nan"), "nan")
            ),
        ],
        ids=lambda value: repr(value)[:20],
    )
    def test_is_clamped_and_what_is_no_number_means_the_default(
        self, asked: object, minutes: int
    ) -> None:
        """LOOP-12"""
        assert pause_minutes(asked) == minutes

    @pytest.mark.parametrize("arguments", ["", "{", "[]", "null", "{}", '{"minutes":"x"}', "7"])
    async def test_arguments_that_cannot_be_read_mean_the_default(
        self, world: World, arguments: str
    ) -> None:
        """LOOP-12"""
        call = ToolCall(id="call_p", name="pause_heartbeats", arguments=arguments)
        process = world.process("p-1", calls(call))
        await process.say("run-1")
        await process.idle()
        [row] = pause_rows(world)
        assert row["minutes"] == 2


class TestTheRunThatPauses:
    @pytest.mark.parametrize("agent_type", TYPES)
    async def test_ends_at_once_and_says_until_when(self, agent_type: AgentType) -> None:
        """LOOP-12. The stop reason is V1's `end_turn`: `pause_heartbeats` is none of its reasons,
        so the event says it."""
        world = World()
        await world.start_memory()
        await world.agent(tools=TOOLS, agent_type=agent_type)
        process = world.process("p-1", calls(pauses(5, request_heartbeat=True)))
        await process.say("run-1")
        await process.idle()
        assert world.story() == [
            *ACCEPTED,
            "model.replied",
            "message.appended",
            "tool_call.started",
            "tool_call.finished",
            "message.appended",
            "heartbeats.paused",
            "run.completed",
        ]
        [event] = [event for event in world.events() if isinstance(event, HeartbeatsPaused)]
        assert (event.run_id, event.agent_id, event.minutes) == ("run-1", AGENT, 5)
        assert event.until == NOW + timedelta(minutes=5)
        row = world.row("runs", "run-1")
        assert (row["status"], row["stop_reason"]) == ("completed", "end_turn")
        [returned] = [row for row in world.schema.rows("messages") if row["role"] == "tool"]
        assert "pause for 5 min" in returned["v1_messages"][0]["tool_return"]

    async def test_has_no_more_steps_to_use_up(self, world: World) -> None:
        """LOOP-12: the pause goes before `max_steps`."""
        process = world.process("p-1", calls(pauses()))
        await process.say("run-1", max_steps=1)
        await process.idle()
        assert world.row("runs", "run-1")["stop_reason"] == "end_turn"
        assert pause_rows(world)

    async def test_ends_whatever_rules_still_require(self) -> None:
        world = World()
        await world.start_memory()
        rule = RequiredBeforeExitToolRule(tool_name="send_message")
        await world.agent(tools=TOOLS, tool_rules=[rule.model_dump(mode="json")])
        process = world.process("p-1", calls(pauses()))
        await process.say("run-1")
        await process.idle()
        assert world.row("runs", "run-1")["stop_reason"] == "end_turn"

    async def test_gives_the_other_calls_of_its_step_their_results_first(
        self, world: World
    ) -> None:
        said = ToolCall(id="call_s", name="send_message", arguments='{"message":"Later!"}')
        process = world.process("p-1", calls(pauses(), said), words("Back."))
        await process.say("run-1")
        await process.idle()
        assert world.story().count("tool_call.finished") == 2
        await process.say("run-2")
        await process.idle()
        assert world.row("runs", "run-2")["status"] == "completed"


async def test_pauses_that_may_not_end_yet_keep_nobody_else_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as are looked at in a sweep wait for their clients; the next still goes on."""
    monkeypatch.setattr(waiting_conversations, "RESUMED_AT_ONCE_MAX", 2)
    process = world.process("p-1")
    names = ["conv-a", "conv-b", "conv-c"]
    until = world.clock.now() - timedelta(minutes=5)
    over = [PausedConversation(name, ORG, AGENT, 1, until) for name in names]
    tried: list[str] = []

    async def paused_conversations() -> list[PausedConversation]:
        return over

    async def resume(pause: PausedConversation) -> Rejected | None:
        tried.append(pause.conversation_id)
        return Rejected(code=PENDING_APPROVAL, reason="Calls wait") if pause != over[2] else None

    monkeypatch.setattr(
        process.handlers.ports.queries, "paused_conversations", paused_conversations
    )
    monkeypatch.setattr(process.handlers.pauses, "resume", resume)
    for _ in range(3):
        world.clock.seconds += 2
        await process.handlers.pauses.sweep()
    assert tried == ["conv-a", "conv-b", "conv-c", "conv-a", "conv-c", "conv-b"]


class TestWhenItIsOver:
    async def test_a_run_begins_with_an_automatic_message(self, world: World) -> None:
        process = await paused(world, words("Good morning."))
        await after(process, world, 118)
        assert runs(world) == ["run-1"], "not yet"
        await after(process, world, 4)
        [_, follows] = runs(world)
        assert world.story()[-8:] == [
            "run.completed",
            "heartbeats.resumed",
            "run.accepted",
            "run.started",
            "message.appended",
            *WORDS,
        ]
        row = world.row("runs", follows)
        assert (row["status"], row["stop_reason"]) == ("completed", "end_turn")
        assert row["fields"]["metadata"] == {"run_type": "heartbeat"}
        last = process.model.asked[-1].messages[-1]
        assert (last.role, last.content) == (
            "user",
            "[Automatic message] Your pause of 2 min is over.",
        )
        assert pause_rows(world) == []
        await after(process, world, 300)
        assert len(runs(world)) == 2, "once"
        assert world.lease_is_free()

    async def test_a_message_meanwhile_is_answered_as_usual_and_the_pause_goes_on(
        self, world: World
    ) -> None:
        process = await paused(world, words("Yes?"), words("Back."))
        await after(process, world, 60)
        await process.say("run-2")
        await process.idle()
        assert world.row("runs", "run-2")["status"] == "completed"
        assert runs(world) == ["run-1", "run-2"]
        await after(process, world, 58)
        assert len(runs(world)) == 2
        await after(process, world, 4)
        assert len(runs(world)) == 3

    async def test_a_run_that_is_under_way_is_ended_first(self, world: World) -> None:
        process = await paused(world)
        let_go = asyncio.Event()

        async def slow() -> Any:
            await let_go.wait()
            return words("There.")

        process.model.turns += [slow, words("Back.")]
        await process.say("run-2")
        world.clock.seconds += 130
        await process.handlers.pauses.sweep()
        [_, _, follows] = runs(world)
        assert world.row("runs", follows)["status"] == "created", "it waits for its turn"
        let_go.set()
        await process.idle()
        assert world.row("runs", follows)["status"] == "completed"
        assert [event.run_id for event in world.events() if event.topic == "run.completed"] == [  # type: ignore[attr-defined]
            "run-1",
            "run-2",
            follows,
        ]

    async def test_a_later_pause_takes_the_place_of_an_earlier_one(self, world: World) -> None:
        """LOOP-12: overwritten, longer or shorter."""
        process = await paused(world, calls(pauses(30)), calls(pauses(1)), words("Back."))
        for run_id in ("run-2", "run-3"):
            await after(process, world, 10)
            await process.say(run_id)
            await process.idle()
            await process.handlers.pauses.sweep()
            assert len(pause_rows(world)) == 1, "one for each conversation"
        await after(process, world, 56)
        assert len(runs(world)) == 3
        await after(process, world, 8)
        assert len(runs(world)) == 4
        await after(process, world, 3_600)
        assert len(runs(world)) == 4, "the earlier ones are gone"

    async def test_the_agent_may_pause_again_and_again(self, world: World) -> None:
        process = await paused(world, *(calls(pauses(1)) for _ in range(3)), words("Enough."))
        await after(process, world, 130)
        for number in (3, 4):
            await after(process, world, 66)
            assert len(runs(world)) == number
        await after(process, world, 66)
        assert pause_rows(world) == []
        await after(process, world, 600)
        assert len(runs(world)) == 5


class TestClocks:
    async def test_a_clock_that_is_set_neither_ends_a_pause_nor_makes_it_longer(
        self, world: World
    ) -> None:
        """LOOP-13: clock jumps of two hours, either way, while it lasts."""
        process = await paused(world, words("Back."))
        for jump in (7_200.0, -7_200.0):
            world.clock.ahead = jump
            await after(process, world, 50)
            assert runs(world) == ["run-1"]
        await after(process, world, 24)
        assert len(runs(world)) == 2

    @pytest.mark.parametrize("skew", [-300.0, 300.0])
    async def test_the_clock_of_another_process_does_not_count_either(
        self, world: World, skew: float
    ) -> None:
        """LOOP-13: clock skew of five minutes between who records a pause and who ends it."""
        other = world.process("p-2", words("Back."))
        ahead(other, skew)
        clock = other.handlers.pauses.ends.clock
        assert isinstance(clock, ManualClock)
        await other.handlers.pauses.sweep()
        await paused(world)
        for seconds, expected in ((2, 1), (116, 1), (8, 2)):
            for _ in range(seconds // 2):
                clock.seconds += 2
                await other.handlers.pauses.sweep()
                await other.idle()
            assert len(runs(world)) == expected, seconds

    @pytest.mark.parametrize("skew", [0.0, -86_400.0])
    async def test_after_a_restart_it_ends_by_the_clock_and_never_later_than_its_length(
        self, world: World, skew: float
    ) -> None:
        await paused(world)
        world.clock.seconds += 60
        restarted = world.process("p-2", words("Back."))
        world.clock.ahead = skew
        await restarted.handlers.pauses.sweep()
        assert runs(world) == ["run-1"]
        await after(restarted, world, 58 if not skew else 118)
        assert runs(world) == ["run-1"]
        await after(restarted, world, 4)
        assert len(runs(world)) == 2

    async def test_a_pause_that_ended_while_nobody_ran_is_over_at_once(self, world: World) -> None:
        await paused(world)
        world.clock.seconds += 7_200
        restarted = world.process("p-2", words("Back."))
        await restarted.handlers.pauses.sweep()
        await restarted.idle()
        assert len(runs(world)) == 2

    def test_where_there_are_more_pauses_than_are_seen_those_seen_late_end_in_time(self) -> None:
        clock = ManualClock()
        until = NOW + timedelta(minutes=2)
        many = [
            PausedConversation(f"conv-{n}", "org-1", "agent-1", 2, until)
            for n in range(PAUSES_SEEN_MAX)
        ]
        late = PausedConversation("conv-late", "org-1", "agent-1", 2, until)
        ends = MonotonicDeadlines[PausedConversation](clock, PAUSES_SEEN_MAX)
        assert ends.over(many) == []
        clock.seconds = 100
        assert ends.over([*many[1:], late]) == []
        clock.seconds = 120
        assert late in ends.over([*many[1:], late])

    def test_who_has_not_looked_for_long_believes_the_clock(self) -> None:
        clock = ManualClock()
        ends = MonotonicDeadlines[PausedConversation](clock, PAUSES_SEEN_MAX)
        assert ends.over([]) == []
        clock.seconds = LOOKED_SECONDS_MAX + 60
        old = PausedConversation("conv-1", "org-1", "agent-1", 1, clock.now())
        assert ends.over([old]) == [old]


class TestWhatEndsAPause:
    async def test_the_cancellation_of_all_runs(self, world: World) -> None:
        process = await paused(world)
        assert await process.tell(CancelRuns(agent_id=AGENT), "c-1") == Accepted(result={})
        assert world.story()[-1] == "heartbeat_pause.cancelled"
        assert pause_rows(world) == []
        again = await process.tell(CancelRuns(agent_id=AGENT), "c-2")
        assert again == Rejected(code=CONFLICT, reason="No active runs to cancel")
        await after(process, world, 300)
        assert runs(world) == ["run-1"]

    async def test_not_the_cancellation_of_another_run(self, world: World) -> None:
        process = await paused(world, words("Back."))
        command = CancelRuns(agent_id=AGENT, run_ids=["run-1"])
        assert isinstance(await process.tell(command, "c-1"), Rejected)
        await after(process, world, 130)
        assert len(runs(world)) == 2

    async def test_the_cancellation_of_the_run_that_asks_for_it(self, world: World) -> None:
        let_go = asyncio.Event()
        said = ToolCall(id="call_s", name="send_message", arguments='{"message":"Later!"}')
        process = world.process("p-1", calls(pauses(), said))
        owner: Any = process.tools.owners["agent"]

        async def slow(calling: Any) -> Any:
            await let_go.wait()

        owner.runners["send_message"] = slow
        await process.say("run-1")
        await wait_for("the pause", lambda: bool(pause_rows(world)))
        command = CancelRuns(agent_id=AGENT, run_ids=["run-1"])
        assert await process.tell(command, "c-1") == Accepted(result={"run-1": "cancelled"})
        await process.idle()
        assert pause_rows(world) == []

    async def test_a_run_that_is_told_to_and_once(self, world: World) -> None:
        """A repeated command ends no pause that the agent asks for later."""
        process = await paused(world, calls(pauses(2)), words("Back."))
        await process.say("run-2", ends_pause=True)
        await process.idle()
        topics = world.story()
        assert topics.count("heartbeat_pause.cancelled") == 1
        assert topics.index("heartbeat_pause.cancelled") < len(topics) - topics[::-1].index(
            "run.accepted"
        ), "it goes with the acceptance"
        [second] = pause_rows(world)
        again = await process.say("run-2", ends_pause=True)
        assert isinstance(again, Accepted)
        assert again.result["run_id"] == "run-2"
        assert pause_rows(world) == [second]
        await after(process, world, 130)
        [_, _, follows] = runs(world)
        row = world.row("runs", follows)
        assert row["fields"]["metadata"] == {"run_type": "heartbeat"}
        await after(process, world, 300)
        assert len(runs(world)) == 3, "nothing follows the pause that was ended"

    async def test_not_a_run_that_is_told_to_and_refused(self, world: World) -> None:
        process = await paused(world)
        let_go = asyncio.Event()

        async def slow() -> Any:
            await let_go.wait()
            return words("There.")

        process.model.turns += [slow]
        await process.say("run-2")
        refused = await process.say("run-3", ends_pause=True, unless_busy=True)
        assert isinstance(refused, Rejected)
        assert refused.code == CONFLICT
        let_go.set()
        await process.idle()
        assert len(pause_rows(world)) == 1
        assert "heartbeat_pause.cancelled" not in world.story()

    async def test_a_run_that_comes_between_the_look_and_the_end(self, world: World) -> None:
        process = await paused(world, words("Good morning."))
        world.clock.seconds += 130
        look = world.queries.paused_conversations

        async def look_and_be_overtaken() -> list[PausedConversation]:
            found = await look()
            await process.say("run-2", ends_pause=True)
            return found

        world.queries.paused_conversations = look_and_be_overtaken  # type: ignore[method-assign]
        await process.handlers.pauses.sweep()
        await process.idle()
        assert runs(world) == ["run-1", "run-2"]
        assert "heartbeats.resumed" not in world.story()

    async def test_the_deletion_of_the_agent(self, world: World) -> None:
        process = await paused(world)
        await process.tell(DeleteAgent(agent_id=AGENT), "d-1")
        assert pause_rows(world) == []
        await after(process, world, 300)
        assert world.story()[-1] == "conversation.deleted"

    async def test_a_deletion_that_comes_between_the_look_and_the_end(self, world: World) -> None:
        process = await paused(world)
        world.clock.seconds += 130
        look = world.queries.paused_conversations

        async def look_and_be_overtaken() -> list[PausedConversation]:
            found = await look()
            await process.tell(DeleteAgent(agent_id=AGENT), "d-1")
            return found

        world.queries.paused_conversations = look_and_be_overtaken  # type: ignore[method-assign]
        await process.handlers.pauses.sweep()
        await process.idle()
        assert world.story()[-1] == "conversation.deleted"


class TestProcesses:
    async def test_of_several_that_look_one_begins_the_run(self, world: World) -> None:
        first = await paused(world, words("Back."))
        second = world.process("p-2", words("Back."))
        await second.handlers.pauses.sweep()
        world.clock.seconds += 130
        await asyncio.gather(first.handlers.pauses.sweep(), second.handlers.pauses.sweep())
        await first.idle()
        await second.idle()
        assert len(runs(world)) == 2
        assert world.story().count("heartbeats.resumed") == 1
        assert len(first.model.turns) + len(second.model.turns) == 1

    async def test_one_that_dies_after_the_pause_ended_leaves_the_run_to_the_next(
        self, world: World
    ) -> None:
        process = await paused(world, words("never"))
        world.clock.seconds += 130
        process.drivers.stopping = True  # it records the run, and then is gone
        await process.handlers.pauses.sweep()
        [_, follows] = runs(world)
        world.lease_expires()
        second = world.process("p-2", words("Back."))
        await second.drivers.sweep()
        await second.idle()
        assert world.row("runs", follows)["status"] == "completed"

    async def test_the_pause_of_one_agent_is_no_other_agents(self, world: World) -> None:
        """LOOP-13: multi-agent isolation. Another conversation of the same name in another
        organisation, and other agents, are not touched."""
        process = await paused(world, words("Back."))
        [row] = pause_rows(world)
        assert (row["conversation_id"], row["org"], row["agent_id"]) == (
            CONVERSATION,
            "org-1",
            AGENT,
        )
        stranger = PausedConversation(CONVERSATION, "org-2", AGENT, 2, NOW + timedelta(minutes=2))
        await process.handlers.pauses.resume(stranger)
        other = PausedConversation("conv-other", "org-1", "agent-other", 2, NOW)
        await process.handlers.pauses.resume(other)
        assert runs(world) == ["run-1"]
        assert pause_rows(world) == [row]
