"""The api may own aggregates: in a schema of its own, with its own rights, on its own stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import ClassVar

import nats
import pytest
from pydantic import BaseModel

from libs.bus.jetstream import declare_streams
from libs.bus.service_runner import Runtime, running
from libs.bus.service_settings import ServiceSettings
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    COMMANDS,
    DEFAULT_ORG,
    EVENTS,
    Accepted,
    Command,
    Context,
    Event,
)
from libs.contracts.service_registry import database_role, events_stream
from libs.eventstore.read_model_rows import RowWrites
from libs.eventstore.unit_of_work import UnitOfWork
from tests.servers import SERVICE_PASSWORD, NatsServer, PostgresServer

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

    class IssueKey(Command):
        service: ClassVar[str] = "api"
        topic: ClassVar[str] = "key.issue"
        key_id: str

        @property
        def target(self) -> str:
            return self.key_id

    class KeyIssued(Event):
        service: ClassVar[str] = "api"
        topic: ClassVar[str] = "key.issued"
        name: str

    yield IssueKey, KeyIssued
    del COMMANDS["api.key.issue"], EVENTS["api.key.issued"]


def project(event: Event, org: str, rows: RowWrites) -> None:
    """Nobody reads the keys."""


async def test_an_aggregate_of_the_api_is_stored_and_told_as_anybody_elses(
    postgres_server: PostgresServer,
    nats_server: NatsServer,
    messages: tuple[type[Command], type[Event]],
) -> None:
    issue_key, key_issued = messages
    url = postgres_server.create_migrated_database("api_aggregates")
    await declare_streams(nats_server.url)
    address = url.rpartition("@")[2]
    settings = ServiceSettings(
        f"postgresql://{database_role('api')}:{SERVICE_PASSWORD}@{address}",
        nats_server.server.url_of("api"),
    )

    async def wire(runtime: Runtime) -> None:
        async def issue(command: Command, work: UnitOfWork) -> Accepted:
            key = await work.load(Key, command.target)
            key.happened(key_issued, at=runtime.clock.now(), name="laptop")
            return Accepted(result={"name": key.state.name})

        await runtime.service.handle({issue_key: issue})

    client = await nats.connect(nats_server.url)
    heard = await client.subscribe("api.event.>")
    async with running("api", settings, project, wire) as runtime:
        reply = await runtime.bus.request(
            issue_key(key_id="key-1"), Context("message-1"), seconds_max=SECONDS_MAX
        )
        told = await heard.next_msg(SECONDS_MAX)
        stored = await runtime.database.fetch("select aggregate_id, topic, payload from api.events")
    kept = await client.jetstream().get_last_msg(events_stream("api"), told.subject)
    await client.close()

    assert reply == Accepted(result={"name": "laptop"})
    assert stored == [("key-1", "key.issued", {"name": "laptop"})]
    assert told.subject == f"api.event.key.issued.{DEFAULT_ORG}.key-1"
    assert json.loads(told.data) == json.loads(kept.data or b"") == {"name": "laptop"}
