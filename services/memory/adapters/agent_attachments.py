"""Which blocks and folders are attached to which agents: read from the view that the agent service
publishes, beside the rows of folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from libs.eventstore.connection_pool import Database
from services.memory.domain.block import SameLabel

AGENTS_WITH_FOLDER = """
select seeing.agent_id, a.files_max
from (select agent_id, created_at from memory.agent_folders
      where folder_id = %(folder)s and org = %(org)s
      order by created_at, agent_id limit %(limit)s) seeing
cross join lateral (
    select org, files_max from agent.agent_view where id = seeing.agent_id limit 1) a
where a.org = %(org)s order by seeing.created_at, seeing.agent_id"""

LOST_FOLDERS = """
select a.agent_id, a.folder_id, a.org, exists (
    select from agent.agent_view g where g.id = a.agent_id and g.org = a.org) and not exists (
    select from memory.agent_folders o join memory.folders f on f.id = o.folder_id
    where o.agent_id = a.agent_id and o.org = a.org and o.folder_id <> a.folder_id)
from memory.agent_folders a
where not exists (select from memory.folders f where f.id = a.folder_id)
   or not exists (select from agent.agent_view g where g.id = a.agent_id and g.org = a.org)
order by a.created_at, a.id limit %(limit)s"""

LOST_FILES = """
select o.agent_id, o.org, array_agg(o.file_id order by o.file_id)
from memory.open_files o where not exists (select from memory.files f where f.id = o.file_id)
group by o.agent_id, o.org order by o.agent_id limit %(limit)s"""


@dataclass(frozen=True, slots=True)
class AttachedAgent:
    """An agent that a folder is attached to, and how many files it may have open."""

    agent_id: str
    files_max: int


@dataclass(frozen=True, slots=True)
class LostFolder:
    """A folder that an agent has, although one of the two is gone. `last` says whether the agent is
    there and sees no other folder."""

    agent_id: str
    folder_id: str
    org: str
    last: bool


@dataclass(frozen=True, slots=True)
class LostFiles:
    """Files that an agent has open, although they are gone."""

    agent_id: str
    org: str
    file_ids: list[str]


class AgentAttachments(Protocol):
    """Which blocks and folders are attached to whom."""

    async def blocks_without_holder(self, org: str, block_ids: list[str]) -> list[str]:
        """Of these blocks those that no agent of the organisation sees."""

    async def same_label(self, org: str, block_id: str, label: str) -> SameLabel | None:
        """An agent of the organisation that the block is attached to and that has another block
        of this label."""

    async def agent_exists(self, org: str, agent_id: str) -> bool:
        """Whether the organisation has this agent."""

    async def has_folders(self, org: str, agent_id: str) -> bool:
        """Whether an agent sees a folder."""

    async def agents_with_folder(self, org: str, folder_id: str, limit: int) -> list[AttachedAgent]:
        """The first agents that see a folder, by the time since they do."""

    async def lost_folders(self, limit: int) -> list[LostFolder]:
        """Folders of agents where the folder or the agent is gone."""

    async def lost_files(self, limit: int) -> list[LostFiles]:
        """Files that agents have open although they are gone, for so many agents."""


class PostgresAgentAttachments:
    """Keeps the contract of `AgentAttachments`, from the published view."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def blocks_without_holder(self, org: str, block_ids: list[str]) -> list[str]:
        rows = await self.database.fetch(
            "select b.id from unnest(%s::text[]) as b(id)"
            " where not exists (select from agent.agent_view a"
            " where a.block_ids @> array[b.id] and a.org = %s)",
            [block_ids, org],
        )
        return [block_id for (block_id,) in rows]

    async def same_label(self, org: str, block_id: str, label: str) -> SameLabel | None:
        row = await self.database.fetch_one(
            "select a.id, b.id from agent.agent_view a, unnest(a.block_ids) as attached(id)"
            " cross join lateral (select id, label from memory.blocks"
            " where id = attached.id limit 1) b where a.block_ids @> array[%(block)s]"
            " and b.id <> %(block)s and b.label = %(label)s and a.org = %(org)s limit 1",
            {"org": org, "block": block_id, "label": label},
        )
        return SameLabel(*row) if row else None

    async def agent_exists(self, org: str, agent_id: str) -> bool:
        row = await self.database.fetch_one(
            "select true from agent.agent_view where id = %s and org = %s", [agent_id, org]
        )
        return row is not None

    async def has_folders(self, org: str, agent_id: str) -> bool:
        row = await self.database.fetch_one(
            "select true from memory.agent_folders a where a.agent_id = %s and a.org = %s"
            " and exists (select from memory.folders f where f.id = a.folder_id) limit 1",
            [agent_id, org],
        )
        return row is not None

    async def agents_with_folder(self, org: str, folder_id: str, limit: int) -> list[AttachedAgent]:
        rows = await self.database.fetch(
            AGENTS_WITH_FOLDER, {"org": org, "folder": folder_id, "limit": limit}
        )
        return [AttachedAgent(*row) for row in rows]

    async def lost_folders(self, limit: int) -> list[LostFolder]:
        rows = await self.database.fetch(LOST_FOLDERS, {"limit": limit})
        return [LostFolder(*row) for row in rows]

    async def lost_files(self, limit: int) -> list[LostFiles]:
        return [LostFiles(*row) for row in await self.database.fetch(LOST_FILES, {"limit": limit})]
