"""Discoveries of a process: how many at once and for whom, and what is left when they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from libs.contracts.bus_messages import BUSY, Accepted, Rejected
from libs.contracts.tools.mcp_servers import DeleteMcpServer, ListMcpTools, RefreshMcpServer
from libs.eventstore.ports import StoreUnavailable
from libs.work.work_lease import DueWork
from services.tools.engine.mcp_discoveries import (
    DISCOVERIES_AT_ONCE_MAX,
    ORGANISATION_DISCOVERIES_AT_ONCE_MAX,
)
from services.tools.engine.mcp_listings import ORGANISATION_LISTINGS_AT_ONCE_MAX
from tests.unit.tools.mcp_world import (
    ORG,
    OTHER_ORG,
    OTHER_SERVER,
    SERVER,
    URL,
    InMemoryMcpServer,
    McpProcess,
    McpWorld,
    create,
    tool,
)
from tests.waiting import wait_for


class SlowServer(InMemoryMcpServer):
    """A server that answers nobody until its gate is open, and counts those who wait."""

    def __init__(self) -> None:
        super().__init__([tool("forecast")])
        self.gate = asyncio.Event()
        self.waiting = self.waiting_max = 0
        self.broken = self.wait

    async def wait(self) -> None:
        self.waiting += 1
        self.waiting_max = max(self.waiting, self.waiting_max)
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1


@pytest.fixture
def world() -> McpWorld:
    return McpWorld()


@pytest.fixture
def slow(world: McpWorld) -> SlowServer:
    server = world.connections.servers[URL] = SlowServer()
    return server


def leases(world: McpWorld) -> set[str]:
    """The servers whose leases somebody holds."""
    now = world.clock.monotonic()
    return {key for key, lease in world.schema.leases.items() if lease.expires_at >= now}


async def add(process: McpProcess, count: int, org: str = ORG) -> None:
    """Add servers one after the other, all of which are reached at the same address."""
    for number in range(count):
        name = f"{org}-{number}"
        await process.tell(create(process.world, name, f"mcp_server-{name}"), org)
        await asyncio.sleep(0)  # the discovery of one begins before the next is added


async def test_an_organisation_whose_servers_are_slow_leaves_places_for_others(
    world: McpWorld, slow: SlowServer
) -> None:
    process = McpProcess(world)
    await add(process, DISCOVERIES_AT_ONCE_MAX + 5)
    await process.discoveries.sweep()
    await wait_for(
        "all of its places", lambda: slow.waiting == ORGANISATION_DISCOVERIES_AT_ONCE_MAX
    )
    assert len(leases(world)) == slow.waiting, "the rest is left to other processes"
    world.connections.servers["https://other.example/mcp"] = InMemoryMcpServer([tool("now")])
    other = create(world, "other", OTHER_SERVER, url="https://other.example/mcp")
    await process.tell(other, OTHER_ORG)
    await wait_for("the other's tools", lambda: world.discovery(OTHER_SERVER)["status"] == "ready")
    assert slow.waiting == ORGANISATION_DISCOVERIES_AT_ONCE_MAX

    slow.gate.set()
    await process.idle()
    for _ in range(2):
        await process.discoveries.sweep()
        await process.idle()
    states = {row["discovery"]["status"] for row in world.schema.rows("mcp_servers")}
    assert states == {"ready"}, "the others had their turn"
    assert not process.discoveries.places.of_organisation
    assert leases(world) == set()


async def test_what_begins_at_the_same_time_does_not_exceed_the_places(
    world: McpWorld, slow: SlowServer
) -> None:
    process = McpProcess(world)
    servers = [f"mcp_server-{number}" for number in range(2 * DISCOVERIES_AT_ONCE_MAX)]
    for number, server_id in enumerate(servers):
        process.discoveries.stopping = True  # nothing begins by itself
        await process.tell(create(world, f"name-{number}", server_id), f"org-{number % 4}")
    process.discoveries.stopping = False
    for number, server_id in enumerate(servers):
        epoch = await process.store.take_lease(server_id)
        process.discoveries.begin(DueWork(server_id, f"org-{number % 4}"), epoch)
    await wait_for("all places", lambda: slow.waiting == DISCOVERIES_AT_ONCE_MAX)
    slow.gate.set()
    await process.idle()
    assert slow.waiting_max == DISCOVERIES_AT_ONCE_MAX
    assert slow.lists == len(servers), "who found no place waited for one"


async def test_a_process_that_begins_what_waits_serves_each_organisation_in_turn(
    world: McpWorld, slow: SlowServer
) -> None:
    busy, free = McpProcess(world), McpProcess(world, "tools-2")
    busy.discoveries.stopping = True
    await add(busy, 2 * DISCOVERIES_AT_ONCE_MAX)
    await busy.tell(create(world, "other", OTHER_SERVER), OTHER_ORG)
    await free.discoveries.sweep()
    await wait_for("its places", lambda: slow.waiting == ORGANISATION_DISCOVERIES_AT_ONCE_MAX + 1)
    assert free.discoveries.is_under_way(OTHER_SERVER), "though it was the last to be added"
    await free.discoveries.drain()


async def test_a_process_that_ends_leaves_its_discoveries_to_others_at_once(
    world: McpWorld, slow: SlowServer
) -> None:
    ending, other = McpProcess(world), McpProcess(world, "tools-2")
    await ending.tell(create(world))
    await wait_for("the question", lambda: slow.waiting)

    await ending.discoveries.drain()

    assert slow.waiting == 0, "the server is asked no more"
    assert (ending.discoveries.tasks, leases(world)) == ({}, set())
    await ending.discoveries.sweep()
    assert not ending.discoveries.tasks, "it begins nothing any more"
    slow.gate.set()
    await other.discoveries.sweep()
    await other.idle()
    assert world.discovery()["status"] == "ready"


async def test_the_end_of_a_discovery_does_not_hide_the_next_one_of_its_server(
    world: McpWorld, slow: SlowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = McpProcess(world)
    told, told_gate = asyncio.Event(), asyncio.Event()
    publish = process.ports.bus.publish_delta

    async def publish_slowly(subject: str, payload: bytes) -> None:
        told.set()
        await told_gate.wait()
        await publish(subject, payload)

    monkeypatch.setattr(process.ports.bus, "publish_delta", publish_slowly)
    slow.broken = None
    await process.tell(create(world))
    await told.wait()  # it is recorded, and its lease is free
    [first] = process.discoveries.tasks.values()
    slow.broken = slow.wait
    await process.tell(RefreshMcpServer(server_id=SERVER))
    await wait_for("the next question", lambda: slow.waiting)
    told_gate.set()
    await first
    await asyncio.sleep(0)

    assert process.discoveries.is_under_way(SERVER), "the second is still made"
    await process.discoveries.drain()
    assert slow.waiting == 0, "and known to who ends it"


@pytest.mark.parametrize("problem", [StoreUnavailable("a moment"), None])
async def test_a_discovery_that_records_nothing_gives_its_lease_back(
    world: McpWorld,
    slow: SlowServer,
    monkeypatch: pytest.MonkeyPatch,
    problem: StoreUnavailable | None,
) -> None:
    """Also one whose server is deleted meanwhile."""
    process = McpProcess(world)
    await process.tell(create(world))
    await wait_for("the question", lambda: slow.waiting)
    with monkeypatch.context() as broken:
        if problem is None:
            await process.tell(DeleteMcpServer(server_id=SERVER))
        else:

            async def fails(*_: Any, **__: Any) -> None:
                raise problem

            broken.setattr(process.store, "commit", fails)
        slow.gate.set()
        await process.idle()
    assert leases(world) == set()
    await process.store.renew_leases()
    assert leases(world) == set(), "and renews it no more"
    if problem is not None:
        await process.discoveries.sweep()
        await process.idle()
        assert world.discovery()["status"] == "ready"


async def test_lists_that_one_organisation_asks_for_leave_places_for_others(
    world: McpWorld, slow: SlowServer
) -> None:
    process = McpProcess(world)
    process.discoveries.stopping = True
    for org, server_id in ((ORG, SERVER), (OTHER_ORG, OTHER_SERVER)):
        await process.tell(create(world, "slow", server_id), org)
    for number in range(ORGANISATION_LISTINGS_AT_ONCE_MAX):
        await process.tell(ListMcpTools(listing_id=f"list-{number}", server_id=SERVER))
        await asyncio.sleep(0)
    refused = await process.tell(ListMcpTools(listing_id="list-more", server_id=SERVER))
    assert isinstance(refused, Rejected)
    assert refused.code == BUSY
    other = ListMcpTools(listing_id="list-other", server_id=OTHER_SERVER)
    assert isinstance(await process.tell(other, OTHER_ORG), Accepted)
    slow.gate.set()
    await process.idle()
    assert slow.lists == ORGANISATION_LISTINGS_AT_ONCE_MAX + 1
