"""TOOL-22: agents write to each other, within bounds, and never wait for each other for ever."""

from __future__ import annotations

import asyncio
import json
from ast import literal_eval
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.agent.conversations import ToolCall, Usage, main_conversation
from libs.contracts.agent.runs import HOPS_MAX, CallingRun, CancelRuns, RunAccepted
from libs.contracts.agent.steps import ToolCallFinished
from libs.contracts.bus_messages import Context, Rejected
from libs.work import agent_runs
from services.agent.adapters import multi_agent_tools
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.multi_agent_tools import SENT, TARGETS_MAX, MultiAgentTools
from services.agent.adapters.tool_owner_port import Calling
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.agent_call_deadlocks import WaitingCall, given_up, refused_call
from services.agent.domain.runs.step_results import Failure, ModelReply
from tests.contract.examples import CONFIG
from tests.scripted_model import messages_validator, validator
from tests.unit.agent import anthropic_documents
from tests.unit.agent.model_replies import words
from tests.unit.agent.openai_documents import body_of
from tests.unit.agent.world import FakeModel, Process, World
from tests.waiting import wait_for

WAIT = "send_message_to_agent_and_wait_for_reply"
ASYNC = "send_message_to_agent_async"
TAGS = "send_message_to_agents_matching_tags"
ADA, BOB, CLEO = (f"agent-{n * 8}-{n * 4}-4{n * 3}-8{n * 3}-{n * 12}" for n in "abc")

type Thinks = Callable[[ModelRequest], ModelReply]


def calls(tool: str, **arguments: Any) -> ModelReply:
    made = ToolCall(id="call_1", name=tool, arguments=json.dumps(arguments))
    return ModelReply("", [made], "tool_calls", Usage())


def once(reply: ModelReply, then: str = "Done") -> Thinks:
    """Makes a call, and says something when it has a result."""
    return lambda asked: words(then) if asked.messages[-1].role == "tool" else reply


class Minds(FakeModel):
    """A model that thinks for each agent."""

    def __init__(self, thinks: dict[str, Thinks]) -> None:
        super().__init__()
        self.thinks = thinks
        self.held: dict[str, asyncio.Event] = {}

    async def reply(self, request: ModelRequest) -> ModelReply:
        assert validator.check(body_of(request)) is None
        assert messages_validator.check(anthropic_documents.body_of(request)) is None
        self.asked.append(request)
        if held := self.held.get(request.config.id):
            await held.wait()
        return self.thinks[request.config.id](request)

    def heard(self, agent_id: str) -> list[str]:
        """The texts of the last messages that an agent was asked about."""
        return [
            str(request.messages[-1].content)
            for request in self.asked
            if request.config.id == agent_id
        ]


async def peopled(world: World, **thinks: Thinks) -> Process:
    """Agents by what they think, who can all write to each other; in one process."""
    ids = {"ada": ADA, "bob": BOB, "cleo": CLEO}
    for name in thinks:
        await world.agent(agent_id=ids.get(name, name), tools=[WAIT, ASYNC, TAGS], tags=[name])
    return await process_of(
        world, "agent-1", {ids.get(name, name): reply for name, reply in thinks.items()}
    )


async def process_of(world: World, holder: str, thinks: dict[str, Thinks]) -> Process:
    process = Process(world, holder, Minds(thinks))
    await process.bus.serve("agent", process.shell.answer)
    return process


def minds(process: Process) -> Minds:
    assert isinstance(process.model, Minds)
    return process.model


async def ask(process: Process, agent_id: str, run_id: str = "run-1") -> None:
    """Say something to an agent."""
    command = process.start_run(run_id)
    run = command.run.model_copy(update={"agent_id": agent_id})
    asked = command.model_copy(update={"agent_id": agent_id, "run": run})
    assert not isinstance(await process.tell(asked, f"say-{run_id}"), Rejected)


def results(process: Process, agent_id: str) -> list[str]:
    """What an agent's tools gave back."""
    asked = [request for request in minds(process).asked if request.config.id == agent_id]
    return [str(message.content) for message in asked[-1].messages if message.role == "tool"]


