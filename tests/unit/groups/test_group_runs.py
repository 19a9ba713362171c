"""Runs of groups in memory: who is asked what, what is recorded, and what stays after a crash."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from libs.contracts.agent.conversations import DeleteConversation
from libs.contracts.bus_messages import BUSY, CONFLICT, INVALID, NOT_FOUND, Rejected
from libs.contracts.groups.group_runs import (
    GROUP_REQUEST_BYTES_MAX,
    GROUP_RUNS_WAITING_MAX,
    CancelGroupRun,
    EditGroupMessage,
    GroupConversationForgotten,
    ResetGroupMessages,
    group_conversation,
    member_conversation,
)
from libs.contracts.groups.groups import GroupDeleted
from libs.eventstore.ports import Commit, StoreUnavailable
from libs.work.agent_runs import RunProgress, WantedRun
from services.groups.domain.conversations.group_conversation_state import (
    ENDED_RUNS_REMEMBERED_MAX,
    SHOWN_MESSAGES_MAX,
)
from services.groups.domain.conversations.member_messages import EARLIER_BYTES_MAX, LEFT_OUT
from services.groups.domain.group import Group
from services.groups.domain.managers.member_tools import STATE_WRITES_MAX
from services.groups.engine.member_runs import BUSY_SECONDS_MAX
from tests.leased_work import finish, sweep
from tests.unit.given import NOW
from tests.unit.groups.group_run_world import (
    GROUP,
    ORG,
    RUN,
    Answer,
    Context,
    GroupWorld,
    calls,
    said,
)
from tests.waiting import wait_for

NAMES = ["Alice", "Bob", "Carol"]


async def by_name(wanted: WantedRun) -> Answer:
    """Each agent says who it is."""
    return f"I am {wanted.agent_id.removeprefix('agent-')}."


async def world_of(speak: Any = by_name, names: list[str] = NAMES, **config: Any) -> GroupWorld:
    world = GroupWorld(names, speak, **config)
    await world.begin()
    return world


async def change(world: GroupWorld, happens: Callable[[Group], object]) -> None:
    """Have something happen to the group."""
    work = world.repository.work(Context("change", org=ORG))
    happens(await work.load(Group, GROUP))
    await work.commit()


async def test_each_member_is_shown_what_was_said_since_its_last_answer() -> None:
    world = await world_of(max_turns=4)
    await world.say("Who are you?")
    await finish(world.runs)
    assert world.run()["status"] == "completed"
    assert world.speakers() == ["Alice", "Bob", "Carol", "Alice"]
    assert world.shown(0)[1:] == ["Who are you?"]
    assert world.shown(1)[1:] == ["Who are you?", "[Alice]: I am Alice."]
    assert world.shown(3) == ["[Bob]: I am Bob.", "[Carol]: I am Carol."]
    assert world.transcript()[-1] == ("Alice", "I am Alice.")


async def test_a_member_is_told_of_the_group_once_and_again_when_it_has_changed() -> None:
    world = await world_of(names=["Alice", "Bob"], name="Crew", description="We sail.")
    await world.say("Hello")
    await finish(world.runs)
    briefing = world.shown(0)[0]
    assert "“Crew”" in briefing and "We sail." in briefing  # noqa: PT018
    assert "You are Alice." in briefing
    await world.say("Again", "group_run-2")
    await finish(world.runs)
    assert world.shown(0, "group_run-2") == ["[Bob]: I am Bob.", "Again"]


async def test_members_answer_in_conversations_of_the_group_with_metadata_of_it() -> None:
    world = await world_of()
    await world.say("Hello")
    await finish(world.runs)
    [first, *_] = world.agents.wanted.values()
    assert first.conversation_id == member_conversation(GROUP, "agent-Alice", 0)
    assert first.metadata == {
        "run_type": "group",
        "group_id": GROUP,
        "group_run_id": RUN,
        "hop": 0,
    }
    assert all(message.group_id == GROUP for message in first.messages)
    made = [each.new_conversation for each in world.agents.wanted.values()]
    assert [request and request["hidden"] for request in made] == [True] * 3


async def test_tokens_of_all_members_add_up() -> None:
    world = await world_of()
    await world.say("Hello")
    await finish(world.runs)
    fields: Any = world.run()["fields"]
    assert (fields["usage"]["prompt_tokens"], fields["usage"]["completion_tokens"]) == (9, 6)


async def test_a_private_message_reaches_its_recipients_alone() -> None:
    world = await world_of()
    await world.say("For Bob", recipients=["agent-Bob"])
    await finish(world.runs)
    await world.say("For all", "group_run-2")
    await finish(world.runs)
    assert world.speakers() == ["Bob"]
    for hop, name in enumerate(world.speakers("group_run-2")):
        heard = " ".join(world.shown(hop, "group_run-2"))
        assert "For all" in heard
        assert "For Bob" not in heard
        assert ("I am Bob." in heard) == (name == "Carol"), "only the public answer of Bob"
    assert all("For Bob" not in str(each) for each in world.agents.wanted.values()
               if each.agent_id != "agent-Bob")  # fmt: skip


async def test_strangers_are_no_recipients() -> None:
    world = await world_of()
    refused = await world.say("Psst", recipients=["agent-Dave"])
    assert isinstance(refused, Rejected)
    assert refused.code == INVALID
    assert "`recipients`: agent-Dave" in refused.reason


async def test_a_supervisor_asks_members_and_answers() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if wanted.agent_id != "agent-Boss":
            return f"{wanted.agent_id} agrees."
        if wanted.answers:
            return f"They say: {wanted.answers[0].content}"
        return [said("Let me ask."), *calls("send_message_to_group_members", message="Agreed?")]

    world = await world_of(
        speak,
        ["Alice", "Bob", "Boss"],
        agent_ids=["agent-Alice", "agent-Bob"],
        manager_type="supervisor",
        manager_agent_id="agent-Boss",
    )
    await world.say("Do we sail?")
    await finish(world.runs)
    assert world.speakers() == ["Boss", "Alice", "Bob", "Boss"]
    assert world.transcript()[1:3] == [("Boss", "Let me ask."), ("Boss", "Agreed?")]
    assert "[Alice]: agent-Alice agrees.\n[Bob]: agent-Bob agrees." in world.transcript()[-1][1]
    heard_by_bob = world.shown(2)
    assert "[Boss]: Agreed?" in heard_by_bob
    assert "agent-Alice agrees" not in " ".join(heard_by_bob), "those asked at once see the same"


async def test_a_swarm_hands_over_and_the_next_message_goes_to_the_last_speaker() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if wanted.agent_id == "agent-Alice" and not wanted.answers:
            return calls("hand_over", agent_name="Bob", message="He waits for an answer.")
        return "Done."

    world = await world_of(speak, manager_type="swarm")
    await world.say("Help")
    await finish(world.runs)
    assert world.speakers() == ["Alice", "Bob"]
    assert "[Alice]: He waits for an answer." in world.shown(1)
    await world.say("Thanks", "group_run-2")
    await finish(world.runs)
    assert world.speakers("group_run-2") == ["Bob"]


async def test_a_dynamic_group_falls_back_where_its_manager_names_nobody() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if wanted.agent_id != "agent-Boss":
            return "Fine."
        asked = str(wanted.messages[-1].content)
        return "Dave" if len(world.hops()) < 3 else "DONE!" if "Who speaks next" in asked else ""

    world = await world_of(
        speak,
        ["Alice", "Bob", "Boss"],
        agent_ids=["agent-Alice", "agent-Bob"],
        manager_type="dynamic",
        manager_agent_id="agent-Boss",
    )
    await world.say("Go")
    await finish(world.runs)
    assert world.speakers() == ["Boss", "Boss", "Alice", "Boss"]
    assert ("Boss", "Dave") not in world.transcript(), "picks are not said to the group"


async def test_a_hundred_members_answer_a_broadcast_and_each_failure_is_shown() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if wanted.agent_id.endswith("7"):
            return RunProgress("failed", "error", None, {"message": "out of tokens"})
        return "Here."

    names = [f"N{number}" for number in range(100)]
    world = await world_of(speak, names, manager_type="broadcast")
    await world.say("All hands")
    await finish(world.runs)
    assert world.run()["status"] == "completed"
    assert Counter(str(hop["status"]) for hop in world.hops()) == {"completed": 90, "failed": 10}
    failed: Any = next(hop["fields"] for hop in world.hops() if hop["status"] == "failed")
    assert failed["reason"] == "out of tokens"
    assert all(world.shown(hop)[1:] == ["All hands"] for hop in range(100))


async def test_runs_of_a_group_wait_for_each_other_within_a_bound() -> None:
    gate = asyncio.Event()

    async def speak(wanted: WantedRun) -> Answer:
        await gate.wait()
        return "Late."

    world = await world_of(speak, ["Alice"])
    await world.say("First", "group_run-0")
    await wait_for(
        "the first run to start", lambda: world.run("group_run-0")["status"] == "running"
    )
    for number in range(1, GROUP_RUNS_WAITING_MAX + 1):
        assert not isinstance(await world.say("More", f"group_run-{number}"), Rejected)
    refused = await world.say("Too many", "group_run-last")
    assert isinstance(refused, Rejected)
    assert refused.code == BUSY
    gate.set()
    await finish(world.runs)
    assert all(row["status"] == "completed" for row in world.queries.schema.rows("group_runs"))


async def test_another_process_goes_on_at_the_recorded_hop_and_no_hop_is_answered_twice() -> None:
    gate = asyncio.Event()
    answered: Counter[str] = Counter()

    async def speak(wanted: WantedRun) -> Answer:
        answered[wanted.run_id] += 1
        if wanted.agent_id == "agent-Bob":
            await gate.wait()
        return await by_name(wanted)

    world = await world_of(speak)
    await world.say("Hello")
    await wait_for("Bob to be asked", lambda: len(world.hops()) == 2)
    await world.runs.drain()
    world.start_process("process-2")
    gate.set()
    await sweep(world.runs)
    assert world.run()["status"] == "completed"
    assert world.speakers() == NAMES
    assert set(answered.values()) == {1}
    assert world.transcript() == [
        (None, "Hello"),
        *((name, f"I am {name}.") for name in NAMES),
    ]


async def test_a_cancelled_run_ends_at_once_and_its_members_runs_are_withdrawn() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        await asyncio.Event().wait()
        return ""

    world = await world_of(speak)
    await world.say("Hello")
    await wait_for("Alice to be asked", lambda: len(world.hops()) == 1)
    await world.send(CancelGroupRun(group_id=GROUP))
    assert world.run()["status"] == "cancelled"
    await finish(world.runs)
    await sweep(world.runs)
    assert set(world.agents.cancelled) == {str(world.hops()[0]["member_run_id"])}
    [hop] = world.hops()
    assert (hop["status"], hop["fields"]["status"]) == ("cancelled", "cancelled")
    assert hop["fields"]["ended_at"] is not None
    assert (await world.conversation()).state.is_idle
    refused = await world.send(CancelGroupRun(group_id=GROUP), "again")
    assert isinstance(refused, Rejected)
    assert refused.code == CONFLICT


async def test_a_group_that_is_deleted_meanwhile_cancels_its_run_and_its_conversations() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        await change(world, lambda group: group.record(GroupDeleted, at=NOW))
        return "Too late."

    world = await world_of(speak)
    await world.say("Hello")
    await finish(world.runs)
    await sweep(world.runs)
    assert world.queries.schema.rows("group_runs") == []
    assert world.queries.schema.rows("group_messages") == []
    deleted = [each for each in world.requests if isinstance(each, DeleteConversation)]
    assert len(deleted) == len(NAMES)
    assert await world.queries.due_conversations() == []
    history = await world.repository.store.load(group_conversation(GROUP))
    topics = [event.topic for event in history.events]
    forgotten = GroupConversationForgotten.topic
    assert (topics[-1], topics.count(forgotten)) == (forgotten, 1), "its texts can be erased"
    refused = await world.say("Anybody?", "group_run-2")
    assert isinstance(refused, Rejected)
    assert refused.code == NOT_FOUND


async def test_the_lease_of_a_deleted_group_goes_with_its_last_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A later commit may fail, and nobody would take the lease again to clear it away."""

    async def speak(wanted: WantedRun) -> Answer:
        await change(world, lambda group: group.record(GroupDeleted, at=NOW))
        return "Too late."

    async def commit_events(commit: Commit) -> int | None:
        if commit.fence and not commit.events:
            raise StoreUnavailable("away")
        return await really_commit(commit)

    world = await world_of(speak)
    really_commit = world.repository.store.commit
    monkeypatch.setattr(world.repository.store, "commit", commit_events)
    await world.say("Hello")
    await finish(world.runs)
    await sweep(world.runs)
    assert (await world.conversation()).state.is_idle
    assert world.queries.schema.leases == {}


