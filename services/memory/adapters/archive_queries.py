"""Queries about archives: the agents that search them, their embedders, and their contents."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from libs.bus.ports import Clock
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.eventstore.connection_pool import Database

COLLECTIONS_MAX = 1_000
SWEPT_MAX = 100
REEMBEDDINGS_MAX = 1_000

AGENT = """
select a.name, a.embedding_config::text,
       array(select aa.archive_id from memory.archive_agents aa
             where aa.agent_id = a.id and aa.org = a.org order by aa.attached_at, aa.archive_id)
from agent.agent_view a where a.id = %(agent)s and a.org = %(org)s"""

# What embedded an archive before, as long as passages have vectors of that.
PREVIOUS = """(select coalesce(r.previous_config::text, 'null')
    from memory.archive_reembeddings r where r.id = v.id)"""

OF_AGENT = f"""
select v.id, (v.fields->'embedding_config')::text, {PREVIOUS}
from (select archive_id from memory.archive_agents
      where agent_id = %(agent)s and org = %(org)s limit 1000) aa
join memory.archives v on v.id = aa.archive_id and v.org = %(org)s"""

NAMED = f"""
select v.id, (v.fields->'embedding_config')::text, {PREVIOUS}
from unnest(%(ids)s::text[]) as wanted(id)
cross join lateral (select id, org, fields from memory.archives where id = wanted.id limit 1) v
where v.org = %(org)s"""

NAMED_FOLDERS = """
select v.id, (v.fields->'embedding_config')::text, (select coalesce(r.previous_config::text, 'null')
    from memory.folder_reembeddings r where r.id = v.id)
from unnest(%(ids)s::text[]) as wanted(id)
cross join lateral (select id, org, fields from memory.folders where id = wanted.id limit 1) v
where v.org = %(org)s"""

NEWEST = f"""
select v.id, (v.fields->'embedding_config')::text, {PREVIOUS} from memory.archives v
where v.org collate "C" = %(org)s order by v.created_at desc, v.id collate "C" desc limit 1000"""

LEFT_OVER = """
select id from memory.passages where collection_id = %(archive)s and org = %(org)s
order by created_at, id collate "C" limit %(limit)s"""

TO_EMBED = """
select id, coalesce(file_id, ''), text from memory.passages
where collection_id = %(collection)s and org = %(org)s
  and (embedding_model is distinct from %(model)s or vector_dims(embedding) <> %(dimensions)s)
order by created_at, id collate "C" limit %(limit)s"""

REEMBEDDED = ("memory.archive_reembeddings", "memory.folder_reembeddings")
# The first of each organisation come before the second of any.
REEMBEDDINGS = """
select id, org from (
    select id, org, started_at,
           row_number() over (partition by org order by started_at, id) as place
    from (select id, org, started_at from memory.archive_reembeddings
          union all select id, org, started_at from memory.folder_reembeddings) r) p
order by place, started_at, id limit 1000"""

REMOVALS = """
select r.id, r.org from memory.archive_removals r
where not exists (select from memory.archives a where a.id = r.id)
  and (r.deleted_at < now() - make_interval(secs => %s)
       or exists (select from memory.passages p where p.collection_id = r.id))
order by r.deleted_at limit 100"""

ORPHANED = """
select aa.archive_id, aa.agent_id, aa.org from memory.archive_agents aa
where {chosen} not exists (
    select from agent.agent_view a where a.id = aa.agent_id and a.org = aa.org)
