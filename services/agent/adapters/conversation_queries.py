"""Conversations of agents: what is copied for one, those whose agent is gone, and those that
wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from libs.contracts.agent.conversations import Message
from libs.contracts.letta.blocks import BlockState
from libs.eventstore.connection_pool import DatabaseQueries
from services.agent.adapters.reconciliation_queries import SWEPT_MAX

# The conversations of some agents, or of all, whose agent is not there. That a name is looked at
# keeps the plan to the key of the agent: the index of pages has its id and its organisation too.
LOST_CONVERSATIONS = """
select c.id, c.org from agent.conversations c
where {chosen} (
    select a.org || left(a.name, 0) from agent.agents a where a.id = c.agent_id
) is distinct from c.org
limit %(limit)s"""


# As they were recorded: the rows have what clients are shown.
# With the results behind a call that clients do not see: of `send_message`, which are no rows.
RECORDED_MESSAGES = """
select e.message from agent.messages m cross join lateral (
    select payload->>'message' as message, version from agent.events
    where aggregate_id = m.conversation_id and version >= m.position and version < (
        select coalesce(min(n.position), m.position + %(behind)s) from agent.messages n
        where n.conversation_id = m.conversation_id and n.position > m.position
            and n.position <= m.position + %(behind)s)
    and (version = m.position
        or topic = 'message.appended' and (payload->'message'->>'hidden')::boolean) offset 0) e
where m.id = any(%(messages)s) and m.conversation_id = %(conversation)s and m.org = %(org)s
order by m.position, e.version"""
# How far behind its call such a result is looked for: more than the events of one step.
BEHIND_MAX = 500
APPROVALS_SEEN_MAX = PAUSES_SEEN_MAX = 1_000


@dataclass(frozen=True, slots=True)
class LostConversation:
    """A conversation whose agent is gone."""

    id: str
    org: str


@dataclass(frozen=True, slots=True)
class WaitingApproval:
    """A conversation that waits for its client, since when, and for how long at most."""

    conversation_id: str
    org: str
    requested_at: datetime
    seconds: float

    @property
    def until(self) -> datetime:
        """When the deadline passes, as the clock says of the process that asked."""
        return self.requested_at + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class PausedConversation:
    """A conversation whose agent pauses, for so many minutes and until when, as the clock said of
    the process that recorded it."""

    conversation_id: str
    org: str
    agent_id: str
    minutes: int
    until: datetime

    @property
    def seconds(self) -> float:
        """The length of the pause, in seconds."""
        return self.minutes * 60.0


class ConversationQueries(DatabaseQueries):
    """The queries of handlers and policies about conversations."""

    async def block_states(self, org: str, block_ids: list[str]) -> list[BlockState]:
        """Those of these blocks that are there, in this order, whole."""
        rows = await self.database.fetch(
            "select b.document from unnest(%s::text[]) with ordinality as wanted(id, place)"
            " cross join lateral"
            " (select org, document from memory.block_view where id = wanted.id limit 1) b"
            " where b.org = %s order by wanted.place",
            [block_ids, org],
        )
        return [BlockState.model_validate_json(document) for (document,) in rows]

    async def isolated_blocks(self, org: str, conversation_id: str) -> dict[str, str]:
        """The copies that stand in a conversation for blocks of its agent, by these."""
        row = await self.database.fetch_one(
            "select isolated_blocks from agent.conversations where id = %s and org = %s",
            [conversation_id, org],
        )
        return row[0] if row else {}

    async def conversations_of(self, org: str, agent_id: str, limit: int) -> list[str]:
        """Conversations of an agent beside its own, so many at most."""
        rows = await self.database.fetch(
            "select id from agent.conversations where agent_id = %s and org = %s"
            " order by created_at limit %s",
            [agent_id, org, limit],
        )
        return [conversation_id for (conversation_id,) in rows]

    async def lost_conversations(self, agent_ids: list[str] | None) -> list[LostConversation]:
        """Conversations of these agents, or of any, whose agent is gone; `SWEPT_MAX` at most."""
        chosen = "" if agent_ids is None else "c.agent_id = any(%(agents)s) and"
        rows = await self.database.fetch(
            LOST_CONVERSATIONS.format(chosen=chosen), {"agents": agent_ids, "limit": SWEPT_MAX}
        )
        return [LostConversation(*row) for row in rows]

    async def recorded_messages(
        self, org: str, conversation_id: str, message_ids: list[str]
    ) -> list[Message]:
        """Those of these messages that clients see in a conversation, as and in the order in which
        they were recorded, each with the hidden results behind it."""
        wanted = {
            **{"messages": message_ids, "conversation": conversation_id, "org": org},
            "behind": BEHIND_MAX,
        }
        rows = await self.database.fetch(RECORDED_MESSAGES, wanted)
        return [Message.model_validate_json(message) for (message,) in rows]

    async def waiting_approvals(self, seconds_max: float) -> list[WaitingApproval]:
        """Those that have waited longest, `APPROVALS_SEEN_MAX` at most, with the time that each may
        wait."""
        if not await self.database.any_row("agent.approvals"):
            return []
        rows = await self.database.fetch(
            "select conversation_id, org, requested_at from agent.approvals p"
            " where exists (select from agent.agents a where a.id = p.agent_id)"
            " order by requested_at limit %s",
            [APPROVALS_SEEN_MAX],
        )
        return [WaitingApproval(id, org, since, seconds_max) for id, org, since in rows]

    async def paused_conversations(self) -> list[PausedConversation]:
        """Those whose pause ends first, `PAUSES_SEEN_MAX` at most."""
        if not await self.database.any_row("agent.heartbeat_pauses"):
            return []
        rows = await self.database.fetch(
            "select conversation_id, org, agent_id, minutes, until from agent.heartbeat_pauses p"
            " where exists (select from agent.agents a where a.id = p.agent_id)"
            " order by until limit %s",
            [PAUSES_SEEN_MAX],
        )
        return [PausedConversation(*row) for row in rows]