async def test_a_member_that_is_deleted_or_leaves_is_skipped() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if wanted.agent_id == "agent-Alice":
            del world.people["agent-Bob"]
            await change(world, lambda group: group.leave("agent-Carol", at=NOW))
        return await by_name(wanted)

    world = await world_of(speak)
    await world.say("Hello")
    await finish(world.runs)
    assert world.run()["status"] == "completed"
    assert world.speakers() == ["Alice"]


async def test_who_joins_later_sees_what_is_said_from_then_on() -> None:
    world = await world_of(names=["Alice", "Bob"], agent_ids=["agent-Alice"])
    await world.say("Secret of old")
    await finish(world.runs)
    await change(world, lambda group: group.join("agent-Bob", at=NOW))
    await world.say("Welcome", "group_run-2")
    await finish(world.runs)
    assert world.speakers("group_run-2") == ["Alice", "Bob"]
    assert world.shown(1, "group_run-2")[1:] == ["Welcome", "[Alice]: I am Alice."]


async def test_members_that_have_not_seen_a_message_see_the_edited_text() -> None:
    world = await world_of(names=["Alice", "Bob"], max_turns=1)
    await world.say("Tpyo")
    await finish(world.runs)
    edit = EditGroupMessage(group_id=GROUP, message_id=f"message-of-{RUN}", content="Typo")
    assert not isinstance(await world.send(edit), Rejected)
    world.config = world.config.model_copy(update={"max_turns": 2})
    await world.say("Next", "group_run-2", recipients=["agent-Bob"])
    await finish(world.runs)
    assert world.shown(0, "group_run-2")[1:] == ["Typo", "[Alice]: I am Alice.", "Next"]
    unknown = EditGroupMessage(group_id=GROUP, message_id="message-x", content="")
    refused = await world.send(unknown, "unknown")
    assert isinstance(refused, Rejected)
    assert refused.code == NOT_FOUND


