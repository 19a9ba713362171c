"""Queries about messages that models are shown, from a view of the agent service."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from pydantic_core import from_json

from libs.eventstore.connection_pool import DatabaseQueries

# In the order in which models are shown it: a summary is recorded later than what follows it, and
# stands behind the first message, which is the system's.
IN_CONTEXT = """
select v.id, v.role, v.created_at, v.run_id, v.step_id, v.v1_messages::text
from agent.message_view v
where v.conversation_id = %(conversation)s and v.agent_id = %(agent)s and v.org = %(org)s
  and v.in_context
order by v.position"""
COUNT = (
    "select v.messages from agent.counted_message_view v"
    " where v.conversation_id = %s and v.agent_id = %s and v.org = %s order by v.position limit 1"
)


@dataclass(frozen=True)
class ShownMessage:
    """One message that models are shown, and the V1 messages that it is served as, `written` as
    JSON: they may be long, and are read where that holds nobody up."""

    id: str
    role: str
    created_at: datetime
    run_id: str | None
    step_id: str | None
    written: str

    @cached_property
    def v1_messages(self) -> list[dict[str, Any]]:
        """The V1 messages that it is served as."""
        found: list[dict[str, Any]] = from_json(self.written)
        return found


class ContextMessageQueries(DatabaseQueries):
    """Reads what models are shown."""

    async def in_context(self, org: str, agent_id: str, conversation_id: str) -> list[ShownMessage]:
        """The messages that models are shown of a conversation, as they are shown them."""
        rows = await self.database.fetch(
            IN_CONTEXT, {"conversation": conversation_id, "agent": agent_id, "org": org}
        )
        shown = [ShownMessage(*row) for row in rows]
        return [
            *shown[:1],
            *(message for message in shown[1:] if message.role == "summary"),
            *(message for message in shown[1:] if message.role != "summary"),
        ]

    async def message_count(self, org: str, agent_id: str, conversation_id: str) -> int:
        """The number of messages of a conversation, shown or not."""
        return await self.number(COUNT, [conversation_id, agent_id, org])
