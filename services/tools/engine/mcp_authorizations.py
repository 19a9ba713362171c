"""Have people let MCP servers be used, and keep what they are granted, sealed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

from libs.contracts.bus_messages import Context, JsonObject
from libs.contracts.tools.mcp_authorizations import AUTHORIZATION_SECONDS_MAX, authorization_id
from libs.eventstore.ports import StoreUnavailable, VersionConflict
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig
from services.tools.domain.mcp_authorization import McpAuthorization
from services.tools.domain.mcp_server import McpServer
from services.tools.engine.mcp_discoveries import McpPorts

# How often it is looked whether a person has answered: their answer may come to another process.
LOOK_SECONDS = 1.0
CONFLICTS_MAX = 10
GRACE_SECONDS = 60.0
KEEP_ALIVE_LOOKS = 10
URL_CHARS_MAX = 4_096
WAITING = "Waiting for you to authorize in your browser"

type Tell = Callable[[JsonObject], Awaitable[None]]


@dataclass(slots=True)
class AuthorizingPerson:
    """Keeps the contract of `McpPerson` with whoever reads what is told."""

    ports: McpPorts
    server_id: str
    org: str
    redirect_uri: str
    tell: Tell
    state: str = field(default="", repr=False)

    @property
    def id(self) -> str:
        """The id of what they are asked."""
        return authorization_id(self.org, self.state)

    async def go_to(self, url: str) -> None:
        parts = urlsplit(url)
        self.state = parse_qs(parts.query).get("state", [""])[0]
        if not self.state or parts.scheme not in ("http", "https") or len(url) > URL_CHARS_MAX:
            raise McpFailed("unauthorized", "it names no address where a person could authorize")
        now = self.ports.clock.now()
        work = self.ports.repository.work(Context(self.ports.ids.new("ask"), org=self.org))
        asked = await work.load_new(McpAuthorization, self.id)
        expires_at = now + timedelta(seconds=AUTHORIZATION_SECONDS_MAX)
        asked.request(self.server_id, expires_at=expires_at, at=now)
        await work.commit()
        self.ports.committed()
        await self.tell({"event": "authorization_url", "url": url, "session_id": self.id})
        await self.tell({"event": "waiting_for_auth", "message": WAITING})

    async def answer(self) -> tuple[str, str, str]:
        until = self.ports.clock.monotonic() + AUTHORIZATION_SECONDS_MAX
        looks = 0
        while self.ports.clock.monotonic() < until:
            with contextlib.suppress(StoreUnavailable):
                work = self.ports.repository.work(Context(self.ports.ids.new("look"), org=self.org))
                known = (await work.load(McpAuthorization, self.id)).state
                if known.error:
                    raise McpFailed("unauthorized", f"it was not authorized: {known.error[:300]}")
                if known.answered:
                    return self.ports.sealer.open(known.code), self.state, known.issuer
            looks += 1
            if looks % KEEP_ALIVE_LOOKS == 0:
                await self.tell({})
            await asyncio.sleep(LOOK_SECONDS)
        words = f"nobody authorized it within {AUTHORIZATION_SECONDS_MAX:g} seconds"
        raise McpFailed("unauthorized", words)


class McpAuthorizations:
    """The authorizations of servers in this process."""

    def __init__(self, ports: McpPorts) -> None:
        self.ports = ports

    async def authorize(self, config: McpServerConfig, redirect_uri: str, tell: Tell) -> None:
        """Have whoever reads what is told let a server be used. Raises McpFailed."""
        await tell({"event": "oauth_required", "message": "OAuth authentication required"})
        person = AuthorizingPerson(self.ports, config.id, config.org, redirect_uri, tell)

        async def keep(grant: str) -> None:
            await self.keep_grant(config, grant, renewed=False)

        try:
            async with asyncio.timeout(AUTHORIZATION_SECONDS_MAX + GRACE_SECONDS):
                await self.ports.sessions.connections_for(config).authorize(config, person, keep)
        except TimeoutError:
            raise McpFailed("timeout", "it took too long to authorize it") from None

    async def keep_renewed_grant(self, config: McpServerConfig, grant: str) -> None:
        """Store the tokens that a server renewed, sealed."""
        await self.keep_grant(config, grant, renewed=True)

    async def keep_grant(self, config: McpServerConfig, grant: str, *, renewed: bool) -> None:
        """Store what a server granted, sealed. Raises McpFailed if the server was changed or
        deleted meanwhile."""
        sealed = self.ports.sealer.seal(grant)
        for _ in range(CONFLICTS_MAX):
            work = self.ports.repository.work(Context(self.ports.ids.new("grant"), org=config.org))
            server = await work.load(McpServer, config.id)
            state = server.present
            if state is None or state.version != config.version:
                raise McpFailed("unauthorized", "it was changed meanwhile: connect to it again")
            server.authorize(sealed, renewed=renewed, at=self.ports.clock.now())
            try:
                await work.commit()
            except VersionConflict:
                continue
            self.ports.committed()
            return
        raise McpFailed("unauthorized", "what it granted could not be kept: connect to it again")
