"""Client of MCP servers: sessions, deadlines, bounds, and a circuit breaker for each server."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import Any

from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from libs.bus.ports import Clock
from libs.contracts.bus_messages import JsonObject
from libs.egress.address_guard import MCP_HOSTS, AddressGuard
from services.tools.adapters.mcp.allowed_commands import (
    AllowedCommand,
    allowed_commands,
    match,
)
from services.tools.adapters.mcp.circuit_breaker import CircuitBreaker
from services.tools.adapters.mcp.deadlines import McpDeadlines
from services.tools.adapters.mcp.ports import (
    Keep,
    McpFailed,
    McpHealth,
    McpOutcome,
    McpPerson,
    McpServerConfig,
    McpTool,
    Renewed,
    Sampler,
)
from services.tools.adapters.mcp.result_checks import ResultChecks
from services.tools.adapters.mcp.server_processes import ServerProcesses
from services.tools.adapters.mcp.session_pool import PING_SECONDS_MAX, SessionPool
from services.tools.adapters.process_sandbox import ProcessSandbox

# Requests under way in one process, of one organisation, and to one server.
REQUESTS_MAX = 128
ORGANISATION_REQUESTS_MAX = 104
SERVER_REQUESTS_MAX = 16
BREAKERS_MAX = 10_000
# So much of a call's time is kept to say that it was too long.
GRACE_SECONDS = 0.2
LIST_ATTEMPTS_MAX = 2
ADAPTERS = "services.tools.adapters.mcp"
# They write down what foreign servers send, at any length.
TALKATIVE = ("mcp", "client", "httpx2", "httpcore2")


async def not_kept(config: McpServerConfig, grant: str) -> None:
    """Where nobody keeps tokens that were renewed they are used, and renewed again."""


class McpConnections:
    """Sessions with MCP servers by the official SDK, opened when they are needed, and shared by
    calls.

    Every method but `refusal_of`, `health`, `forget` and `close` raises McpFailed, within the
    deadlines at the latest; cancelling one leaves the session usable or ends it. A session belongs
    to a configuration's `id` and `version`: a newer version ends the older one's.
    """

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], clock: Clock, sandbox: ProcessSandbox | None = None
    ) -> McpConnections:
        """The connections that the environment allows; servers that are programs run in the way of
        the sandbox. Raises WrongSetting."""
        return cls(
            AddressGuard.from_environment(MCP_HOSTS, environment),
            McpDeadlines.from_environment(environment),
            clock,
            commands=allowed_commands(environment),
            sandbox=sandbox,
        )

    def __init__(
        self,
        guard: AddressGuard,
        deadlines: McpDeadlines,
        clock: Clock,
        *,
        commands: tuple[AllowedCommand, ...] = (),
        sandbox: ProcessSandbox | None = None,
    ) -> None:
        self.guard = guard
        self.deadlines = deadlines
        self.clock = clock
        self.commands = commands
        self.processes = ServerProcesses(sandbox)
        self.results = ResultChecks()
        self.pool = SessionPool(self.connect)
        self.places = FairSemaphore(
            REQUESTS_MAX,
            of_organisation_max=ORGANISATION_REQUESTS_MAX,
            of_agent_max=SERVER_REQUESTS_MAX,
        )
        self.breakers: OrderedDict[str, tuple[int, CircuitBreaker]] = OrderedDict()
        self.modules: dict[str, Any] = {}
        self.loading = asyncio.Lock()
        self.renewed: Renewed = not_kept

    async def module(self, name: str) -> Any:
        """A module that needs the SDK, which takes long to import."""
        async with self.loading:
            if name not in self.modules:
                for logger_name in TALKATIVE:
                    logging.getLogger(logger_name).setLevel(logging.CRITICAL)
                module = await asyncio.to_thread(import_module, f"{ADAPTERS}.{name}")
                self.modules[name] = module
        return self.modules[name]

    def refusal_of(self, config: McpServerConfig) -> str:
        """Why this server may not be connected to at all, and how that is changed; empty if it may.
        Costs nothing: no name is looked up and nothing is started."""
        if config.transport == "stdio":
            found, why = match(self.commands, config)
            return why if found is None else self.processes.refusal()
        headers = {**config.headers}
        if any(not f"{name}{text}".isprintable() or not name for name, text in headers.items()):
            return "A header has a character that cannot be sent, such as a line break"
        if not all(f"{name}{text}".isascii() for name, text in headers.items()):
            return "A header has a character that cannot be sent: use ASCII"
        refusal = self.guard.refusal(config.url)
        return f"`server_url`: {refusal}" if refusal else ""

    async def list_tools(self, config: McpServerConfig) -> list[McpTool]:
        """Its tools, of all pages."""
        operations = await self.module("client_operations")
        return await self.fetch(config, operations.list_tools)

    async def list_resources(self, config: McpServerConfig) -> list[JsonObject]:
        """Its resources, of all pages."""
        operations = await self.module("client_operations")
        return await self.fetch(config, operations.list_resources)

    async def list_prompts(self, config: McpServerConfig) -> list[JsonObject]:
        """Its prompts, of all pages."""
        operations = await self.module("client_operations")
        return await self.fetch(config, operations.list_prompts)

    async def read_resource(self, config: McpServerConfig, uri: str) -> list[JsonObject]:
        """The parts of a resource."""
        operations = await self.module("client_operations")
        return await self.fetch(config, operations.read_resource(uri))

    async def get_prompt(
        self, config: McpServerConfig, name: str, arguments: Mapping[str, str]
    ) -> list[JsonObject]:
        """The messages of a prompt."""
        operations = await self.module("client_operations")
        return await self.fetch(config, operations.get_prompt(name, arguments))

    async def ping(self, config: McpServerConfig) -> None:
        """Return once the server has answered a ping. Raises McpFailed if it does not."""
        sessions = await self.module("session")
        await self.fetch(config, sessions.ping)

    async def call_tool(
        self,
        config: McpServerConfig,
        name: str,
        arguments: JsonObject,
        *,
        seconds: float,
        sampler: Sampler | None = None,
    ) -> McpOutcome:
        """What a call came to, after `seconds` at the latest; it is not sent a second time, unless
        the server refused it unseen because it knows the session no more. A server that may ask
        models is answered by the `sampler` meanwhile."""
        until = self.clock.monotonic() + min(seconds, self.deadlines.call_seconds) - GRACE_SECONDS
        operations = await self.module("client_operations")
        failures = await self.module("failures")
        async with self.admit(config, until) as breaker:
            for again in (False, True):
                session = await self.session(config, until, breaker)
                try:
                    ask = operations.call_tool(name, arguments)
                    outcome: McpOutcome = await session.request(ask, self.time_left(until), sampler)
                except failures.AnsweredWithError as refusal:
                    outcome = operations.refused_call(failures.without_secrets(refusal, config))
                except failures.SessionLost as lost:
                    if not again:
                        continue
                    raise self.record(config, breaker, lost) from lost
                except McpFailed as failure:
                    failure.may_have_taken_effect = True
                    if failure.kind == "timeout":
                        self.pool.aside(self.judge(config, session, breaker, failure))
                        raise
                    raise self.record(config, breaker, failure) from failure
                breaker.record_success()
                return outcome
            raise AssertionError("the last attempt returns or raises")

    async def fetch[T](self, config: McpServerConfig, ask: Callable[[Any], Awaitable[T]]) -> T:
        """What a server answers to a listing; asked again if its connection was lost meanwhile."""
        until = self.clock.monotonic() + self.deadlines.list_seconds
        failures = await self.module("failures")
        async with self.admit(config, until) as breaker:
            for attempt in range(1, LIST_ATTEMPTS_MAX + 1):
                session = await self.session(config, until, breaker)
                try:
                    answer: T = await session.request(ask, self.time_left(until))
                except failures.AnsweredWithError:
                    breaker.record_success()
                    raise
                except McpFailed as failure:
                    if failure.kind == "unreachable" and attempt < LIST_ATTEMPTS_MAX:
                        continue
                    if failure.kind == "timeout":
                        self.pool.drop(config.session_id)
                    raise self.record(config, breaker, failure) from failure
                breaker.record_success()
                return answer
            raise AssertionError("the last attempt returns or raises")

    async def session(self, config: McpServerConfig, until: float, breaker: CircuitBreaker) -> Any:
        """A session that can be asked. Raises McpFailed, which is recorded."""
        seconds = min(self.time_left(until), self.deadlines.connect_seconds)
        try:
            return await self.pool.session(config, seconds)
        except McpFailed as failure:
            raise self.record(config, breaker, failure) from failure

    @asynccontextmanager
    async def admit(self, config: McpServerConfig, until: float) -> AsyncIterator[CircuitBreaker]:
        """Wait for a place to ask this server, and yield its circuit breaker. Raises McpFailed in
        words for a person."""
        failures = await self.module("failures")
        if why := self.refusal_of(config):
            raise McpFailed("refused", why)
        try:
            async with self.place(config, until):
                breaker = self.breaker(config)
                if not breaker.admits(self.clock.now()):
                    raise McpFailed("breaker_open", resting(breaker))
                try:
                    yield breaker
                except BaseException:
                    breaker.withdraw()
                    raise
        except McpFailed as failure:
            clean = failures.without_secrets(failure, config)
            words = f"The MCP server '{config.name}' cannot be used: {clean.words}"
            effect = clean.may_have_taken_effect
            raise McpFailed(clean.kind, words, may_have_taken_effect=effect) from None

    @asynccontextmanager
    async def place(self, config: McpServerConfig, until: float) -> AsyncIterator[None]:
        """A place among those who ask. Raises McpFailed."""
        try:
            async with asyncio.timeout(max(0.0, self.time_left(until))):
                await self.places.take(config.org, config.id)
        except (NoPlace, TimeoutError):
            words = "as many requests to MCP servers are under way as can be: try again in a moment"
            raise McpFailed("timeout", words) from None
        try:
            yield
        finally:
            self.places.leave(config.org, config.id)

    async def connect(self, config: McpServerConfig, seconds: float) -> Any:
        """A session that is open. Raises McpFailed."""
        sessions = await self.module("session")
        kind = "stdio" if config.transport == "stdio" else "http"
        transports = await self.module(f"{kind}_transport")
        own_auth = await self.own_auth(config) if kind == "http" else None

        def transport(session: Any) -> Any:
            if kind == "http":
                on_status = session.note_status
                return transports.http_transport(self.guard, config, seconds, on_status, own_auth)
            command, why = match(self.commands, config)
            if command is None:
                raise McpFailed("refused", why)
            return transports.stdio_transport(self.processes, command, config.env, session.end)

        session = sessions.McpSession(
            transport,
            config.version,
            samples=config.sampling,
            check=partial(self.results.check, config.org),
        )
        await session.open(seconds)
        return session

    def keep_renewed(self, keep: Renewed) -> None:
        """Have tokens kept that a server renews."""
        self.renewed = keep

    async def own_auth(self, config: McpServerConfig) -> Any:
        """The provider of the tokens that a person's consent gave for a server, if any."""
        if not config.grant:
            return None
        authorization = await self.module("authorization")
        return authorization.provider_of(config, partial(self.renewed, config))

    async def authorize(self, config: McpServerConfig, person: McpPerson, keep: Keep) -> None:
        """Have a person let a server be used; what it grants is kept before this returns. Takes as
        long as they do."""
        if why := self.refusal_of(config):
            raise McpFailed("refused", why)
        authorization = await self.module("authorization")
        await authorization.authorize(self.guard, config, person, keep)

    async def judge(
        self, config: McpServerConfig, session: Any, breaker: CircuitBreaker, failure: McpFailed
    ) -> None:
        """Find out whether a server that was too slow for a call is well otherwise."""
        try:
            await session.ping(PING_SECONDS_MAX)
        except McpFailed:
            if self.pool.sessions.get(config.session_id) is session:
                self.pool.drop(config.session_id)
            self.record(config, breaker, failure)
        else:
            breaker.record_success()

    def breaker(self, config: McpServerConfig) -> CircuitBreaker:
        """The circuit breaker of a server, as it is configured now."""
        version, breaker = self.breakers.get(config.id, (config.version, None))
        if breaker is None or version < config.version:
            version, breaker = config.version, CircuitBreaker()
        self.breakers[config.id] = version, breaker
        self.breakers.move_to_end(config.id)
        while len(self.breakers) > BREAKERS_MAX:
            self.breakers.popitem(last=False)
        return breaker

    def record(
        self, config: McpServerConfig, breaker: CircuitBreaker, failure: McpFailed
    ) -> McpFailed:
        """Count a failure in the circuit breaker; returns it without secrets. A forbidden address
        or a wanted login is not counted as a failure."""
        clean: McpFailed = self.modules["failures"].without_secrets(failure, config)
        if clean.kind == "refused":
            breaker.withdraw()
        elif clean.kind == "unauthorized":
            breaker.record_unauthorized(clean.words)
        else:
            breaker.record_failure(clean.words, self.clock.now())
        return clean

    def time_left(self, until: float) -> float:
        """The seconds that are left."""
        return max(0.0, until - self.clock.monotonic())

    def health(self, config_id: str) -> McpHealth:
        """The health of a server, as this process has met it."""
        known = self.breakers.get(config_id)
        return known[1].health() if known else McpHealth()

    async def forget(self, config_id: str) -> None:
        """End the sessions, the process and the breaker of a server that was changed or deleted.
        Safe to repeat, and for servers that are not known."""
        self.breakers.pop(config_id, None)
        await self.pool.forget(config_id)

    async def close(self) -> None:
        """End all sessions with all servers."""
        self.results.close()
        await self.pool.close()
        await self.processes.close()


def resting(breaker: CircuitBreaker) -> str:
    """Why a server is not asked now, and until when."""
    until = breaker.open_until
    when = f" until {until:%H:%M:%S} UTC" if until else ""
    return f"it failed {breaker.failures} times in a row and is not asked{when}: " + (
        breaker.last_error
    )