async def test_after_a_reset_members_begin_in_new_conversations() -> None:
    world = await world_of(names=["Alice"])
    await world.say("Before")
    await finish(world.runs)
    assert not isinstance(await world.send(ResetGroupMessages(group_id=GROUP)), Rejected)
    await finish(world.runs)
    await world.say("After", "group_run-2")
    await finish(world.runs)
    assert world.transcript() == [(None, "After"), ("Alice", "I am Alice.")]
    member_run = str(world.hops("group_run-2")[0]["member_run_id"])
    wanted = world.agents.wanted[member_run]
    assert wanted.conversation_id == member_conversation(GROUP, "agent-Alice", 1)
    assert "Before" not in str(wanted.messages)
    gone = [each for each in world.requests if isinstance(each, DeleteConversation)]
    assert [each.conversation_id for each in gone] == [member_conversation(GROUP, "agent-Alice", 0)]


async def test_each_reset_deletes_the_conversations_of_members_that_have_left_once() -> None:
    world = await world_of(names=["Alice", "Bob"])
    await world.say("Hello")
    await finish(world.runs)
    await change(world, lambda group: group.leave("agent-Bob", at=NOW))
    for number in (2, 3):
        await world.say("Again", f"group_run-{number}")
        await finish(world.runs)
        reset = await world.send(ResetGroupMessages(group_id=GROUP), f"reset-{number}")
        assert not isinstance(reset, Rejected)
        await finish(world.runs)
    deleted = [each for each in world.requests if isinstance(each, DeleteConversation)]
    assert sorted(each.conversation_id for each in deleted) == sorted(
        member_conversation(GROUP, agent_id, generation)
        for agent_id, generation in (("agent-Alice", 0), ("agent-Bob", 0), ("agent-Alice", 1))
    )


