"""S13: with the credentials of one service nobody can do what another may, or change a stream."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import nats
import pytest
from nats.aio.client import Client

from deploy import container_health
from libs.bus.jetstream import declare_streams, stream_config
from libs.bus.nats_bus import NatsBus
from libs.bus.nats_service_registration import register
from libs.bus.ports import IncomingCommand
from libs.contracts.agent.agents import DeleteAgent
from libs.contracts.bus_messages import Accepted, Context
from libs.contracts.nats_permissions import ADMIN, SYSTEM, WATCH, inbox_prefix, permissions
from libs.contracts.service_registry import events_stream, names
from libs.contracts.stream_definitions import COMMANDS_STREAM, streams
from tests.servers import NatsServer, permission_violations
from tests.waiting import wait_for

HEARD_SECONDS_MAX = 20.0
STREAM_VERBS = ("DELETE", "PURGE", "UPDATE", "MSG.GET", "MSG.DELETE", "SNAPSHOT", "RESTORE")
CHANGES = [f"$JS.API.STREAM.{verb}.{spec.name}" for verb in STREAM_VERBS for spec in streams()]
EVERYTHING = [">", "*.>", "_INBOX.>", "_INBOX.*.>", "$JS.>", "$SYS.>"]
EVENTS = {service: f"{service}.event.run.started.org.run-1" for service in names()}
TAKEN = {service: f"$JS.ACK.COMMANDS.{service}.1.1.1.1.0" for service in names()}


def of_others(service: str, subjects: dict[str, str]) -> list[str]:
    return [subject for owner, subject in subjects.items() if owner != service]


FOREIGN_PUBLISH = {
    "api": [
        *of_others("api", EVENTS),
        *of_others("api", TAKEN),
        "agent.delta.run.token.org.mark.run-1",
        "_INBOX.agent.x.1",
    ],
    "agent": [
        *of_others("agent", EVENTS),
        *of_others("agent", TAKEN),
        "groups.command.topic.subscribe.org.topic-1",
        "memory.delta.x.token.org.mark.1",
        "_INBOX.watch.x.1",
    ],
    "memory": [
        *of_others("memory", EVENTS),
        *of_others("memory", TAKEN),
        "agent.command.run.start.org.agent-1",
        "agent.delta.x",
    ],
    "tools": [
        *of_others("tools", EVENTS),
        *of_others("tools", TAKEN),
        "agent.command.run.start.org.agent-1",
        "agent.command.completion.generate.org.completion-1",
        "agent.delta.x",
    ],
    "scheduler": [
        *of_others("scheduler", EVENTS),
        *of_others("scheduler", TAKEN),
        "memory.command.block.update.org.block-1",
        "agent.delta.x",
    ],
    "groups": [
        *of_others("groups", EVENTS),
        *of_others("groups", TAKEN),
        "tools.command.tool_run.begin.org.tool_run-1",
        "agent.delta.x",
    ],
    WATCH: [
        *EVENTS.values(),
        *TAKEN.values(),
        "agent.command.run.start.org.agent-1",
        "_INBOX.api.x.1",
    ],
}
FOREIGN_SUBSCRIBE = {
    "api": ["_INBOX.agent.>", "deliver.agent.commands", "agent.command.>", "memory.event.>"],
    "agent": ["_INBOX.api.>", "deliver.memory.commands", "agent.command.>", "$SRV.PING.memory"],
    "memory": ["_INBOX.api.>", "deliver.agent.commands", "memory.command.>", "agent.delta.>"],
    "tools": [
        "_INBOX.api.>",
        "deliver.agent.commands",
        "tools.command.>",
        "agent.delta.>",
        "agent.delta.run.>",
        "agent.delta.completion.>",
    ],
    "scheduler": ["_INBOX.api.>", "deliver.agent.commands", "agent.command.>", "memory.delta.>"],
    "groups": ["_INBOX.api.>", "deliver.agent.commands", "agent.command.>", "tools.delta.>"],
    WATCH: ["_INBOX.api.>", "deliver.agent.commands", "$SRV.PING.agent"],
}


@asynccontextmanager
async def connected(server: NatsServer, user: str) -> AsyncIterator[tuple[Client, list[str]]]:
    """A client with the credentials of a user, and what it was refused."""
    refused: list[str] = []

    async def note(error: Exception) -> None:
        refused.append(str(error))

    client = await nats.connect(
        server.server.url_of(user), error_cb=note, inbox_prefix=inbox_prefix(user)
    )
    try:
        yield client, refused
    finally:
        await client.close()


async def all_refused(refused: list[str], kind: str, subjects: list[str]) -> None:
    """Wait until the server has refused every one of these subjects."""

    def complete() -> bool:
        said = "\n".join(refused).lower()
        return all(f'{kind} to "{subject.lower()}"' in said for subject in subjects)

    await wait_for(f"{kind} refused: {subjects}", complete)


@pytest.mark.parametrize("user", permissions())
async def test_a_user_cannot_say_what_only_others_may(nats_server: NatsServer, user: str) -> None:
    await declare_streams(nats_server.url)
    own = f"$JS.API.STREAM.PURGE.{events_stream(user)}"  # for what was deleted
    foreign = [*FOREIGN_PUBLISH[user], *(change for change in CHANGES if change != own)]
    async with connected(nats_server, user) as (client, refused):
        for subject in foreign:
            await client.publish(subject, b"{}")
        await all_refused(refused, "publish", foreign)


@pytest.mark.parametrize("user", permissions())
async def test_a_user_cannot_hear_what_is_for_others(nats_server: NatsServer, user: str) -> None:
    wanted = [*FOREIGN_SUBSCRIBE[user], *EVERYTHING]
    async with connected(nats_server, user) as (client, refused):
        for subject in wanted:
            await client.subscribe(subject)
        await all_refused(refused, "subscription", wanted)


async def test_the_system_user_sees_no_message(nats_server: NatsServer) -> None:
    async with connected(nats_server, SYSTEM) as (client, _):
        heard = await client.subscribe("agent.>")
        await client.flush()
        async with connected(nats_server, "agent") as (agent, _):
            await agent.publish(EVENTS["agent"], b"{}")
            await agent.flush()
        await client.flush()

        assert heard.pending_msgs == 0


async def test_nobody_connects_without_a_password(nats_server: NatsServer) -> None:
    address = nats_server.url.rpartition("@")[2]
    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        await nats.connect(f"nats://{address}", allow_reconnect=False)


async def forget_commands(url: str) -> None:
    """Those that other tests have left in the NATS that they share."""
    client = await nats.connect(url)
    await client.jetstream().purge_stream(COMMANDS_STREAM)
    await client.close()


async def test_with_its_own_rights_a_command_is_sent_taken_and_answered(
    nats_server: NatsServer,
) -> None:
    await declare_streams(nats_server.url)
    await forget_commands(nats_server.url)
    taken: list[str] = []

    async def answer(incoming: IncomingCommand) -> Accepted:
        taken.append(incoming.name)
        return Accepted()

    agent = NatsBus(nats_server.server.url_of("agent"), "agent-1")
    api = NatsBus(nats_server.server.url_of("api"), "api-1")
    await agent.serve("agent", answer)
    await agent.start()
    await api.start()
    try:
        reply = await api.request(
            DeleteAgent(agent_id="agent-1"), Context("message-1"), seconds_max=HEARD_SECONDS_MAX
        )
        assert reply == Accepted()
        assert taken == ["agent.agent.delete"]
        assert await api.answers(HEARD_SECONDS_MAX)
    finally:
        await api.stop()
        await agent.stop()


@pytest.mark.parametrize("service", names())
async def test_the_health_check_of_a_container_may_ask_its_own_service(
    nats_server: NatsServer, service: str
) -> None:
    url, here = nats_server.server.url_of(service), socket.gethostname()
    async with connected(nats_server, service) as (client, refused):
        await register(service, client)
        await client.flush()
        problem = await asyncio.to_thread(container_health.bus_problem, url, service, here)

        assert problem is None
        assert refused == []


@pytest.mark.parametrize("asker", [WATCH, ADMIN])
@pytest.mark.parametrize("service", names())
async def test_a_service_answers_every_question_of_the_micro_protocol(
    nats_server: NatsServer, service: str, asker: str
) -> None:
    async with (
        connected(nats_server, service) as (client, refused),
        connected(nats_server, asker) as (people, refused_people),
    ):
        await register(service, client)
        await client.flush()

        async def answer(subject: str) -> bytes:
            return (await people.request(subject, timeout=HEARD_SECONDS_MAX)).data

        for verb in ("PING", "INFO", "STATS"):
            first = json.loads(await answer(f"$SRV.{verb}.{service}"))
            assert first["name"] == service
            for subject in (f"$SRV.{verb}", f"$SRV.{verb}.{service}.{first['id']}"):
                assert await answer(subject)
        assert await answer(f"{service}.metrics")

        assert (refused, refused_people) == ([], [])


async def test_a_refusal_stands_in_the_log_where_the_other_tests_look_for_it(
    nats_server: NatsServer,
) -> None:
    async with connected(nats_server, WATCH) as (client, refused):
        for subject in ("agent.event.x", "deliver.x"):
            await client.publish(subject, b"{}")
            await client.subscribe(subject)
        await all_refused(refused, "publish", ["agent.event.x"])
        await all_refused(refused, "subscription", ["deliver.x"])

    said = "\n".join(permission_violations(nats_server.logged()))
    assert "Publish Violation" in said
    assert "Subscription Violation" in said


async def test_a_stream_of_an_earlier_release_is_changed_by_the_migration_alone(
    nats_server: NatsServer,
) -> None:
    client = await nats.connect(nats_server.url)
    jetstream = client.jetstream()
    await declare_streams(nats_server.url)
    [commands] = [spec for spec in streams() if spec.refuses_when_full]
    await jetstream.update_stream(stream_config(replace(commands, bytes_max=1)))

    bus = NatsBus(nats_server.server.url_of("api"), "api-2")
    await bus.start()
    await bus.stop()
    assert (await jetstream.stream_info(commands.name)).config.max_bytes == 1

    assert await declare_streams(nats_server.url) == [commands.name]
    assert (await jetstream.stream_info(commands.name)).config.max_bytes == commands.bytes_max
    await client.close()
