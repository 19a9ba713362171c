"""Which messages the transcripts of groups have."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database


class GroupMessageQueries(Protocol):
    """What is read of transcripts."""

    async def has_message(self, org: str, group_id: str, message_id: str) -> bool:
        """Whether a message is in the transcript of a group."""


class PostgresGroupMessageQueries:
    """Keeps the contract of `GroupMessageQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def has_message(self, org: str, group_id: str, message_id: str) -> bool:
        row = await self.database.fetch_one(
            "select 1 from groups.group_messages where id = %s and group_id = %s and org = %s",
            [message_id, group_id, org],
        )
        return row is not None