async def test_what_is_too_long_or_says_nothing_is_refused_and_leaves_nothing() -> None:
    world = await world_of()
    refused = await world.say("x" * GROUP_REQUEST_BYTES_MAX)
    assert isinstance(refused, Rejected)
    assert "`messages` are too long" in refused.reason
    assert world.queries.schema.rows("group_runs") == []


async def test_a_group_without_members_answers_nothing() -> None:
    world = await world_of(agent_ids=[])
    refused = await world.say("Hello?")
    assert isinstance(refused, Rejected)
    assert refused.code == INVALID
    assert "has no members" in refused.reason


async def test_a_call_that_waits_for_an_approval_fails_the_members_hop() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        return calls("rm_rf") if wanted.agent_id == "agent-Alice" else "Fine."

    world = await world_of(speak)
    await world.say("Hello")
    await finish(world.runs)
    assert [str(hop["status"]) for hop in world.hops()] == ["failed", "completed", "completed"]
    assert world.agents.cancelled == [str(world.hops()[0]["member_run_id"])]


BUSY_NOW = Rejected(code=BUSY, reason="100 messages wait for this conversation")


async def test_a_member_that_stays_busy_keeps_no_other_from_answering() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        return BUSY_NOW if wanted.agent_id == "agent-Alice" else "Fine."

    world = await world_of(speak, names=["Alice", "Bob"])
    await world.say("Hello")
    await finish(world.runs)
    assert [str(hop["status"]) for hop in world.hops()] == ["failed", "completed"]
    assert BUSY_NOW.reason in str(world.hops()[0]["fields"])


