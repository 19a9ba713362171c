"""Runs by their conversation, and conversations by their runs, from the views of the agent
service."""

from __future__ import annotations

from libs.eventstore.connection_pool import DatabaseQueries

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


class ConversationRunQueries(DatabaseQueries):
    """Reads which runs are in which conversations."""

    async def conversation_of_run(self, org: str, run_id: str) -> str | None:
        """The conversation that a run is in; None for a run that is not there."""
        return await self.value(
            "select conversation_id from agent.run_view where id = %s and org = %s", [run_id, org]
        )

    async def run_of_otid(
        self, org: str, conversation_id: str, otid: str, named: str
    ) -> str | None:
        """The run of a conversation that was started with a message of this otid: the one that is
        `named` after it, or that of one of the last messages."""
        return await self.value(
            RUN_OF_OTID,
            {
                "named": named,
                "conversation": conversation_id,
                "org": org,
                "otid": otid,
                "limit": OTID_MESSAGES_MAX,
            },
        )

    async def active_run(self, org: str, conversation_id: str) -> str | None:
        """The newest run of a conversation that has not ended."""
        return await self.value(
            "select id from agent.run_view where conversation_id = %s and org = %s"
            " and status in ('created', 'running')"
            ' order by created_at desc, id collate "C" desc limit 1',
            [conversation_id, org],
        )

    async def conversations_with_runs(self, org: str, agent_id: str, limit: int) -> list[str]:
        """The conversations of an agent's newest runs that have not ended, of so many runs."""
        return await self.column(
            "select distinct conversation_id from ("
            " select conversation_id from agent.run_view where agent_id = %s and org = %s"
            " and status in ('created', 'running')"
            ' order by created_at desc, id collate "C" desc limit %s) newest',
            [agent_id, org, limit],
        )

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
