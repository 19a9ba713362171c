"""Which aggregates of the agent service are an agent's, at a commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from libs.contracts.agent.conversations import main_conversation
from libs.eventstore.connection_pool import Database
from libs.eventstore.moments import WantedMoment

# Events that change no row of a moment: steps and calls, which are most of a long history.
SKIPPED_TOPICS = (
    *("model.replied", "tool_call.started", "tool_calls.started", "tool_call.finished"),
    *("tool_call.refused", "tool_call.forbidden", "tool_call.interrupted", "tool_call.returned"),
)
# Those that were deleted by then have no rows.
CONVERSATIONS = """
select e.aggregate_id from agent.events e
where e.topic = 'conversation.created' and e.payload->'config'->>'agent_id' = %(agent)s
  and e.payload->'config'->>'agent_id' <> '' and e.org = %(org)s and e.commit_order <= %(cut)s
  and not exists (
    select from agent.events gone
    where gone.aggregate_id = e.aggregate_id and gone.topic = 'conversation.deleted'
      and gone.commit_order <= %(cut)s)
order by e.position"""


class AgentMomentAggregates:
    """The agent and its conversations."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def stages(
        self, wanted: WantedMoment, ids: Sequence[str], as_of: int
    ) -> AsyncIterator[Sequence[str]]:
        """First those that every agent has, then its further conversations."""
        yield [wanted.agent_id, main_conversation(wanted.agent_id)]
        yield [name for (name,) in await self.database.fetch(CONVERSATIONS, wanted.values)]
