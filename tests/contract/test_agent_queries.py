"""What the agent service reads, from Postgres and in memory: the same of the same rows.

The in-memory reads feed the unit tests of the service and all simulated worlds.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from libs.contracts.agent.conversations import main_conversation
from services.agent.adapters.conversation_search import Search
from services.agent.adapters.reconciliation_queries import SWEPT_MAX, LostPart
from services.agent.adapters.summary_queries import (
    MESSAGE_BYTES_MAX,
    TEXT_CHARS_MAX,
    WantedMessages,
)
from services.agent.domain.prompts.system_prompt import ArchivalMemory
from services.agent.domain.runs.agent_call_deadlocks import WaitingCall
from services.agent.domain.summaries.summary_transcript import HistoryMessage
from services.agent.projections import tables as agent
from services.memory.projections import tables as memory
from tests.contract.read_models import ADA, ORG, START, Rows, at, put

OTHER = "org-2"


def block(block_id: str, **row: Any) -> dict[str, Any]:
    fields = {"id": block_id, "value": f"value of {block_id}", "label": "human", "limit": 9}
    return {"id": block_id, "fields": {**fields, "description": None, "read_only": False}, **row}


async def test_blocks_are_those_of_the_organisation_in_the_order_asked(rows: Rows) -> None:
    await put(rows, memory.BLOCKS, block("b-1"), block("b-2"), block("b-3", org=OTHER))
    wanted = ["b-3", "b-2", "gone", "b-1"]
    seen = await rows.queries.seen_blocks(ORG, wanted)
    assert [(block.id, block.value) for block in seen] == [
        ("b-2", "value of b-2"),
        ("b-1", "value of b-1"),
    ]
    assert [block.value for block in await rows.queries.block_states(ORG, wanted)] == [
        "value of b-2",
        "value of b-1",
    ]
    assert await rows.queries.labels(ORG, wanted) == {"b-1": "human", "b-2": "human"}


async def test_a_label_is_looked_for_among_the_blocks_of_an_agent_that_is_there(
    rows: Rows,
) -> None:
    await put(rows, memory.BLOCKS, block("b-1", label="x"), block("b-2"), block("b-3"))
    await put(rows, agent.AGENTS, {"id": ADA, "block_ids": ["b-1", "b-3", "b-2", "gone"]})
    assert await rows.queries.attached_block(ORG, ADA, "human") == "b-3", "the first of both"
    assert await rows.queries.attached_block(ORG, ADA, "nothing") is None
    assert await rows.queries.attached_block(OTHER, ADA, "human") is None
    assert await rows.queries.attached_block(ORG, "agent-gone", "human") is None
    assert await rows.queries.agents_attached_to(ORG, "gone") == [ADA]
    assert await rows.queries.agents_attached_to(OTHER, "gone") == []
    assert await rows.queries.agents_attached_to(ORG, "b-2") == [], "it is there, maybe again"


async def test_lost_blocks_are_those_that_the_organisation_has_not(rows: Rows) -> None:
    await put(rows, memory.BLOCKS, block("b-1"), block("b-2", org=OTHER))
    await put(
        rows,
        agent.AGENTS,
        {"id": ADA, "block_ids": ["b-1", "b-2"]},
        {"id": "agent-bob", "block_ids": ["b-1", "b-2"], "org": OTHER},
    )
    lost = {LostPart(ADA, "b-2", ORG), LostPart("agent-bob", "b-1", OTHER)}
    assert {*await rows.queries.lost_blocks(None)} == lost
    assert await rows.queries.lost_blocks([ADA]) == [LostPart(ADA, "b-2", ORG)]
    many = [f"gone-{number}" for number in range(SWEPT_MAX + 1)]
    await put(rows, agent.AGENTS, {"id": "agent-eve", "block_ids": many})
    assert len(await rows.queries.lost_blocks(["agent-eve"])) == SWEPT_MAX


async def test_agents_with_tags_are_not_hidden_and_the_oldest_come_first(rows: Rows) -> None:
    await put(
        rows,
        agent.AGENTS,
        {"id": "agent-c", "tags": ["a", "b"]},
        {"id": "agent-b", "tags": ["a", "b"], "created_at": at(0)},
        {"id": "agent-hidden", "tags": ["a", "b"], "hidden": True},
        {"id": "agent-other", "tags": ["a", "b"], "org": OTHER},
        {"id": "agent-a", "tags": ["a"]},
        {"id": "agent-none"},
    )
    tagged = rows.queries.agents_with_tags
    assert await tagged(ORG, ["a"], [], 10) == ["agent-b", "agent-c", "agent-a"]
    assert await tagged(ORG, ["a"], ["b", "x"], 10) == ["agent-b", "agent-c"]
    assert await tagged(ORG, [], ["b"], 10) == ["agent-b", "agent-c"]
    assert await tagged(ORG, ["a"], [], 1) == ["agent-b"]
    assert await tagged(OTHER, ["a"], ["b"], 10) == ["agent-other"]
    assert await tagged(ORG, ["x"], [], 10) == []


async def test_archival_memory_is_that_of_the_archives_of_an_agent(rows: Rows) -> None:
    attached = [("ar-1", ADA, ORG), ("ar-2", "agent-bob", ORG), ("ar-3", ADA, OTHER)]
    await put(
        rows,
        memory.ARCHIVE_AGENTS,
        *(
            {
                "id": folder_id,
                "archive_id": folder_id,
                "agent_id": who,
                "attached_at": at(0),
                "org": org,
            }
            for folder_id, who, org in attached
        ),
    )
    passages = [("ar-1", ["x", "y"], ORG), ("ar-1", ["y"], ORG), ("ar-1", ["z"], OTHER)]
    passages += [("ar-2", ["b"], ORG), ("ar-3", ["o"], ORG)]
    await put(
        rows,
        memory.PASSAGES,
        *(
            {"id": f"p-{number}", "collection_id": archive, "tags": tags, "org": org}
            for number, (archive, tags, org) in enumerate(passages)
        ),
    )
    assert await rows.queries.archival_memory(ORG, ADA) == ArchivalMemory(2, ("x", "y"))
    assert await rows.queries.archival_memory(ORG, "agent-gone") == ArchivalMemory(0, ())


async def test_files_are_those_of_the_folders_of_an_agent_in_its_organisation(rows: Rows) -> None:
    folder = {"fields": {"description": "d", "instructions": "i"}}
    await put(
        rows,
        memory.FOLDERS,
        {"id": "f-1", **folder},
        {"id": "f-2", **folder, "name": "notes"},
        {"id": "f-3", **folder, "org": OTHER},
    )
    seen = [("f-2", ADA, ORG), ("f-1", ADA, ORG), ("f-3", ADA, ORG), ("f-1", "agent-bob", ORG)]
    await put(
        rows,
        memory.AGENT_FOLDERS,
        *(
            {"id": f"{n}", "folder_id": file_id, "agent_id": who, "org": org, "owner_id": who}
            for n, (file_id, who, org) in enumerate(seen)
        ),
    )
    files = [("a", "f-1"), ("b", "f-1"), ("c", "f-2"), ("d", "f-3"), ("e", "f-4")]
    await put(
        rows,
        memory.FILES,
        *(
            {"id": file_id, "folder_id": where, "name": f"{file_id}.txt"}
            for file_id, where in files
        ),
        {"id": "x", "folder_id": "f-1", "name": "x.txt", "org": OTHER},
    )
    window = {"owner_id": ADA, "opened_at": at(0), "first_line": 2, "last_line": 3}
    await put(
        rows,
        memory.OPEN_FILES,
        {"id": "o-1", "agent_id": ADA, "file_id": "c", **window},
        {"id": "o-2", "agent_id": ADA, "file_id": "b", **window, "org": OTHER},
    )
    found = await rows.queries.files_of_agent(ORG, ADA, 10)
    assert [(file.name, file.is_open, file.first_line) for file in found] == [
        ("notes/c.txt", True, 2),
        ("papers/a.txt", False, None),
        ("papers/b.txt", False, None),
    ]
    assert [file.id for file in await rows.queries.files_of_agent(ORG, ADA, 2)] == ["c", "a"]
    wanted = ["notes/c.txt", "papers/a.txt", "papers/d.txt"]
    named = await rows.queries.files_named(ORG, ADA, wanted)
    assert [file.id for file in named] == ["a", "c"], "by their age, not the open ones first"
    folders = await rows.queries.seen_folders(ORG, ADA, 100)
    assert [(folder.name, [file.id for file in folder.files]) for folder in folders] == [
        ("notes", ["c"]),
        ("papers", ["a", "b"]),
    ]
    assert await rows.queries.seen_folders(OTHER, ADA, 100) == []


async def test_runs_are_found_in_their_organisation(rows: Rows) -> None:
    await put(
        rows,
        agent.RUNS,
        {"id": "run-1", "status": "cancelled"},
        {"id": "run-2", "status": "created"},
        {"id": "run-3", "org": OTHER, "status": "cancelled"},
        {"id": "run-4", "status": "completed"},
        {"id": "run-5", "conversation_id": "conv-2"},
    )
    await put(
        rows,
        agent.STEPS,
        {"id": "step-1", "conversation_id": "conv-1", "run_id": "run-1"},
    )
    ids, reads = [f"run-{number}" for number in range(1, 7)], rows.queries
    assert await reads.cancelled_runs([ORG], ids) == ["run-1"]
    assert {*await reads.cancelled_runs([ORG, OTHER], ids)} == {"run-1", "run-3"}
    assert {*await reads.active_runs([ORG], ids)} == {"run-2", "run-5"}
    found = ("conv-1", "hash", START - timedelta(seconds=1))
    assert await reads.latest_run(ORG, ADA, *found, []) == "run-4"
    assert await reads.latest_run(ORG, ADA, *found, ["run-4"]) == "run-2"
    assert await reads.latest_run(ORG, ADA, "conv-1", "other", START, []) is None
    assert await reads.latest_run(ORG, ADA, "conv-1", "hash", START + timedelta(days=1), []) is None
    assert await reads.has_run(ORG, "conv-1", "run-1")
    assert not await reads.has_run(ORG, "conv-2", "run-1")
    assert not await reads.has_run(OTHER, "conv-1", "run-1")
    assert await reads.run_of_step(ORG, "conv-1", "step-1") == "run-1"
    assert await reads.run_of_step(ORG, "conv-2", "step-1") is None
    assert await reads.run_of_step(OTHER, "conv-1", "step-1") is None


async def test_calls_that_wait_are_those_that_a_run_waits_for_in_the_end(
    rows: Rows,
) -> None:
    """From one call on: what its conversation waits for, and so forth; not what others wait for."""
    active = [("run-1", "conv-1"), ("run-2", "conv-2"), ("run-3", "conv-3"), ("run-9", "conv-9")]
    await put(rows, agent.RUNS, *({"id": run_id, "conversation_id": at_} for run_id, at_ in active))
    await put(rows, agent.RUNS, {"id": "run-8", "conversation_id": "conv-8", "org": OTHER})
    called = [("run-2", "run-1"), ("run-3", "run-2"), ("run-1", "run-3")]
    called += [("run-9", "run-8"), ("run-8", "run-1")]
    await put(
        rows,
        agent.CALLED_RUNS,
        *(
            {
                **{"run_id": run, "conversation_id": run.replace("run", "conv")},
                **{
                    "caller_run_id": run_id,
                    "caller_conversation_id": run_id.replace("run", "conv"),
                },
            }
            for run, run_id in called
        ),
    )
    ring = {
        WaitingCall("run-2", "conv-2", "conv-1", False),
        WaitingCall("run-3", "conv-3", "conv-2", False),
        WaitingCall("run-1", "conv-1", "conv-3", False),
    }
    assert {*await rows.queries.waiting_calls(ORG, "run-2")} == ring
    [alone] = await rows.queries.waiting_calls(ORG, "run-9")
    assert alone.run_id == "run-9"
    assert await rows.queries.waiting_calls(OTHER, "run-2") == []
    await put(rows, agent.RUNS, {"id": "run-2", "conversation_id": "conv-2", "status": "failed"})
    assert {call.run_id for call in await rows.queries.waiting_calls(ORG, "run-2")} == {"run-2"}
    chain = await rows.queries.call_chain(ORG, "run-2")
    assert chain is not None
    assert (chain.conversation_id, chain.callers) == ("conv-2", [])
    assert await rows.queries.call_chain(OTHER, "run-2") is None
    assert await rows.queries.run_progress(OTHER, "run-2") is None


async def test_conversations_are_those_of_an_agent_and_lost_without_it(rows: Rows) -> None:
    await put(rows, agent.AGENTS, {"id": ADA})
    await put(
        rows,
        agent.CONVERSATIONS,
        {"id": "conv-b", "isolated_blocks": {"b-1": "b-2"}},
        {"id": "conv-a"},
        {"id": "conv-c", "org": OTHER},
        {"id": "conv-d", "agent_id": "agent-gone"},
    )
    assert await rows.queries.conversations_of(ORG, ADA, 10) == ["conv-b", "conv-a"]
    assert await rows.queries.conversations_of(ORG, ADA, 1) == ["conv-b"]
    assert await rows.queries.isolated_blocks(ORG, "conv-b") == {"b-1": "b-2"}
    assert await rows.queries.isolated_blocks(OTHER, "conv-b") == {}
    lost = await rows.queries.lost_conversations(None)
    assert {(run.id, run.org) for run in lost} == {("conv-c", OTHER), ("conv-d", ORG)}
    assert [lost.id for lost in await rows.queries.lost_conversations(["agent-gone"])] == ["conv-d"]


async def test_messages_are_searched_in_the_history_of_one_agent(rows: Rows) -> None:
    await put(rows, agent.CONVERSATIONS, {"id": "conv-a"}, {"id": "conv-bob", "agent_id": "bob"})
    said = [
        {"text": "Green tea"},
        {"text": "green tea", "conversation_id": "conv-a", "role": "assistant"},
        {"text": "green tea", "conversation_id": "conv-bob", "agent_id": "bob"},
        {"text": "green tea", "org": OTHER},
        {"text": "100% tea"},
        {"text": ""},
        {"text": "a result of tea", "role": "tool"},
    ]
    await put(
        rows,
        agent.MESSAGES,
        *(
            {"id": f"m-{number}", "position": number, **message}
            for number, message in enumerate(said)
        ),
    )

    def search(**fields: Any) -> Search:
        asked = {"text": None, "roles": ["user", "assistant"], "since": None, "until": None}
        return Search(**{"org": ORG, "agent_id": ADA, **asked, "limit": 10, **fields})

    async def texts(**fields: Any) -> list[str]:
        return [message.text for message in await rows.queries.search_messages(search(**fields))]

    assert await texts() == ["100% tea", "green tea", "Green tea"]
    assert await texts(text="GREEN") == ["green tea", "Green tea"]
    assert await texts(text="0% t") == ["100% tea"]
    assert await texts(limit=1) == ["100% tea"]
    assert await texts(roles=["assistant"]) == ["green tea"]
    assert await texts(since=START + timedelta(seconds=1), until=START + timedelta(seconds=2)) == [
        "green tea"
    ]
    named = await rows.queries.messages_named(search(), ["m-4", "m-2", "m-3", "m-6", "m-0", "gone"])
    assert [message.text for message in named] == ["100% tea", "Green tea"]


async def test_sweeps_read_the_oldest_first(rows: Rows) -> None:
    late = [("conv-2", 2), ("conv-1", 1)]
    asked = {"agent_id": ADA, "message_id": "m"}
    gone = {"conversation_id": "conv-3", "requested_at": at(0), **asked, "agent_id": "agent-gone"}
    await put(rows, agent.AGENTS, {"id": ADA})
    await put(
        rows,
        agent.APPROVALS,
        gone,
        *(
            {"conversation_id": conversation, "requested_at": at(n), **asked}
            for conversation, n in late
        ),
    )
    await put(
        rows,
        agent.HEARTBEAT_PAUSES,
        *(
            {"conversation_id": conversation, "until": at(n), "agent_id": ADA, "minutes": 2}
            for conversation, n in late
        ),
    )
    approvals = await rows.queries.waiting_approvals(60)
    assert [(approval.conversation_id, approval.requested_at) for approval in approvals] == [
        ("conv-1", START + timedelta(seconds=1)),
        ("conv-2", START + timedelta(seconds=2)),
    ]
    pauses = await rows.queries.paused_conversations()
    assert [(pause.conversation_id, pause.minutes) for pause in pauses] == [
        ("conv-1", 2),
        ("conv-2", 2),
    ]


async def test_callbacks_are_due_by_turns_in_their_organisation(rows: Rows) -> None:
    await put(
        rows,
        agent.RUNS,
        *({"id": f"run-{n}", "status": "completed", "usage": {}} for n in range(1, 5)),
        {"id": "run-5", "status": "running", "usage": {}},
        {"id": "run-6", "status": "completed", "usage": {}, "org": OTHER},
    )
    urls = [("run-1", "x"), ("run-2", "x"), ("run-3", "y"), ("run-5", "y"), ("run-6", "z")]
    await put(
        rows,
        agent.CALLBACKS,
        *(
            {
                **{"run_id": run, "url": f"https://{host}.example/", "next_at": at(number)},
                "conversation_id": f"conv-{run}",
            }
            for number, (run, host) in enumerate(urls)
        ),
    )

    async def due(of_org: int, limit: int) -> list[str]:
        found = await rows.queries.due_callbacks(of_org, limit)
        return [callback.run_id for callback in found]

    assert await due(12, 16) == ["run-1", "run-3", "run-2"]
    assert await due(2, 16) == ["run-1", "run-3"], "so many of an organisation"
    assert await due(12, 1) == ["run-1"]


async def test_the_first_callback_of_each_organisation_comes_before_the_second_of_any(
    rows: Rows,
) -> None:
    of = {"run-1": ORG, "run-2": ORG, "run-3": OTHER}
    await put(
        rows,
        agent.RUNS,
        *({"id": run, "status": "completed", "usage": {}, "org": org} for run, org in of.items()),
    )
    await put(
        rows,
        agent.CALLBACKS,
        *(
            {
                **{"run_id": run, "org": org, "next_at": at(number)},
                **{"url": f"https://{run}.example/", "conversation_id": f"conv-{run}"},
            }
            for number, (run, org) in enumerate(of.items())
        ),
    )
    due = await rows.queries.due_callbacks(12, 2)
    assert [callback.run_id for callback in due] == ["run-1", "run-3"]
    await rows.take_lease("agent", "callback-run-1")
    due = await rows.queries.due_callbacks(12, 2)
    assert [callback.run_id for callback in due] == ["run-3", "run-2"], "not what somebody sends"


async def test_messages_of_a_run_come_in_their_order(rows: Rows) -> None:
    await put(rows, agent.AGENTS, {"id": ADA})
    await put(
        rows,
        agent.MESSAGES,
        {
            "id": "m-1",
            "agent_id": ADA,
            "position": 2,
            "run_id": "run-1",
            "v1_messages": [{"n": 2}, {"n": 3}],
        },
        {"id": "m-2", "agent_id": ADA, "position": 1, "run_id": "run-1", "v1_messages": [{"n": 1}]},
        {
            "id": "m-3",
            "agent_id": ADA,
            "position": 3,
            "run_id": "run-1",
            "v1_messages": [{"n": 4}],
            "org": OTHER,
        },
    )
    assert await rows.queries.run_messages(ORG, "run-1") == [{"n": 1}, {"n": 2}, {"n": 3}]


async def test_the_newest_messages_of_some_dates_are_summarised(rows: Rows) -> None:
    said = ("user", "assistant", "tool", "system", "summary", "user")
    await put(
        rows,
        agent.MESSAGES,
        *(
            {
                **{"id": f"m-{number}", "position": number, "role": role},
                **{"created_at": at(number), "v1_messages": [{"n": number}]},
            }
            for number, role in enumerate(said, 1)
        ),
        {"id": "m-9", "position": 9, "role": "user", "created_at": at(9), "org": OTHER},
    )
    conversation = main_conversation(ADA)

    async def wanted(**fields: Any) -> list[int]:
        span = WantedMessages(**fields)
        messages = await rows.queries.summarised_messages(ORG, conversation, span)
        if messages is None:
            return []
        page = await rows.queries.history_page(ORG, messages, 0, 10)
        assert (messages.count, messages.start) == (len(page), moment(page[0].position))
        assert messages.end == moment(page[-1].position)
        return [message.position for message in page]

    assert await wanted() == [1, 2, 3, 6]
    assert await wanted(count=2) == [3, 6]
    assert await wanted(since=moment(2), until=moment(3)) == [2, 3]
    assert await wanted(count=1, until=moment(2)) == [2]
    assert await wanted(since=moment(7)) == []
    every = await rows.queries.summarised_messages(ORG, conversation, WantedMessages())
    assert every is not None
    [first] = await rows.queries.history_page(ORG, every, 1, 1)
    assert first == HistoryMessage(2, "assistant", "tea", [{"n": 2}])


def moment(number: int) -> datetime:
    """The time of a row."""
    return datetime.fromisoformat(at(number))


async def test_a_message_that_is_too_large_is_read_by_the_beginning_of_its_text(
    rows: Rows,
) -> None:
    large = [{"content": "x" * MESSAGE_BYTES_MAX}]
    row = {
        "id": "m-1",
        "agent_id": ADA,
        "position": 1,
        "text": "x" * MESSAGE_BYTES_MAX,
        "v1_messages": large,
    }
    await put(rows, agent.MESSAGES, row)
    messages = await rows.queries.summarised_messages(ORG, main_conversation(ADA), WantedMessages())
    assert messages is not None
    assert messages.bytes == MESSAGE_BYTES_MAX
    [read] = await rows.queries.history_page(ORG, messages, 0, 10)
    assert (len(read.text), read.v1_messages) == (TEXT_CHARS_MAX, None)


async def test_summaries_that_nobody_writes_are_due_by_turns(rows: Rows) -> None:
    of = {"s-1": ORG, "s-2": ORG, "s-3": OTHER, "s-4": ORG}
    await put(
        rows,
        agent.SUMMARIES,
        *(
            {
                **{"id": summary, "summaries_id": f"of-{summary}", "org": org},
                **{"agent_id": ADA, "created_at": at(number), "fields": {}},
                "status": "completed" if summary == "s-4" else "running",
            }
            for number, (summary, org) in enumerate(of.items())
        ),
    )

    async def due(of_org: int, limit: int) -> list[str]:
        return [found.summary_id for found in await rows.queries.due_summaries(of_org, limit)]

    assert await due(2, 9) == ["s-1", "s-3", "s-2"]
    assert await due(1, 9) == ["s-1", "s-3"]
    await rows.take_lease("agent", "of-s-1")
    assert await due(2, 9) == ["s-2", "s-3"]


async def test_replays_that_nobody_carries_on_are_due_by_turns(rows: Rows) -> None:
    of = {"r-1": ORG, "r-2": ORG, "r-3": OTHER, "r-4": ORG}
    await put(rows, agent.RUNS, run_row("run-1"), run_row("run-3", org=OTHER))
    await put(
        rows,
        agent.RUN_REPLAYS,
        *(
            {
                **{"id": replay, "org": org, "agent_id": ADA, "created_at": at(number)},
                **{"run_id": f"run-{number}", "fields": {}},
                "status": "completed" if replay == "r-4" else "running",
            }
            for number, (replay, org) in enumerate(of.items(), 1)
        ),
    )

    async def due(of_org: int, limit: int) -> list[str]:
        return [found.id for found in await rows.queries.due_replays(of_org, limit)]

    assert await due(2, 9) == ["r-1", "r-3", "r-2"]
    assert await due(1, 9) == ["r-1", "r-3"]
    assert await due(2, 1) == ["r-1"]
    assert [await rows.queries.open_replays(org) for org in (ORG, OTHER)] == [2, 1]
    assert sorted(lost.id for lost in await rows.queries.lost_replays()) == ["r-2", "r-4"]
    assert await rows.queries.run_to_replay(OTHER, "run-1") is None


def run_row(run_id: str, **row: Any) -> dict[str, Any]:
    """A run that has ended."""
    ended = {"agent_id": ADA, "conversation_id": "conv-1", "created_at": at(0), "fields": {}}
    return {
        **ended,
        **{"id": run_id, "status": "completed", "background": False, "request_hash": run_id},
        **row,
    }
