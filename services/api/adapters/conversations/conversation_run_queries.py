"""Runs by their conversation, and conversations by their runs, from the views of the agent
service."""

from __future__ import annotations

from libs.eventstore.connection_pool import Database

# How many of a conversation's last messages are looked at for an otid.
OTID_MESSAGES_MAX = 1_000
RUN_OF_OTID = """
select id from agent.run_view
where id = %(named)s and conversation_id = %(conversation)s and org = %(org)s
union all
(select run_id from (
    select run_id, v1_messages, sent, position from agent.message_view
    where conversation_id = %(conversation)s and org = %(org)s
    order by position desc limit %(limit)s) newest
 where sent and run_id is not null and v1_messages->0->>'otid' = %(otid)s
 order by position desc limit 1)
limit 1"""


class ConversationRunQueries:
    """Reads which runs are in which conversations."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def conversation_of_run(self, org: str, run_id: str) -> str | None:
        """The conversation that a run is in; None for a run that is not there."""
        row = await self.database.fetch_one(
            "select conversation_id from agent.run_view where id = %s and org = %s", [run_id, org]
        )
        return row[0] if row else None

    async def run_of_otid(
        self, org: str, conversation_id: str, otid: str, named: str
    ) -> str | None:
        """The run of a conversation that was started with a message of this otid: the one that is
        `named` after it, or that of one of the last messages."""
        row = await self.database.fetch_one(
            RUN_OF_OTID,
            {
                "named": named,
                "conversation": conversation_id,
                "org": org,
                "otid": otid,
                "limit": OTID_MESSAGES_MAX,
            },
        )
        return row[0] if row else None

    async def active_run(self, org: str, conversation_id: str) -> str | None:
        """The newest run of a conversation that has not ended."""
        row = await self.database.fetch_one(
            "select id from agent.run_view where conversation_id = %s and org = %s"
            " and status in ('created', 'running')"
            ' order by created_at desc, id collate "C" desc limit 1',
            [conversation_id, org],
        )
        return row[0] if row else None

    async def conversations_with_runs(self, org: str, agent_id: str, limit: int) -> list[str]:
        """The conversations of an agent's newest runs that have not ended, of so many runs."""
        rows = await self.database.fetch(
            "select distinct conversation_id from ("
            " select conversation_id from agent.run_view where agent_id = %s and org = %s"
            " and status in ('created', 'running')"
            ' order by created_at desc, id collate "C" desc limit %s) newest',
            [agent_id, org, limit],
        )
        return [conversation_id for (conversation_id,) in rows]

    async def conversations_of_runs(
        self, org: str, agent_id: str, run_ids: list[str]
    ) -> dict[str, str]:
        """The conversations that runs of an agent are in, by the ids of the runs."""
        rows = await self.database.fetch(
            "select id, conversation_id from agent.run_view"
            " where id = any(%s) and agent_id = %s and org = %s",
            [run_ids, agent_id, org],
        )
        return dict(rows)
