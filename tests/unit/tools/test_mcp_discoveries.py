"""Discoveries of a process: how many at once and for whom, and what is left when they end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.bus_messages import BUSY, Accepted, Context, Rejected
from libs.contracts.tools.mcp_servers import (
    DeleteMcpServer,
    ListMcpTools,
    McpConfigChanges,
    RefreshMcpServer,
    UpdateMcpServer,
    mcp_server_deltas,
)
from libs.encryption.sealer import Sealer
from libs.encryption.sealing_keys import new_key
from libs.eventstore.ports import StoreRefused, StoreUnavailable, VersionConflict
from libs.work.work_lease import DueWork
from services.tools.adapters.mcp.ports import McpFailed
from services.tools.domain.mcp_server import RETRY_SECONDS, McpServer
from services.tools.engine import mcp_discoveries
from services.tools.engine.mcp_discoveries import (
    DISCOVERIES_AT_ONCE_MAX,
    ORGANISATION_DISCOVERIES_AT_ONCE_MAX,
    REASON_CHARS_MAX,
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


async def test_an_answer_to_what_is_not_wanted_any_more_is_not_recorded(
    world: McpWorld, slow: SlowServer
) -> None:
    process = McpProcess(world)
    await process.tell(create(world))
    await wait_for("the question", lambda: slow.waiting)
    moved = "https://moved.example/mcp"
    world.connections.servers[moved] = InMemoryMcpServer([tool("now")])
    changes = McpConfigChanges(transport="streamable_http", url=moved)
    await process.tell(UpdateMcpServer(server_id=SERVER, changes=changes))
    slow.gate.set()
    await process.idle()
    assert world.story().count("mcp_server.tools_discovered") == 1
    assert set(world.tools()) == {"now"}
    assert (slow.lists, world.connections.servers[moved].lists) == (1, 1)
    assert SERVER not in world.schema.leases, "nothing of its lease is left"


async def test_what_a_server_says_is_recorded_as_text_that_can_be_stored_and_is_not_too_long(
    world: McpWorld,
) -> None:
    process = McpProcess(world)
    words = "\x00refused " + "x" * 2 * REASON_CHARS_MAX
    world.connections.at(URL).broken = McpFailed("protocol", words)
    await process.tell(create(world))
    await process.idle()
    reason = world.discovery()["reason"]
    assert reason.startswith("refused x")
    assert len(reason) == REASON_CHARS_MAX


async def test_tools_that_cannot_be_stored_fail_their_discovery_with_a_pause(
    world: McpWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process = McpProcess(world)
    world.connections.at(URL).tools = [tool("forecast")]

    async def fails(*_: Any, **__: Any) -> None:
        raise StoreRefused("too long for an index", by_data=True)

    with monkeypatch.context() as broken:
        broken.setattr(mcp_discoveries, "register_tools", fails)
        await process.tell(create(world))
        await process.idle()
    assert "cannot be taken over" in caplog.text
    seen = world.discovery()
    assert (seen["status"], seen["kind"], seen["attempts"]) == ("failed", "protocol", 1)
    assert seen["retry_at"] is not None
    assert seen["reason"] == "what it offers cannot be stored: the log says why"


async def test_an_outage_while_its_tools_are_stored_is_no_failure_of_the_server(
    world: McpWorld, slow: SlowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = McpProcess(world)
    await process.tell(create(world))
    await wait_for("the question", lambda: slow.waiting)
    commit, commits = process.store.commit, 0

    async def is_away_once(commit_: Any) -> int | None:
        nonlocal commits
        commits += 1
        if commits == 1:
            raise StoreUnavailable("a moment")
        return await commit(commit_)

    monkeypatch.setattr(process.store, "commit", is_away_once)
    slow.gate.set()
    await process.idle()
    assert "mcp_server.discovery_failed" not in world.story()
    await process.discoveries.sweep()
    await process.idle()
    assert world.discovery()["status"] == "ready"


async def test_whoever_waits_for_a_discovery_hears_of_its_end_however_it_ends(
    world: McpWorld, slow: SlowServer
) -> None:
    process, heard = McpProcess(world), 0

    def hear(subject: str, payload: bytes) -> None:
        nonlocal heard
        heard += 1

    await process.ports.bus.subscribe_deltas(mcp_server_deltas(ORG, SERVER), hear)
    await process.tell(create(world))
    await wait_for("the question", lambda: slow.waiting)
    assert heard == 0
    await process.tell(DeleteMcpServer(server_id=SERVER))
    slow.gate.set()
    await process.idle()
    assert heard == 1


async def test_a_server_that_is_deleted_meanwhile_is_no_bug(
    world: McpWorld, slow: SlowServer, caplog: pytest.LogCaptureFixture
) -> None:
    process = McpProcess(world)
    await process.tell(create(world))
    await wait_for("the question", lambda: slow.waiting)
    await process.tell(DeleteMcpServer(server_id=SERVER))
    slow.gate.set()
    await process.idle()
    epoch = await process.store.take_lease(SERVER)
    process.discoveries.begin(DueWork(SERVER, ORG), epoch)  # found just before it was deleted
    await process.idle()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
    assert slow.lists == 1
    assert leases(world) == set()


async def test_a_server_that_may_not_be_connected_to_any_more_is_not_asked(
    world: McpWorld, slow: SlowServer
) -> None:
    process = McpProcess(world)
    await process.tell(create(world))
    slow.gate.set()
    await process.idle()
    world.connections.refusal = "this server does not start programs"
    await process.tell(RefreshMcpServer(server_id=SERVER))
    await process.idle()
    assert slow.lists == 1
    assert (world.discovery()["kind"], world.discovery()["reason"]) == (
        "refused",
        "this server does not start programs",
    )


async def test_a_tool_that_could_not_be_read_is_reported_with_the_reason(world: McpWorld) -> None:
    process = McpProcess(world)
    unreadable = replace(tool("bad"), problem="its schema is no object")
    world.connections.at(URL).tools = [tool("forecast"), unreadable]
    await process.tell(create(world))
    await process.idle()
    assert set(world.tools()) == {"forecast"}
    [report] = world.discovery()["report"]["unusable"]
    assert (report["name"], report["reason"]) == ("bad", "its schema is no object")


@pytest.mark.parametrize("key_is_lost", [False, True])
async def test_a_server_is_asked_with_what_a_person_granted_if_that_can_be_read(
    world: McpWorld, slow: SlowServer, key_is_lost: bool
) -> None:
    process = McpProcess(world)
    slow.gate.set()
    await process.tell(create(world))
    await process.idle()
    sealer = Sealer([new_key()]) if key_is_lost else world.sealer
    unit = process.repository.work(Context("granted", org=ORG))
    server = await unit.load(McpServer, SERVER)
    server.authorize(sealer.seal("a grant"), renewed=False, at=world.clock.now())
    await unit.commit()
    await process.discoveries.sweep()
    await process.idle()
    granted = [config.grant for config in world.connections.configs]
    assert granted == ["", "" if key_is_lost else "a grant"]
    assert world.discovery()["status"] == "ready"


async def test_a_server_that_never_answers_is_given_up_in_time(
    world: McpWorld, slow: SlowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_discoveries, "DISCOVERY_SECONDS_MAX", 0.01)
    process = McpProcess(world)
    await process.tell(create(world))
    await process.idle()
    assert (world.discovery()["kind"], slow.waiting) == ("timeout", 0)


class TestAServerThatAnswersAgain:
    @pytest.fixture
    async def process(self, world: McpWorld) -> McpProcess:
        """A process, and a server whose discovery was given up."""
        process, server = McpProcess(world), world.connections.at(URL)
        server.tools = [tool("forecast")]
        await process.tell(create(world))
        await process.idle()
        server.broken = McpFailed("unreachable", "connection refused")
        await process.tell(RefreshMcpServer(server_id=SERVER))
        for pause in (*RETRY_SECONDS, 0):
            await process.idle()
            world.clock.seconds += pause
            await process.discoveries.sweep()
        await process.idle()
        assert world.discovery()["retry_at"] is None
        server.broken = None
        return process

    async def test_is_discovered_at_once_and_others_are_not(
        self, world: McpWorld, process: McpProcess
    ) -> None:
        lists = world.connections.at(URL).lists
        relay = []
        process.ports.committed = lambda: relay.append(world.story()[-1])
        await process.discoveries.server_answers(SERVER, ORG)
        assert relay == ["mcp_server.discovery_requested"], "and the relay is told"
        await process.idle()
        assert world.discovery()["status"] == "ready"
        assert world.connections.at(URL).lists == lists + 1
        await process.discoveries.server_answers(SERVER, ORG)
        assert not process.discoveries.tasks, "it was not given up"

    async def test_waits_where_there_is_no_room(self, world: McpWorld, process: McpProcess) -> None:
        process.discoveries.stopping = True
        story = world.story()
        await process.discoveries.server_answers(SERVER, ORG)
        assert world.story() == story

    @pytest.mark.parametrize("problem", [StoreUnavailable("away"), VersionConflict("raced")])
    async def test_costs_no_call_its_answer_when_that_cannot_be_recorded(
        self,
        world: McpWorld,
        process: McpProcess,
        monkeypatch: pytest.MonkeyPatch,
        problem: Exception,
    ) -> None:
        async def fails(*_: Any) -> None:
            raise problem

        with monkeypatch.context() as broken:
            broken.setattr(process.store, "commit", fails)
            await process.discoveries.server_answers(SERVER, ORG)
        assert leases(world) == set()
        assert world.discovery()["status"] == "failed"


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
