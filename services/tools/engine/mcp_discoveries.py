"""Discover the tools of MCP servers: each discovery under a lease, and attempted again when it
fails, until it has failed too often.

That one is wanted is durable before the server is asked. Where the process dies, the lease runs
out, and a sweeper has the server asked once more: listing tools changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from libs.bus.ports import Bus, Clock, Ids
from libs.bus.unknown_version_delays import log_once
from libs.contracts.bus_messages import Context, NewerVersion
from libs.contracts.storable_text import storable
from libs.contracts.tools.mcp_servers import mcp_server_deltas
from libs.encryption.sealer import CannotOpen, Sealer
from libs.eventstore.ports import Fence, StaleLease, StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import Repository
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig
from services.tools.adapters.mcp_server_queries import McpServerQueries
from services.tools.domain.mcp_server import McpServer, McpServerState
from services.tools.domain.mcp_tool import OfferedTool
from services.tools.engine.mcp_config_secrets import opened
from services.tools.engine.mcp_sessions import McpSessions
from services.tools.engine.mcp_tool_registration import registered

log = logging.getLogger(__name__)

# More wait for their turn; the sweeper begins them. One that hangs ends by its deadline.
DISCOVERIES_AT_ONCE_MAX = 32
ORGANISATION_DISCOVERIES_AT_ONCE_MAX = 24
DISCOVERY_SECONDS_MAX = 60.0
STORE_RETRY_SECONDS = 1.0
CONFLICT_RETRIES_MAX = 20
REASON_CHARS_MAX = 2_000
OF_THE_STORE = (NewerVersion, StaleLease, VersionConflict, StoreUnavailable)


@dataclass(slots=True, kw_only=True)
class McpPorts:
    """What a process needs for its MCP servers. `committed` is called after each commit."""

    repository: Repository
    sessions: McpSessions
    sealer: Sealer
    queries: McpServerQueries
    bus: Bus
    clock: Clock
    ids: Ids
    committed: Callable[[], None]


class McpDiscoveries:
    """The discoveries that this process makes."""

    def __init__(self, ports: McpPorts) -> None:
        self.ports = ports
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.places = FairSemaphore(
            DISCOVERIES_AT_ONCE_MAX,
            of_organisation_max=ORGANISATION_DISCOVERIES_AT_ONCE_MAX,
            users="discoveries",
            thing="place",
        )
        self.stopping = False

    def has_room(self, org: str) -> bool:
        """Whether one more can be made for an organisation now."""
        return not self.stopping and self.places.has_place(org)

    def begin(self, server_id: str, org: str, epoch: int | None) -> None:
        """Discover the tools of a server, with its lease."""
        if epoch is None:  # somebody else has it, and looks at its end whether more is wanted
            return
        task = asyncio.create_task(self.run(server_id, org, Fence(server_id, epoch)))
        self.tasks[server_id] = task
        task.add_done_callback(lambda ended: self.forget(server_id, ended))

    def forget(self, server_id: str, ended: asyncio.Task[None]) -> None:
        """A discovery is over; the next one of its server may have begun."""
        if self.tasks.get(server_id) is ended:
            del self.tasks[server_id]

    async def sweep(self) -> None:
        """Begin what is due and nobody makes."""
        if self.stopping or not self.places.free:
            return
        for due in await self.ports.queries.due_discoveries(
            ORGANISATION_DISCOVERIES_AT_ONCE_MAX, DISCOVERIES_AT_ONCE_MAX
        ):
            if due.id in self.tasks or not self.has_room(due.org):
                continue
            epoch = await self.ports.repository.store.take_lease(due.id)
            self.begin(due.id, due.org, epoch)
            await asyncio.sleep(0)  # it takes its place before the next is looked at

    async def run(self, server_id: str, org: str, fence: Fence) -> None:
        """Discover until nothing more is wanted. Where more have begun at the same time than there
        are places, this one waits for its own."""
        try:
            async with self.places.hold(org):
                while await self.discovered_anew(server_id, org, fence):
                    pass
        except NoPlace as full:
            log.info("the discovery of %s begins later: %s", server_id, full)
        except NewerVersion as unknown:
            log_once(unknown)
        except (StaleLease, VersionConflict):
            log.info("the discovery of %s goes on elsewhere", server_id)
        except StoreUnavailable as outage:
            log.warning("the discovery of %s is not recorded: %s", server_id, outage)
        finally:
            with contextlib.suppress(StoreUnavailable):
                await self.ports.repository.store.release_lease(fence)
            await self.ports.bus.publish_delta(mcp_server_deltas(org, server_id), b"{}")

    async def discovered_anew(self, server_id: str, org: str, fence: Fence) -> bool:
        """Ask a server, and record what came of it; returns whether it has to be asked again,
        since something else is wanted of it by now. A process edge: a bug is logged here, once, and
        the discovery has failed."""
        work = self.ports.repository.work(Context(self.ports.ids.new("discovery"), org=org))
        state = (await work.load(McpServer, server_id)).present
        if state is None:
            return False
        wanted = (state.number, state.version)
        offered: list[OfferedTool] | McpFailed
        try:
            offered = await self.offered(server_id, org, state)
        except McpFailed as failed:
            offered = failed
        except Exception:
            log.exception("%s cannot be asked for its tools", server_id)
            offered = McpFailed("protocol", "it could not be asked: the log says why")
        try:
            return await self.record(server_id, org, fence, wanted, offered)
        except OF_THE_STORE:
            raise
        except Exception:
            # What one server says must not be asked for again and again, without a pause or an end.
            log.exception("the tools of %s cannot be taken over", server_id)
            failure = McpFailed("protocol", "what it offers cannot be stored: the log says why")
            return await self.record(server_id, org, fence, wanted, failure)

    async def offered(self, server_id: str, org: str, state: McpServerState) -> list[OfferedTool]:
        """The tools that a server offers. Raises McpFailed."""
        config = config_of(self.ports.sealer, server_id, org, state)
        return await listed(self.ports.sessions, config)

    async def record(
        self,
        server_id: str,
        org: str,
        fence: Fence,
        wanted: tuple[int, int],
        offered: list[OfferedTool] | McpFailed,
    ) -> bool:
        """Make it durable what came of a discovery, unless something else is wanted by now, of
        which it returns whether that is so."""
        for _ in range(CONFLICT_RETRIES_MAX):
            work = self.ports.repository.work(Context(self.ports.ids.new("discovery"), org=org))
            server = await work.load(McpServer, server_id)
            state = server.present
            if state is None:
                return False
            if (state.number, state.version) != wanted:
                return True
            at = self.ports.clock.now()
            if isinstance(offered, McpFailed):
                words = storable(offered.words)[:REASON_CHARS_MAX]
                server.failed(offered.kind, words, at=at)
            else:
                await registered(work, server, offered, at=at)
            try:
                await work.commit(fence=fence, release_lease=True)
            except VersionConflict:
                continue
            self.ports.committed()
            return False
        raise VersionConflict(server_id)

    async def server_answers(self, server_id: str, org: str) -> None:
        """Discover the tools of a server once more that answers again, if that was given up."""
        work = self.ports.repository.work(Context(self.ports.ids.new("answers"), org=org))
        with contextlib.suppress(StoreUnavailable, VersionConflict):
            server = await work.load(McpServer, server_id)
            if server.given_up and self.has_room(org):
                server.request_discovery([], at=self.ports.clock.now())
                work.take_lease = server_id
                self.begin(server_id, org, await work.commit())
                self.ports.committed()

    async def drain(self) -> None:
        """Give all up: another process begins them anew."""
        self.stopping = True
        for task in list(self.tasks.values()):
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


def config_of(sealer: Sealer, server_id: str, org: str, state: McpServerState) -> McpServerConfig:
    """The configuration of a server that is there. Raises McpFailed."""
    assert state.config is not None, "a server that is there has a configuration"
    config = opened(
        sealer, state.config, server_id=server_id, org=org, name=state.name, version=state.version
    )
    if not state.grant:
        return config
    try:
        return replace(config, grant=sealer.open(state.grant))
    except CannotOpen:
        return config  # who connects authorizes it again


async def listed(sessions: McpSessions, config: McpServerConfig) -> list[OfferedTool]:
    """The tools of a server. Raises McpFailed, after DISCOVERY_SECONDS_MAX at the latest."""
    connections = sessions.used(config)
    refused = connections.refused(config)
    if refused:
        raise McpFailed("refused", refused)
    try:
        async with asyncio.timeout(DISCOVERY_SECONDS_MAX):
            tools = await connections.list_tools(config)
    except TimeoutError:
        words = f"'{config.name}' did not list its tools within {DISCOVERY_SECONDS_MAX:g} seconds"
        raise McpFailed("timeout", words) from None
    return [OfferedTool(one.name, one.description, one.input_schema, one.problem) for one in tools]