class TestWaiting:
    async def test_the_other_agent_is_told_who_writes_and_its_answer_comes_back(
        self, world: World
    ) -> None:
        tell = calls(WAIT, message="What is Red?", other_agent_id=BOB)
        process = await peopled(world, ada=once(tell), bob=lambda _: words("A colour."))
        await ask(process, ADA)
        await process.idle()

        [heard] = minds(process).heard(BOB)
        assert heard == f"[Message from agent {ADA}: your answer goes back to it] What is Red?"
        [result] = results(process, ADA)
        assert literal_eval(result) == {"agent_id": BOB, "response": ["A colour."]}
        [called] = [
            event
            for event in world.events(main_conversation(BOB))
            if isinstance(event, RunAccepted)
        ]
        assert [(caller.agent_id, caller.run_id, caller.waits) for caller in called.callers] == [
            (ADA, "run-1", True)
        ]
        assert world.row("runs", called.run_id)["status"] == "completed"
        [said] = [
            row for row in world.schema.rows("messages")
            if row["run_id"] == called.run_id
            and row["v1_messages"][0]["message_type"] == "system_message"
        ]  # fmt: skip
        assert said["v1_messages"][0]["sender_id"] == ADA

    @pytest.mark.parametrize(
        ("target", "said"),
        [
            ("agent-dddddddd-dddd-4ddd-8ddd-dddddddddddd", "not found"),
            ("nonsense", "not found"),
            (ADA, "cannot wait for its own answer"),
        ],
    )
    async def test_who_cannot_answer_is_an_error_in_words(
        self, world: World, target: str, said: str
    ) -> None:
        tell = calls(WAIT, message="Hi", other_agent_id=target)
        process = await peopled(world, ada=once(tell))
        await ask(process, ADA)
        await process.idle()

        assert said in results(process, ADA)[0]
        assert world.row("runs", "run-1")["status"] == "completed"

    async def test_agents_of_other_organisations_are_not_there(self, world: World) -> None:
        tell = calls(WAIT, message="Hi", other_agent_id=BOB)
        process = await peopled(world, ada=once(tell), bob=lambda _: words("Yes"))
        context = Context("m-1", org="org-2")
        tools = MultiAgentTools(process.bus, world.queries, world.clock)
        call = ToolCall(id="call_1", name=WAIT, arguments=json.dumps(
            {"message": "Hi", "other_agent_id": BOB}
        ))  # fmt: skip
        config = CONFIG.model_copy(update={"id": CLEO})
        design = AgentDesign(config=config, tools=[WAIT], tags=[], block_ids=[])
        result = await tools.wait_for_reply(Calling(call, design, "run-9", "step-9", context))
        assert (result.status, "not found" in result.text) == ("error", True)
        assert await world.queries.agents_with_tags("org-2", [], [], 10) == []
        assert minds(process).asked == []

    async def test_an_agent_that_fails_is_an_error_and_the_caller_goes_on(
        self, world: World
    ) -> None:
        tell = calls(WAIT, message="Hi", other_agent_id=BOB)

        def broken(_: ModelRequest) -> ModelReply:
            raise ModelFailed(Failure("llm_error", "no", stop_reason="llm_api_error"))

        process = await peopled(world, ada=once(tell), bob=broken)
        await ask(process, ADA)
        await process.idle()

        assert "gave no answer: its run is failed" in results(process, ADA)[0]
        assert world.row("runs", "run-1")["status"] == "completed"

    async def test_a_cancelled_caller_waits_no_more_and_the_other_goes_on(
        self, world: World
    ) -> None:
        tell = calls(WAIT, message="Hi", other_agent_id=BOB)
        process = await peopled(world, ada=once(tell), bob=lambda _: words("Late"))
        release = minds(process).held[BOB] = asyncio.Event()
        await ask(process, ADA)
        await wait_for("the other agent", lambda: minds(process).heard(BOB))
        await process.tell(CancelRuns(agent_id=ADA), "cancel")
        release.set()
        await process.idle()

        assert world.row("runs", "run-1")["status"] == "cancelled"
        [other] = [row for row in world.schema.rows("runs") if row["agent_id"] == BOB]
        assert other["status"] == "completed"


class TestTimeIsUp:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(agent_runs, "LOOK_SECONDS", 0.02)
        monkeypatch.setattr(multi_agent_tools, "PART_OF_DEADLINE", 0.002)

    async def test_a_busy_agent_is_an_error_and_the_message_is_withdrawn(
        self, world: World
    ) -> None:
        tell = calls(WAIT, message="Hi", other_agent_id=BOB)
        process = await peopled(world, ada=once(tell), bob=lambda _: words("Mine"))
        release = minds(process).held[BOB] = asyncio.Event()
        await ask(process, BOB, "run-2")
        await ask(process, ADA)
        await wait_for("an error", lambda: world.row("runs", "run-1")["status"] == "completed")
        release.set()
        await process.idle()

        assert (
            "was busy with something else, so your message was withdrawn"
            in (results(process, ADA)[0])
        )
        assert len(minds(process).heard(BOB)) == 1

    async def test_a_slow_agent_is_an_error_and_keeps_what_it_says(self, world: World) -> None:
        tell = calls(WAIT, message="Hi", other_agent_id=BOB)
        process = await peopled(world, ada=once(tell), bob=lambda _: words("Late"))
        release = minds(process).held[BOB] = asyncio.Event()
        await ask(process, ADA)
        await wait_for("an error", lambda: world.row("runs", "run-1")["status"] == "completed")
        release.set()
        await process.idle()

        assert "is still at work" in results(process, ADA)[0]
        [other] = [row for row in world.schema.rows("runs") if row["agent_id"] == BOB]
        assert other["status"] == "completed"


