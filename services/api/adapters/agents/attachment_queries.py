"""Queries of the api's handlers about attachments and the things to attach."""

from __future__ import annotations

from collections.abc import Sequence

from libs.eventstore.connection_pool import DatabaseQueries

MISSING = """
select wanted.id from unnest(%(ids)s::text[]) as wanted(id)
where not exists (select from agent.agent_view a where a.id = wanted.id and a.org = %(org)s)
  and not exists (select from memory.block_view b where b.id = wanted.id and b.org = %(org)s)
limit 1"""
MISSING_IDENTITY = """
select wanted.id from unnest(%(ids)s::text[]) as wanted(id)
where not exists (select from api.identity_view i where i.id = wanted.id and i.org = %(org)s)
limit 1"""


class AttachmentQueries(DatabaseQueries):
    """The queries about attachments."""

    async def first_missing(self, org: str, target_ids: Sequence[str]) -> str | None:
        """The first of these agents and blocks that an organisation does not have."""
        if not target_ids:
            return None
        return await self.value(MISSING, {"ids": list(target_ids), "org": org})

    async def first_missing_identity(self, org: str, identity_ids: Sequence[str]) -> str | None:
        """The first of these identities that an organisation does not have."""
        if not identity_ids:
            return None
        return await self.value(MISSING_IDENTITY, {"ids": list(identity_ids), "org": org})

    async def identities_of(self, org: str, target_id: str) -> list[str]:
        """The ids of the identities that an agent or a block has."""
        return await self.column(
            "select identity_id from api.identity_attachment_view"
            " where target_id = %s and org = %s",
            [target_id, org],
        )

    async def targets_of(self, org: str, identity_id: str, prefix: str, limit: int) -> list[str]:
        """The ids of some agents or blocks, as the prefix says, that an identity has."""
        return await self.column(
            "select target_id from api.attachments where owner_id = %s and org = %s"
            " and starts_with(target_id, %s) order by target_id limit %s",
            [identity_id, org, prefix, limit],
        )

    async def count_identities(self, org: str) -> int:
        """The number of identities of an organisation."""
        return await self.number(
            'select count(*) from api.identities where org collate "C" = %s', [org]
        )