limit 100"""


# The passages of an archive are counted now and then: a bound need not be exact.
COUNTED_AGAIN_SECONDS = 300.0
COUNTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class RememberingAgent:
    """An agent that may have archives: its name, what embeds its texts, and the archives that are
    attached to it, in this order."""

    name: str
    embedding_config: EmbeddingConfig | None = None
    archive_ids: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Collection:
    """Passages that are searched together, and their embedder; without a config, the default one.
    `previous` is the embedder before, as long as that has embedded some of it."""

    id: str
    embedding_config: EmbeddingConfig | None = None
    previous: tuple[EmbeddingConfig | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Unembedded:
    """A passage without a vector of the model that is to embed it. Without a `file_id` it is none
    of a file."""

    id: str
    file_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """An archive that an agent has."""

    archive_id: str
    agent_id: str
    org: str


@dataclass(frozen=True, slots=True)
class Reembedding:
    """An archive or a folder whose passages get the vectors of another model."""

    collection_id: str
    org: str


@dataclass(frozen=True, slots=True)
class Removal:
    """A deleted archive that may have passages left."""

    archive_id: str
    org: str


class ArchiveQueries(Protocol):
    """The queries of the handlers and policies of archives."""

    async def agent(self, org: str, agent_id: str) -> RememberingAgent | None:
        """An agent of the organisation, if there is one."""

    async def collections_of(self, org: str, agent_id: str) -> list[Collection]:
        """The archives that an agent searches."""

    async def collections(self, org: str, ids: list[str]) -> list[Collection]:
        """Those of these archives that the organisation has."""

    async def named_collections(self, org: str, ids: list[str]) -> list[Collection]:
        """Those of these archives and folders that the organisation has."""

    async def all_collections(self, org: str) -> list[Collection]:
        """The newest archives of the organisation, `COLLECTIONS_MAX` at most."""

    async def passages_left(self, org: str, archive_id: str, limit: int) -> list[str]:
        """The first passages of an archive, whether it is deleted or not."""

    async def passage_count(self, org: str, archive_id: str) -> int:
        """The number of passages of an archive."""

    async def archive_count(self, org: str) -> int:
        """The number of archives of the organisation."""

    async def passages_to_embed(
        self, org: str, collection_id: str, model: str, dimensions: int, limit: int
    ) -> list[Unembedded]:
        """The first passages of an archive or a folder that this model has not embedded."""

    async def reembeddings(self) -> list[Reembedding]:
        """Archives and folders whose passages get the vectors of another model,
        `REEMBEDDINGS_MAX` at most, the first of each organisation before the second of any."""

    async def removals(self, settled_seconds: float) -> list[Removal]:
        """Deleted archives that have passages left, and those that were deleted so long ago that
        no passage can be on its way to them; `SWEPT_MAX` at most."""

    async def orphaned_attachments(self, agent_ids: list[str] | None) -> list[Attachment]:
        """Attachments to those of these agents, or of all, that are no more; `SWEPT_MAX` at
        most."""


class PostgresArchiveQueries:
    """Keeps the contract of `ArchiveQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def agent(self, org: str, agent_id: str) -> RememberingAgent | None:
        row = await self.database.fetch_one(AGENT, {"org": org, "agent": agent_id})
        return RememberingAgent(row[0], config_of(row[1]), row[2]) if row else None

    async def collections_of(self, org: str, agent_id: str) -> list[Collection]:
        return await collections_of(self.database, OF_AGENT, {"org": org, "agent": agent_id})

    async def collections(self, org: str, ids: list[str]) -> list[Collection]:
        return await collections_of(self.database, NAMED, {"org": org, "ids": ids})

    async def named_collections(self, org: str, ids: list[str]) -> list[Collection]:
        query = f"{NAMED} union all {NAMED_FOLDERS}"
        return await collections_of(self.database, query, {"org": org, "ids": ids})

    async def all_collections(self, org: str) -> list[Collection]:
        return await collections_of(self.database, NEWEST, {"org": org})

    async def passages_left(self, org: str, archive_id: str, limit: int) -> list[str]:
        values = {"org": org, "archive": archive_id, "limit": limit}
        return [row[0] for row in await self.database.fetch(LEFT_OVER, values)]

    async def passage_count(self, org: str, archive_id: str) -> int:
        row = await self.database.fetch_one(
            "select count(*) from memory.passages where collection_id = %s and org = %s",
            [archive_id, org],
        )
        return int(row[0]) if row else 0

    async def archive_count(self, org: str) -> int:
        row = await self.database.fetch_one(
            'select count(*) from memory.archives where org collate "C" = %s', [org]
        )
        return int(row[0]) if row else 0

    async def passages_to_embed(
        self, org: str, collection_id: str, model: str, dimensions: int, limit: int
    ) -> list[Unembedded]:
        values = {
            "org": org,
            "collection": collection_id,
            "model": model,
            "dimensions": dimensions,
            "limit": limit,
        }
        return [Unembedded(*row) for row in await self.database.fetch(TO_EMBED, values)]

    async def reembeddings(self) -> list[Reembedding]:
        if not await self.database.any_row(*REEMBEDDED):
            return []
        return [Reembedding(*row) for row in await self.database.fetch(REEMBEDDINGS)]

    async def removals(self, settled_seconds: float) -> list[Removal]:
        """Deleted archives that have passages left, or were deleted so long ago."""
        if not await self.database.any_row("memory.archive_removals"):
            return []
        return [Removal(*row) for row in await self.database.fetch(REMOVALS, [settled_seconds])]

    async def orphaned_attachments(self, agent_ids: list[str] | None) -> list[Attachment]:
        chosen = "" if agent_ids is None else "aa.agent_id = any(%(agents)s) and"
        text = ORPHANED.format(chosen=chosen)
        rows = await self.database.fetch(text, {"agents": agent_ids})
        return [Attachment(*row) for row in rows]


async def collections_of(
    database: Database, query: str, values: dict[str, object]
) -> list[Collection]:
    """The collections that a query returns."""
    rows = await database.fetch(query, values)
    return [
        Collection(archive_id, config_of(config), () if before is None else (config_of(before),))
        for archive_id, config, before in rows
    ]


def config_of(text: str | None) -> EmbeddingConfig | None:
    """The embedding config that a document has."""
    return EmbeddingConfig.model_validate_json(text) if text and text != "null" else None


class PassageCounts:
    """Counts of the archives that something was put into of late, by this process."""

    def __init__(self, archives: ArchiveQueries, clock: Clock) -> None:
        self.archives = archives
        self.clock = clock
        self.known: OrderedDict[str, tuple[int, float]] = OrderedDict()

    async def passages_of(self, org: str, archive_id: str) -> int:
        """About how many passages an archive has."""
        count, counted_at = self.known.get(archive_id, (0, None))
        now = self.clock.monotonic()
        if counted_at is None or now - counted_at > COUNTED_AGAIN_SECONDS:
            count, counted_at = await self.archives.passage_count(org, archive_id), now
            self.known[archive_id] = (count, counted_at)
            if len(self.known) > COUNTS_MAX:
                self.known.popitem(last=False)
        return count

    def count_inserted(self, archive_id: str, passages: int) -> None:
        """Add this number of passages to the known count of an archive."""
        known = self.known.get(archive_id)
        if known:
            self.known[archive_id] = (known[0] + passages, known[1])
