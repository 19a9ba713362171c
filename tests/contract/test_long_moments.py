"""Moments of long conversations: what no later event changes is copied from the rows of now."""

from __future__ import annotations

from random import Random

import psycopg
import pytest

from libs.contracts.agent.conversations import MessageAppended
from libs.contracts.agent.runs import RunAccepted, RunCompleted, RunStarted
from libs.contracts.bus_messages import Event
from libs.eventstore import moments as storing
from libs.eventstore.moments import WantedMoment
from libs.eventstore.read_model_rows import RowWrites
from tests.contract.as_of_histories import MAIN, ORG, Life, Services, check, example, services
from tests.contract.examples import AGENT
from tests.servers import PostgresServer

HISTORIES = 3
MESSAGES = 3_000
# Of the events of a turn all are copied but those of the newest.
REPLAYED_EVENTS_MAX = 100
STATEMENTS_MAX = 20


async def test_what_is_copied_is_what_a_replay_would_have_made(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "COPIED_EVENTS_MIN", 0)
    monkeypatch.setattr(storing, "COPIED_VERSIONS_MAX", 7)
    assert await check(postgres_server, 11, HISTORIES) == []


def make_turns(admin: psycopg.Connection[object], life: Life) -> None:
    """Events and rows of turns with two messages each, as the service would have written them."""
    turn = (RunAccepted, RunStarted, MessageAppended, MessageAppended, RunCompleted)
    _, stored = life.unit("agent", MAIN, *(example(kind) for kind in turn))
    run_id, message_id = example(RunStarted).run_id, example(MessageAppended).message.id
    for place, event in enumerate(stored, start=1):
        payload = event.payload_json.replace(run_id, "@RUN").replace(message_id, "@MESSAGE")
        admin.execute(
            "insert into agent.events (aggregate_id, version, topic, schema_version, org, about,"
            " payload, metadata, occurred_at) select %(id)s, n * 5 + %(place)s, %(topic)s,"
            " %(schema)s, %(org)s, 'run-' || n, replace(replace(%(payload)s, '@RUN', 'run-' || n),"
            " '@MESSAGE', 'message-' || n || '-' || %(place)s)::json, '{}', now()"
            " from generate_series(0, %(turns)s - 1) n",
            {
                **{"id": MAIN, "place": place, "topic": event.topic, "org": ORG},
                **{"schema": event.schema_version, "payload": payload, "turns": MESSAGES // 2},
            },
        )
    admin.execute(
        "insert into agent.messages select payload->'message'->>'id', org, %s, aggregate_id,"
        " version, about, null, 'user', occurred_at, true, true, 'hello', '[]', null, null, null,"
        " occurred_at from agent.events where topic = 'message.appended'",
        [AGENT],
    )
    admin.execute(
        "insert into agent.runs select about, org, %s, aggregate_id, occurred_at, 'completed',"
        " 'end_turn', false, false, '', null, null, '{}' from agent.events"
        " where topic = 'run.completed'",
        [AGENT],
    )


async def test_a_moment_of_a_long_conversation_takes_a_few_statements(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with services(postgres_server) as world:
        life = Life(Random(1))
        for unit in life.begin():
            await world.commit(unit)
        with psycopg.connect(world.admin_url, autocommit=True) as admin:
            make_turns(admin, life)
            replayed, statements = await replayed_events(world, admin, monkeypatch)
            found = admin.execute("select count(*) from agent_as_of.messages_rows").fetchone()
        world.forget()

    assert found == (MESSAGES,)
    assert replayed <= REPLAYED_EVENTS_MAX
    assert statements <= STATEMENTS_MAX


async def replayed_events(
    world: Services, admin: psycopg.Connection[object], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, int]:
    """How many events are replayed for the moment of the newest commit, and by how many reads."""
    moments = world.moments["agent"]
    reads: list[str] = []
    replayed: list[Event] = []
    fetch, project = moments.database.fetch, moments.models.project

    async def noted_fetch(query: str, parameters: object = None) -> list[tuple[object, ...]]:
        reads.append(query)
        return await fetch(query, parameters)

    def noted_project(event: Event, org: str, rows: RowWrites) -> None:
        replayed.append(event)
        project(event, org, rows)

    monkeypatch.setattr(moments.database, "fetch", noted_fetch)
    object.__setattr__(moments.models, "project", noted_project)
    newest = admin.execute("select max(commit_order) from agent.events").fetchone()
    assert newest is not None
    wanted = WantedMoment(ORG, AGENT, int(str(newest[0])), "")
    claim = await moments.claim(wanted)
    assert claim.as_of is not None
    await moments.fill(claim.as_of, wanted, [AGENT, MAIN])
    return len(replayed), len(reads)