async def test_a_busy_member_that_leaves_is_waited_for_no_longer() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if wanted.agent_id != "agent-Alice":
            return "Fine."
        await change(world, lambda group: group.leave("agent-Alice", at=NOW))
        return BUSY_NOW

    world = await world_of(speak, names=["Alice", "Bob"])
    await world.say("Hello")
    await finish(world.runs)
    assert [str(hop["status"]) for hop in world.hops()] == ["skipped", "completed"]
    assert sum(world.clock.slept) < BUSY_SECONDS_MAX


async def test_the_run_of_a_member_that_leaves_meanwhile_is_cancelled() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if wanted.agent_id == "agent-Alice":
            await change(world, lambda group: group.leave("agent-Alice", at=NOW))
            await asyncio.Event().wait()
        return "Fine."

    world = await world_of(speak, names=["Alice", "Bob"])
    await world.say("Hello")
    await finish(world.runs)
    assert [str(hop["status"]) for hop in world.hops()] == ["skipped", "completed"]
    assert world.agents.cancelled == [str(world.hops()[0]["member_run_id"])]


WRITE = "update_shared_state"


async def shared_state(world: GroupWorld) -> Any:
    group = await world.repository.load(Group, GROUP, org=ORG)
    return group.state.shared_state


def tools_of(world: GroupWorld, hop: int) -> list[str]:
    member_run = str(world.hops()[hop]["member_run_id"])
    return [tool.name for tool in world.agents.wanted[member_run].client_tools]


async def test_a_member_writes_the_shared_state_and_goes_on_and_the_next_one_sees_it() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if wanted.agent_id == "agent-Alice" and not wanted.answers:
            return calls(WRITE, state={"plan": "tides", "done": None})
        return await by_name(wanted)

    world = await world_of(speak, shared_state={"done": 1})
    await world.say("Hello")
    await finish(world.runs)
    assert await shared_state(world) == {"plan": "tides"}
    assert world.speakers() == ["Alice", "Alice", "Bob", "Carol"]
    member_run = str(world.hops()[1]["member_run_id"])
    [answer] = world.agents.wanted[member_run].answers
    assert answer.content == 'Written. The shared state is now: {"plan":"tides"}'
    assert world.shown(1) == []
    assert '"plan": "tides"' in world.shown(2)[0]
    assert [text for _, text in world.transcript()][1:] == [
        "I am Alice.",
        "I am Bob.",
        "I am Carol.",
    ]
    assert tools_of(world, 0) == [WRITE]


async def test_a_member_that_writes_for_ever_is_stopped_by_the_limit() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if WRITE in [tool.name for tool in wanted.client_tools]:
            return calls(WRITE, state={"n": len(wanted.run_id)})
        return "Enough."

    world = await world_of(speak, names=["Alice"], shared_state={"n": 0})
    await world.say("Hello")
    await finish(world.runs)
    assert len(world.hops()) == STATE_WRITES_MAX + 1
    assert world.run()["status"] == "completed"
    assert world.transcript()[-1] == ("Alice", "Enough.")


