"""Histories from outside: what is appended, what is refused, and what is taken back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from libs.bus.appended_histories import APPENDS_AT_ONCE_MAX, HistoryHandlers
from libs.bus.clock_and_ids import SystemClock
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.pauses import AT_ONCE_MAX as PAUSE_AFTER
from libs.bus.ports import outgoing
from libs.contracts.agent.agents import AgentCreated, AgentDeleted
from libs.contracts.agent.conversations import (
    ConversationDeleted,
    MessageAppended,
    main_conversation,
)
from libs.contracts.agent.runs import RunAccepted, RunCompleted, RunStarted
from libs.contracts.appended_histories import (
    APPENDED_EVENTS_MAX,
    AppendHistories,
    PastEvent,
    PastHistory,
    append_command,
    undo_command,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import Accepted, Context, Event, Rejected
from libs.contracts.memory.archives import ArchiveCreated, PassageCreated
from libs.contracts.memory.blocks import BlockChanged, BlockCreated, BlockDeleted
from libs.embeddings.vector_encoding import pack_vector
from libs.eventstore.event_decoding import replay
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import IMPORT
from libs.eventstore.unit_of_work import Repository
from services.agent.domain.agents.agent import Agent
from services.agent.domain.conversations.conversation import Conversation
from services.agent.handlers.appended_histories import appendable as of_agents
from services.agent.projections import project as project_agents
from services.memory.domain.block import Block
from services.memory.domain.passage import Passage
from services.memory.handlers.appended_histories import appendable as of_memory
from services.memory.projections import project as project_memory
from tests.contract.examples import AGENT, BLOCK, RUN
from tests.contract.histories import one

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CONVERSATION = main_conversation(AGENT)
IMPORT_ID, OTHER_IMPORT = "import-1", "import-2"
NUMBERS = count()


class Service:
    """One of the services that take histories, on a store in memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.database = InMemoryDatabase(lambda: 0.0)
        self.store = InMemoryEventStore(self.database, name, "process-1")
        agents = name == "agent"
        project = project_agents if agents else project_memory
        self.repository = Repository(self.store, name, project)
        kinds = of_agents() if agents else of_memory()
        self.handlers = HistoryHandlers(name, kinds, SystemClock())
        self.dispatcher = CommandDispatcher(self.repository, self.handlers.table())

    async def send(self, command: Any, org: str = "org-1") -> Accepted | Rejected:
        context = Context(f"message-{next(NUMBERS)}", org=org)
        return await self.dispatcher.answer(outgoing(command, context))

    async def append(
        self, *histories: PastHistory, import_id: str = IMPORT_ID, **fields: Any
    ) -> Accepted | Rejected:
        kind = append_command(self.name)
        command: AppendHistories = kind(import_id=import_id, histories=histories, **fields)
        return await self.send(command, fields.pop("org", "org-1"))

    async def aggregate[A: Aggregate[Any]](self, kind: type[A], aggregate_id: str) -> A:
        history = await self.store.load(aggregate_id)
        return replay(self.name, kind, aggregate_id, history)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.database.schema(self.name).rows(table)


def past(event: Event) -> PastEvent:
    """An event as a file has it."""
    return PastEvent(
        topic=event.topic,
        schema_version=event.schema_version,
        payload=json.loads(event.payload_json()),
        occurred_at=AT,
    )


def history(aggregate_id: str, *events: Event, **fields: Any) -> PastHistory:
    """The events of an aggregate as a file has them."""
    return PastHistory(aggregate_id=aggregate_id, events=tuple(map(past, events)), **fields)


BLOCK_EVENTS = (one(BlockCreated), one(BlockChanged))
RUN_EVENTS = (
    one(MessageAppended, agent_id=AGENT, run_id=None, step_id=None),
    *(
        event.model_copy(update={"run_id": RUN})
        for event in (
            one(RunAccepted, run=one(RunAccepted).run.model_copy(update={"id": RUN})),
            one(RunStarted),
            one(RunCompleted),
        )
    ),
)


@pytest.fixture
def memory() -> Service:
    return Service("memory")