class TestWithoutWaiting:
    async def test_the_call_ends_before_the_other_agent_is_done(self, world: World) -> None:
        tell = calls(ASYNC, message="Hi", other_agent_id=BOB)
        process = await peopled(world, ada=once(tell), bob=lambda _: words("Later"))
        release = minds(process).held[BOB] = asyncio.Event()
        await ask(process, ADA)
        await wait_for("the caller", lambda: world.row("runs", "run-1")["status"] == "completed")
        assert results(process, ADA) == [SENT]
        release.set()
        await process.idle()

        [heard] = minds(process).heard(BOB)
        assert heard == f"[Message from agent {ADA}: it does not wait] Hi"

    async def test_s16_agents_that_write_back_and_forth_stop_at_the_hop_budget(
        self, world: World
    ) -> None:
        """S16: ping-pong between two agents ends, whoever of them waits."""

        def to(other: str) -> Thinks:
            return once(calls(ASYNC, message="Ping", other_agent_id=other), "Stopped")

        process = await peopled(world, ada=to(BOB), bob=to(ADA))
        await ask(process, ADA)
        await process.idle()

        called = [row["status"] for row in world.schema.rows("runs")]
        assert called == ["completed"] * (HOPS_MAX + 1)
        told = [text for agent in (ADA, BOB) for text in results(process, agent)]
        assert sum("called each other" in text for text in told) == 1


class TestTags:
    async def test_all_who_have_the_tags_are_asked_at_once(self, world: World) -> None:
        tell = calls(TAGS, message="Hi", match_all=[], match_some=["bob", "cleo", "ada"])
        together = asyncio.Event()
        process = await peopled(
            world, ada=once(tell), bob=lambda _: words("Bob"), cleo=lambda _: words("Cleo")
        )
        minds(process).held = {BOB: together, CLEO: together}
        await ask(process, ADA)
        await wait_for("both", lambda: minds(process).heard(BOB) and minds(process).heard(CLEO))
        together.set()
        await process.idle()

        answers = literal_eval(results(process, ADA)[0])
        assert sorted(answers, key=lambda answer: answer["agent_id"]) == [
            {"agent_id": BOB, "response": ["Bob"]},
            {"agent_id": CLEO, "response": ["Cleo"]},
        ]

    async def test_nobody_is_an_empty_list_and_too_many_are_refused(self, world: World) -> None:
        tell = calls(TAGS, message="Hi", match_all=["none"], match_some=[])
        process = await peopled(world, ada=once(tell), bob=lambda _: words("Bob"))
        await ask(process, ADA)
        await process.idle()
        assert results(process, ADA) == ["[]"]

        minds(process).thinks[ADA] = once(calls(TAGS, message="Hi", match_all=[], match_some=[]))
        [row] = [row for row in world.schema.rows("agents") if row["id"] == BOB]
        for n in range(TARGETS_MAX):
            world.schema.tables["agents"][f"agent-{n}",] = {**row, "id": f"agent-{n}"}
        await ask(process, ADA, "run-2")
        await process.idle()
        assert f"More than {TARGETS_MAX} agents" in results(process, ADA)[-1]


