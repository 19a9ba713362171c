"""Every request that reads what a server stores, asked of an api in this process, and how many
blocks Postgres reads for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace, UnionType
from typing import Any, Literal, TypeAliasType, Union, get_args, get_origin

import httpx
from cryptography.fernet import Fernet
from psycopg import AsyncClientCursor
from psycopg_pool import AsyncConnectionPool

from libs.bus.clock_and_ids import RandomIds, SystemClock
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.encryption.sealer import Sealer
from libs.eventstore.connection_pool import Database, number_parameters
from services.api.app import HANDLERS, application
from services.api.http.callers import SingleOrganisation
from services.api.settings import ApiSettings

# What does not ask the read models of one thing or of an organisation for a page or a number.
NOT_ASKED = re.compile(
    r"/v1/.*(/connect/.*|/diff|/export|/mcp/.*|/trace|/request|/health|/resources.*|/prompts)"
    r"|/v1/(health|ready|models|embeddings|schemas|admin/configuration)\b.*"
    r"|/(v1/agents/\{agent_id\}/archival-memory/search|asyncapi.*|openapi.*|latest.*|metrics)"
    r"|/|/health|/livez|/readyz"
)
# Parameters that say how a page looks, not what is in it.
OF_A_PAGE = {
    "before",
    "after",
    "cursor",
    "limit",
    "include",
    "include_relationships",
    "at",
    "offset",
}


class MeasuredDatabase(Database):
    """Counts the blocks that the statements read which are run on it, with the plans that a
    connection keeps: those that know no values."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        super().__init__(pool)
        self.reads: list[tuple[int, str]] = []

    async def fetch(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        await self.measure(query, parameters)
        return await super().fetch(query, parameters)

    async def fetch_one(self, query: str, parameters: Any = None) -> tuple[Any, ...] | None:
        await self.measure(query, parameters)
        return await super().fetch_one(query, parameters)

    async def fetch_text(self, query: str, parameters: Any = None) -> bytes | None:
        await self.measure(query, parameters)
        return await super().fetch_text(query, parameters)

    async def measure(self, query: str, parameters: Any) -> None:
        """Run a statement once, and note how many blocks it read."""
        text, names = number_parameters(query)
        given: Any = parameters or []
        values: Sequence[Any] = given if names is None else [given[name] for name in names]
        execute = "explain (analyze, buffers, format json) execute measured"
        if values:
            execute += f" ({', '.join(['%s'] * len(values))})"
        async with self.connection() as connection:
            cursor = AsyncClientCursor(connection)
            await cursor.execute(b"prepare measured as " + text.replace(b"%", b"%%"))
            try:
                await cursor.execute(execute, values)
                row = await cursor.fetchone()
            finally:
                await cursor.execute("deallocate measured")
        assert row is not None
        plan = row[0][0]["Plan"]
        self.reads.append((plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], query))

    @property
    def blocks(self) -> int:
        """How many blocks were read in all."""
        return sum(blocks for blocks, _ in self.reads)


@dataclass(frozen=True, slots=True)
class Question:
    """A request that reads, as a path with its parameters."""

    path: str
    parameters: tuple[tuple[str, str], ...] = ()
    body: Any = None
    route: str = ""

    def __str__(self) -> str:
        asked = "&".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.route or self.path}{'?' if asked else ''}{asked}"


def questions(ids: Mapping[str, str], values: Mapping[str, str]) -> Iterator[Question]:
    """Each route that reads, without parameters and with each of them alone; `ids` stand in paths,
    and `values` are those of parameters by name, or by path and name."""
    for handler in HANDLERS:
        described = handler.opt.get("description")
        if "GET" not in handler.http_methods or described is None:
            continue
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", min(handler.paths))
        if NOT_ASKED.fullmatch(path):
            continue
        placed = re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], path)
        yield Question(placed, route=path)
        if described.query is None:
            continue
        for name, declared in described.query.model_fields.items():
            if name in OF_A_PAGE:
                continue
            for value in values_of(path, name, declared.annotation, values):
                given = (declared.alias or name, value)
                yield Question(placed, (given,), route=path)


def values_of(path: str, name: str, annotation: Any, values: Mapping[str, str]) -> Sequence[str]:
    """What a parameter is asked with: one value, or each that it may have."""
    if (known := values.get(f"{path} {name}", values.get(name))) is not None:
        return [known]
    allowed = [*literals_of(annotation)]
    if allowed:
        return allowed
    if bool in parts_of(annotation):
        return ["true"]
    if int in parts_of(annotation):
        return ["1"]
    return ["rare"]


def parts_of(annotation: Any) -> set[Any]:
    """The types that an annotation is put together from."""
    if isinstance(annotation, TypeAliasType):
        return parts_of(annotation.__value__)
    if get_origin(annotation) in (Union, UnionType, list) or hasattr(annotation, "__metadata__"):
        return {part for given in get_args(annotation) for part in parts_of(given)}
    return {annotation} if getattr(annotation, "__hash__", None) else set()


def literals_of(annotation: Any) -> Iterator[str]:
    """The values of a parameter that may have only some."""
    for part in parts_of(annotation):
        if get_origin(part) is Literal:
            yield from map(str, get_args(part))


class AskedApi:
    """An api on a database, with nothing behind it that answers commands."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self.database = MeasuredDatabase(pool)
        clock, ids = SystemClock(), RandomIds()
        runtime: Any = SimpleNamespace(
            database=self.database, bus=InMemoryBus(InMemoryNetwork()), clock=clock, ids=ids
        )
        settings = ApiSettings.from_environment({})
        sealer = Sealer([Fernet.generate_key().decode()])
        app: Any = application(settings, runtime, sealer, SingleOrganisation())
        app.state.tracer = None
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    async def ask(self, question: Question) -> httpx.Response:
        """The answer; what was read for it is in `database.reads`."""
        self.database.reads = []
        if question.body is not None:
            return await self.client.post(question.path, json=question.body)
        return await self.client.get(question.path, params=question.parameters)