@pytest.fixture
def agents() -> Service:
    return Service("agent")


async def test_a_log_that_is_appended_elsewhere_gives_the_same_aggregates_and_rows(
    memory: Service,
) -> None:
    elsewhere = Service("memory")
    assert await memory.append(history(BLOCK, *BLOCK_EVENTS)) == Accepted(result={"appended": 2})
    log = (await memory.store.load(BLOCK)).events
    again = PastHistory(
        aggregate_id=BLOCK,
        events=tuple(
            PastEvent(topic=each.topic, payload=each.payload, occurred_at=each.occurred_at)
            for each in log
        ),
    )
    await elsewhere.append(again)
    first, second = await memory.aggregate(Block, BLOCK), await elsewhere.aggregate(Block, BLOCK)
    assert (first.state, first.version) == (second.state, second.version)
    assert memory.rows("blocks") == elsewhere.rows("blocks")
    assert all(each.metadata[IMPORT] == IMPORT_ID for each in log)
    assert [each.occurred_at for each in log] == [AT, AT]


async def test_what_is_sent_again_is_not_appended_again(memory: Service) -> None:
    await memory.append(history(BLOCK, BLOCK_EVENTS[0], complete=False))
    assert await memory.append(history(BLOCK, *BLOCK_EVENTS)) == Accepted(result={"appended": 1})
    assert await memory.append(history(BLOCK, *BLOCK_EVENTS)) == Accepted(result={"appended": 0})
    assert (await memory.aggregate(Block, BLOCK)).version == 2


async def test_a_history_with_a_gap_is_refused(memory: Service) -> None:
    await memory.append(history(BLOCK, BLOCK_EVENTS[0], complete=False))
    refused = await memory.append(history(BLOCK, BLOCK_EVENTS[1], first_version=3))
    assert isinstance(refused, Rejected)
    assert "is at version 1, and the history begins with 3" in refused.reason


async def test_an_aggregate_that_is_there_is_not_appended_to(memory: Service) -> None:
    await memory.append(history(BLOCK, *BLOCK_EVENTS))
    more = history(BLOCK, BLOCK_EVENTS[1], first_version=3)
    refused = await memory.append(more, import_id=OTHER_IMPORT)
    assert refused == Rejected(code="conflict", reason=f"{BLOCK} exists already")
    went_on = await memory.append(more, import_id=OTHER_IMPORT, continues=True)
    assert went_on == Accepted(result={"appended": 1})


@pytest.mark.parametrize("continues", [True, False])
async def test_an_import_does_not_take_what_happened_here_for_its_own(
    memory: Service, *, continues: bool
) -> None:
    """Not even what happens between two of its commands."""
    begun = history(BLOCK, *BLOCK_EVENTS, complete=continues)
    await memory.append(begun)
    work = memory.repository.work(Context("edit-1", org="org-1"))
    block = await work.load(Block, BLOCK)
    block.record(BlockChanged, at=AT, changes={"value": "Edited here"}, cause=None)
    await work.commit()
    more = history(BLOCK, *(BLOCK_EVENTS[1],) * 2, first_version=3)

    import_id = OTHER_IMPORT if continues else IMPORT_ID
    refused = await memory.append(more, import_id=import_id, continues=continues)

    assert isinstance(refused, Rejected)
    assert refused.code == "conflict"
    assert "went on by itself" in refused.reason
    assert (await memory.aggregate(Block, BLOCK)).version == 3
    assert await memory.append(begun) == Accepted(result={"appended": 0}), "what came is its own"


async def test_an_import_goes_on_where_one_that_was_given_up_has_stopped(memory: Service) -> None:
    await memory.append(history(BLOCK, *BLOCK_EVENTS))
    more = history(BLOCK, *(BLOCK_EVENTS[1],) * 2, first_version=3)
    first = more.model_copy(update={"events": more.events[:1], "complete": False})
    await memory.append(first, import_id=OTHER_IMPORT, continues=True)

    went_on = await memory.append(more, import_id="import-3", continues=True)

    assert went_on == Accepted(result={"appended": 1})
    assert (await memory.aggregate(Block, BLOCK)).version == 4