async def test_a_write_that_is_refused_or_makes_no_sense_is_told_to_the_member() -> None:
    asked: list[Any] = [{"state": {"long": "x" * 70_000}}, {"state": 7}]

    async def speak(wanted: WantedRun) -> Answer:
        return calls(WRITE, **asked.pop(0)) if asked else "Well."

    world = await world_of(speak, names=["Alice"], shared_state={"n": 0})
    await world.say("Hello")
    await finish(world.runs)
    told = [answer.content for each in world.agents.wanted.values() for answer in each.answers]
    assert [str(text).split(":")[0] for text in told] == ["Nothing was written"] * 2
    assert await shared_state(world) == {"n": 0}


async def test_a_broadcast_member_that_writes_is_asked_once_and_misses_nothing() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if wanted.agent_id == "agent-Alice" and not wanted.answers and not world.writes:
            return calls(WRITE, state={"who": "Alice"})
        return await by_name(wanted)

    world = await world_of(speak, manager_type="broadcast", shared_state={"n": 0})
    await world.say("Hello")
    await finish(world.runs)
    assert sorted(world.speakers()) == ["Alice", "Alice", "Bob", "Carol"]
    await world.say("Again", "group_run-2")
    await finish(world.runs)
    number = world.speakers("group_run-2").index("Alice")
    heard = world.shown(number, "group_run-2")
    assert {"[Bob]: I am Bob.", "[Carol]: I am Carol.", "Again"} <= {*heard}


async def test_private_messages_and_groups_without_a_state_have_no_tool_for_it() -> None:
    world = await world_of(names=["Alice"], shared_state={"n": 0})
    await world.say("For Alice", recipients=["agent-Alice"])
    await finish(world.runs)
    assert tools_of(world, 0) == []
    bare = await world_of(names=["Alice"])
    await bare.say("Hello")
    await finish(bare.runs)
    assert tools_of(bare, 0) == []


async def test_a_supervisor_that_asks_and_writes_at_once_is_told_both() -> None:
    async def speak(wanted: WantedRun) -> Answer:
        if wanted.agent_id != "agent-Boss" or wanted.answers:
            return "Aye."
        [asked], [written] = (
            calls("send_message_to_group_members", message="?"),
            calls(WRITE, state={"asked": True}),
        )
        both: Any = [*asked["tool_calls"], *written["tool_calls"]]  # type: ignore[misc]
        return [{**asked, "tool_calls": both}]

    world = await world_of(
        speak,
        names=["Boss", "Bob"],
        agent_ids=["agent-Bob"],
        manager_type="supervisor",
        manager_agent_id="agent-Boss",
        shared_state={"n": 0},
    )
    await world.say("Hello")
    await finish(world.runs)
    assert world.speakers() == ["Boss", "Bob", "Boss"]
    last = world.agents.wanted[str(world.hops()[2]["member_run_id"])]
    assert [str(answer.content)[:8] for answer in last.answers] == ["[Bob]: A", "Written."]
    assert await shared_state(world) == {"n": 0, "asked": True}


async def test_a_member_that_was_not_asked_for_long_is_shown_the_newest_alone() -> None:
    world = await world_of(names=["Alice", "Bob"], manager_type="swarm")
    long = "x" * (EARLIER_BYTES_MAX // 8)
    for number in range(12):
        await world.say(f"{number} {long}", f"group_run-{number}")
        await finish(world.runs)

    async def hand_over(wanted: WantedRun) -> Answer:
        if wanted.agent_id == "agent-Bob":
            return "Mine."
        return calls("hand_over", agent_name="Bob", message="Yours.")

    world.agents.speak = hand_over
    await world.say("Who goes on?", "group_run-last")
    await finish(world.runs)
    [_, left_out, *shown] = world.shown(1, "group_run-last")
    assert left_out == LEFT_OUT
    assert [text.split(" ")[0] for text in shown if text.endswith("x")] == [
        str(number) for number in range(5, 12)
    ]
    assert shown[-2:] == ["Who goes on?", "[Alice]: Yours."]


async def test_a_long_conversation_leaves_a_small_state() -> None:
    world = await world_of(names=["Alice"])
    runs = SHOWN_MESSAGES_MAX // 2 + 10
    for number in range(runs):
        await world.say("Hello", f"group_run-{number}")
        await finish(world.runs)
    state = (await world.conversation()).state
    assert state.number == 2 * runs
    assert len(state.transcript) == SHOWN_MESSAGES_MAX
    assert len(state.ended) <= ENDED_RUNS_REMEMBERED_MAX
