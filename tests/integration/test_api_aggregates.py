"""An aggregate in the rooms of the api: its commands are handled, its events stored in the api's
own schema, written into rows, and published on its own stream."""

from __future__ import annotations

import json
from collections.abc import Iterator

import nats
import psycopg
import pytest
from pydantic import BaseModel

from libs.bus.jetstream import declare_streams
from libs.bus.service_runner import running
from libs.bus.service_settings import ServiceSettings
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    COMMANDS,
    EVENTS,
    Accepted,
    Command,
    Context,
    Event,
)
from libs.contracts.service_registry import ENCRYPTION_KEYS, database_role, events_stream
from libs.encryption.sealing_keys import new_key
from libs.eventstore.read_model_rows import RowWrites, Table
from libs.eventstore.unit_of_work import UnitOfWork
from services.api.app import wiring
from services.api.handlers import Handlers
from tests.ports import free_port
from tests.servers import SERVICE_PASSWORD, NatsServer, PostgresServer
from tests.unit.given import NOW

SECONDS_MAX = 10.0


class KeyState(BaseModel):
    name: str = ""


class Key(Aggregate[KeyState]):
    State = KeyState

    def when(self, event: Event) -> None:
        self.state.name = event.name  # type: ignore[attr-defined]


@pytest.fixture
def messages() -> Iterator[tuple[type[Command], type[Event]]]:
    """A command and an event of the api, as long as the test runs."""

    class IssueKey(Command, service="api", topic="key.issue"):
        key_id: str

        @property
        def target(self) -> str:
            return self.key_id

    class KeyIssued(Event, service="api", topic="key.issued"):
        name: str

    yield IssueKey, KeyIssued
    del COMMANDS["api.key.issue"], EVENTS["api.key.issued"]


KEYS = Table("keys")
CREATE_KEYS = """
create table api.keys (id text primary key, org text not null, name text not null);
grant select, insert, update, delete on api.keys to heeler_api"""


def project_key(event: Event, org: str, rows: RowWrites) -> None:
    name: str = event.name  # type: ignore[attr-defined]
    rows.upsert(KEYS, {"id": event.originator_id, "org": org, "name": name})


async def test_an_aggregate_in_the_rooms_of_the_api_is_one_like_those_of_other_services(
    postgres_server: PostgresServer,
    nats_server: NatsServer,
    messages: tuple[type[Command], type[Event]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    issue_key, key_issued = messages

    async def issue(command: Command, work: UnitOfWork) -> Accepted:
        key = await work.load(Key, command.target)
        key.record(key_issued, at=NOW, name="laptop")
        return Accepted(result={"name": key.state.name})

    monkeypatch.setattr(Handlers, "table", lambda _: {issue_key: issue})
    url = postgres_server.create_migrated_database("api_aggregates")
    await declare_streams(nats_server.url)
    address = url.rpartition("@")[2]
    settings = ServiceSettings(
        f"postgresql://{database_role('api')}:{SERVICE_PASSWORD}@{address}",
        nats_server.server.url_of("api"),
    )

    with psycopg.connect(url) as connection:
        connection.execute(CREATE_KEYS)
    wire = wiring({"HEELER_PORT": str(free_port()), ENCRYPTION_KEYS: new_key()})

    client = await nats.connect(nats_server.url)
    heard = await client.subscribe("api.event.>")
    async with running("api", settings, project_key, wire) as runtime:
        reply = await runtime.bus.request(
            issue_key(key_id="key-1"), Context("message-1", org="org-1"), seconds_max=SECONDS_MAX
        )
        published = await heard.next_msg(SECONDS_MAX)
        stored = await runtime.database.fetch("select aggregate_id, topic, payload from api.events")
        rows = await runtime.database.fetch("select id, org, name from api.keys")
    kept = await client.jetstream().get_last_msg(events_stream("api"), published.subject)
    await client.close()

    assert reply == Accepted(result={"name": "laptop"})
    assert stored == [("key-1", "key.issued", {"name": "laptop"})]
    assert rows == [("key-1", "org-1", "laptop")]
    assert published.subject == "api.event.key.issued.org-1.key-1"
    assert json.loads(published.data) == json.loads(kept.data or b"") == {"name": "laptop"}