async def test_an_aggregate_of_another_organisation_is_not_appended_to(memory: Service) -> None:
    await memory.append(history(BLOCK, *BLOCK_EVENTS))
    kind = append_command("memory")
    for continues in (False, True):
        command = kind(
            import_id=IMPORT_ID, histories=(history(BLOCK, *BLOCK_EVENTS),), continues=continues
        )
        refused = await memory.send(command, "org-2")
        assert isinstance(refused, Rejected)
        assert refused.code == "conflict"
    assert (await memory.aggregate(Block, BLOCK)).version == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topic": "block.exploded"}, "does not begin with an event of its kind"),
        ({"topic": BlockDeleted.topic}, "does not begin with an event of its kind"),
        ({"topic": BlockChanged.topic, "payload": {"changes": {}}}, "is no first event"),
        ({"schema_version": 99}, "written by a newer release"),
        ({"payload": {"block": {"id": 5}}}, "`block.value`: Field required"),
    ],
)
async def test_a_forged_event_is_refused_and_nothing_is_there(
    memory: Service, changes: Mapping[str, Any], words: str
) -> None:
    forged = past(BLOCK_EVENTS[0]).model_copy(update=changes)
    refused = await memory.append(PastHistory(aggregate_id=BLOCK, events=(forged,)))
    assert isinstance(refused, Rejected)
    assert words in refused.reason
    assert (await memory.store.load(BLOCK)).events == []


async def test_one_bad_history_keeps_the_others_out(memory: Service) -> None:
    other = BLOCK[:-1] + "9"
    bad = history(other, BLOCK_EVENTS[1])
    assert isinstance(await memory.append(history(BLOCK, *BLOCK_EVENTS), bad), Rejected)
    assert (await memory.store.load(BLOCK)).events == []


async def test_a_deleted_aggregate_begins_again_and_is_taken_back_by_its_own_import_alone(
    memory: Service,
) -> None:
    await memory.append(history(BLOCK, *BLOCK_EVENTS))
    undo = undo_command("memory")
    assert await memory.send(undo(import_id=IMPORT_ID)) == Accepted(result={"after": ""})
    assert (await memory.aggregate(Block, BLOCK)).deleted
    late = await memory.append(history(BLOCK, *BLOCK_EVENTS))
    assert isinstance(late, Rejected), "what was taken back does not come again"

    again = await memory.append(history(BLOCK, *BLOCK_EVENTS), import_id=OTHER_IMPORT)
    assert again == Accepted(result={"appended": 2})
    block = await memory.aggregate(Block, BLOCK)
    assert (block.version, block.deleted) == (5, False)
    assert [row["id"] for row in memory.rows("blocks")] == [BLOCK]
    await memory.send(undo(import_id=IMPORT_ID))
    assert not (await memory.aggregate(Block, BLOCK)).deleted
    await memory.send(undo(import_id=OTHER_IMPORT))
    assert (await memory.aggregate(Block, BLOCK)).deleted
    assert memory.rows("blocks") == []


async def test_a_passage_needs_its_archive(memory: Service) -> None:
    passage = one(PassageCreated)
    refused = await memory.append(history("passage-1", passage))
    assert isinstance(refused, Rejected)
    assert "is not there" in refused.reason
    archive = history(passage.archive_id, one(ArchiveCreated, agent_id=""))
    assert isinstance(await memory.append(archive, history("passage-1", passage)), Accepted)
    assert (await memory.aggregate(Passage, "passage-1")).present
    attached = history("archive-2", one(ArchiveCreated, agent_id=AGENT))
    assert isinstance(await memory.append(attached), Rejected)


@pytest.mark.parametrize(
    "changes",
    [
        {"vector": "no base64!"},
        {"vector": "AA=="},
        {"dimensions": 7},
        {"vector": pack_vector([float("inf")]), "dimensions": 1},
    ],
)
async def test_a_passage_whose_vector_is_none_is_refused(
    memory: Service, changes: dict[str, Any]
) -> None:
    passage = one(PassageCreated)
    archive = history(passage.archive_id, one(ArchiveCreated, agent_id=""))
    embedding = passage.embedding.model_copy(update=changes)
    forged = history("passage-1", passage.model_copy(update={"embedding": embedding}))
    assert isinstance(await memory.append(archive, forged), Rejected)