class TestNobodyWaitsForEver:
    @pytest.fixture(autouse=True)
    def often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(agent_runs, "LOOK_SECONDS", 0.02)

    async def test_an_agent_that_waits_is_not_called_by_whom_it_waits_for(
        self, world: World
    ) -> None:
        back = calls(WAIT, message="And you?", other_agent_id=ADA)
        process = await peopled(
            world,
            ada=once(calls(WAIT, message="Hi", other_agent_id=BOB)),
            bob=once(back, "I answer alone"),
        )
        await ask(process, ADA)
        await process.idle()

        assert "waits for your own answer" in results(process, BOB)[0]
        assert literal_eval(results(process, ADA)[0])["response"] == ["I answer alone"]

    @pytest.mark.parametrize("count", [2, 3, 12])
    async def test_a_ring_of_agents_that_all_wait_for_the_next_is_broken_at_one_place(
        self, world: World, count: int
    ) -> None:
        """Each was asked by a client of its own, so no chain tells of the ring: one call of it is
        withdrawn, all others are answered."""
        ids = [f"agent-{n:08}-1111-4111-8111-111111111111" for n in range(count)]
        asked: list[str] = []

        def to(other: str, own: str) -> Thinks:
            def think(request: ModelRequest) -> ModelReply:
                if request.messages[-1].role == "system":
                    asked.append(own)
                    return words(f"{own} answers")
                return once(calls(WAIT, message="Hi", other_agent_id=other))(request)

            return think

        ring = {own: to(other, own) for own, other in zip(ids, [*ids[1:], ids[0]], strict=True)}
        process = await peopled(world, **ring)
        ready = asyncio.Event()
        minds(process).held = dict.fromkeys(ids, ready)
        for n, agent_id in enumerate(ids, start=1):
            await ask(process, agent_id, f"run-{n}")
        await wait_for("all", lambda: len(minds(process).asked) == count)
        ready.set()
        await asyncio.wait_for(process.idle(), 20)

        told = [results(process, agent_id)[0] for agent_id in ids]
        withdrawn = [text for text in told if "your message was withdrawn" in text]
        assert len(withdrawn) == 1
        assert len(asked) == count - 1
        assert {world.row("runs", f"run-{n + 1}")["status"] for n in range(count)} == {"completed"}

    @given(
        st.lists(
            st.tuples(st.integers(0, 7), st.integers(0, 7), st.booleans()), min_size=1, max_size=12
        )
    )
    @settings(max_examples=200)
    def test_of_calls_that_wait_in_a_circle_one_is_given_up(
        self, drawn: list[tuple[int, int, bool]]
    ) -> None:
        known = [
            WaitingCall(f"run-{n:02}", f"conv-{to}", f"conv-{by}", in_line)
            for n, (by, to, in_line) in enumerate(drawn)
        ]
        gone = [call for call in known if given_up(known, call.run_id)]
        assert all(call.in_line for call in gone)
        left = [call for call in known if call not in gone]
        while again := [call for call in left if given_up(left, call.run_id)]:
            left = [call for call in left if call not in again]
        ways: dict[str, set[str]] = {}
        for call in left:
            ways.setdefault(call.caller_conversation_id, set()).add(call.conversation_id)

        def circle(start: str) -> bool:
            seen: set[str] = set()
            ahead = list(ways.get(start, ()))
            while ahead:
                at = ahead.pop()
                if at == start:
                    return True
                if at not in seen:
                    seen.add(at)
                    ahead += ways.get(at, ())
            return False

        if all(call.in_line for call in known):
            assert not any(circle(start) for start in ways)

    def test_the_rules_about_callers(self) -> None:
        def by(agent_id: str, *, waits: bool) -> CallingRun:
            return CallingRun(agent_id=agent_id, conversation_id="c", run_id="r", waits=waits)

        assert refused_call(BOB, [by(ADA, waits=True)]) is None
        assert refused_call(ADA, [by(ADA, waits=True), by(BOB, waits=True)])
        # The first one went on when it had written.
        assert refused_call(ADA, [by(ADA, waits=False), by(BOB, waits=True)]) is None
        assert refused_call(ADA, [by(ADA, waits=True), by(BOB, waits=False)]) is None
        assert refused_call(CLEO, [by(ADA, waits=False)] * (HOPS_MAX + 1))


class TestCrashes:
    async def test_a_caller_that_dies_in_mid_wait_gets_the_same_answer_from_one_run(
        self, world: World
    ) -> None:
        """A process that is killed while an agent waits: another one takes over, the other agent
        is not asked a second time."""
        tell = calls(WAIT, message="Hi", other_agent_id=BOB)
        thinks: dict[str, Thinks] = {ADA: once(tell), BOB: lambda _: words("Once")}
        process = await peopled(world, ada=thinks[ADA], bob=thinks[BOB])
        minds(process).held[BOB] = asyncio.Event()
        await ask(process, ADA)
        await wait_for("the other agent", lambda: minds(process).heard(BOB))
        for task in process.drivers.tasks.values():
            task.cancel()  # as if by kill -9: nothing of it is recorded
        await process.idle()
        world.lease_expires()

        other = await process_of(world, "agent-2", thinks)
        await other.drivers.sweep()
        await other.idle()
        await other.drivers.sweep()
        await other.idle()

        runs = [row for row in world.schema.rows("runs") if row["agent_id"] == BOB]
        assert [run["status"] for run in runs] == ["completed"]
        assert minds(other).heard(BOB) == minds(process).heard(BOB)
        assert literal_eval(results(other, ADA)[0])["response"] == ["Once"]
        ended = [
            event
            for event in world.events(main_conversation(ADA))
            if isinstance(event, ToolCallFinished)
        ]
        assert [result.status for result in ended] == ["success"]