async def test_a_conversation_whose_run_is_open_is_refused_at_its_end(agents: Service) -> None:
    open_run = RUN_EVENTS[:-1]
    assert isinstance(await agents.append(history(CONVERSATION, *open_run)), Rejected)
    first = history(CONVERSATION, *open_run, complete=False)
    assert isinstance(await agents.append(first), Accepted)
    last = history(CONVERSATION, RUN_EVENTS[-1], first_version=len(RUN_EVENTS))
    assert isinstance(await agents.append(last), Accepted)
    [row] = agents.rows("runs")
    assert (row["id"], row["status"]) == (RUN, "completed")


async def test_nobody_is_told_of_the_end_of_an_imported_run(agents: Service) -> None:
    accepted = one(RunAccepted)
    run = accepted.run.model_copy(update={"id": RUN, "callback_url": "https://example.org/"})
    asked = accepted.model_copy(update={"run_id": RUN, "run": run})
    events = (RUN_EVENTS[0], asked, *RUN_EVENTS[2:])
    assert isinstance(await agents.append(history(CONVERSATION, *events)), Accepted)
    assert agents.rows("callbacks") == []


async def test_a_conversation_of_an_agent_that_is_there_is_refused(agents: Service) -> None:
    agent = one(AgentCreated)
    assert isinstance(await agents.append(history(AGENT, agent)), Accepted)
    talk = history(CONVERSATION, *RUN_EVENTS)
    refused = await agents.append(talk, import_id=OTHER_IMPORT)
    assert refused == Rejected(
        code="unprocessable", reason=f"{CONVERSATION}: agent {AGENT} is there already"
    )
    assert isinstance(await agents.append(talk), Accepted), "of the same import it is its own"
    kinds = ((Agent, AGENT), (Conversation, CONVERSATION))
    await agents.send(undo_command("agent")(import_id=IMPORT_ID))
    for kind, aggregate_id in kinds:
        assert (await agents.aggregate(kind, aggregate_id)).deleted
    topics = [(await agents.store.load(name)).events[-1].topic for _, name in kinds]
    assert topics == [AgentDeleted.topic, ConversationDeleted.topic]


async def test_more_events_than_one_commit_takes_are_refused(memory: Service) -> None:
    many = tuple(past(BLOCK_EVENTS[0]) for _ in range(APPENDED_EVENTS_MAX + 1))
    refused = await memory.append(PastHistory(aggregate_id=BLOCK, events=many))
    assert isinstance(refused, Rejected)
    assert f"send at most {APPENDED_EVENTS_MAX} at once" in refused.reason


async def test_while_a_long_history_is_appended_others_have_their_turns(agents: Service) -> None:
    said = one(MessageAppended, agent_id=AGENT, run_id=None, step_id=None)
    events = (said,) * APPENDED_EVENTS_MAX
    appending = asyncio.ensure_future(agents.append(history(CONVERSATION, *events, complete=False)))
    turns = 0
    while not appending.done():
        turns += 1
        await asyncio.sleep(0)
    assert isinstance(await appending, Accepted)
    assert turns >= APPENDED_EVENTS_MAX // PAUSE_AFTER


async def test_a_process_appends_one_command_at_a_time_and_the_others_wait(
    memory: Service,
) -> None:
    created, changed = BLOCK_EVENTS
    events = (created, *(changed,) * (APPENDED_EVENTS_MAX - 1))
    appending = [
        asyncio.ensure_future(memory.append(history(f"block-{number}", *events), import_id=number))
        for number in ("1", "2", "3")
    ]
    places, most = memory.handlers.places, 0
    while not all(task.done() for task in appending):
        await asyncio.sleep(0)
        most = max(most, len(places.waiting))
    assert most == 2
    assert all(isinstance(task.result(), Accepted) for task in appending)
    assert places.free == APPENDS_AT_ONCE_MAX
