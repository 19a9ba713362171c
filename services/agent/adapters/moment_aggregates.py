"""Which aggregates of the agent service are an agent's, at a commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from libs.contracts.agent.conversations import main_conversation
from libs.eventstore.connection_pool import Database
from libs.eventstore.moments import Copies, WantedMoment

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

# By the index of rare topics.
NOT_DELETED = """not exists (
    select from agent.events d
    where d.aggregate_id = %(id)s and d.version <= %(last)s
      and d.topic collate "C" = 'conversation.deleted' and d.topic collate "C" not in (
        'message.appended', 'run.accepted', 'run.started', 'run.completed', 'model.replied'))"""
# A message is in its row as it was said, but for the system's, which is compiled anew, and for what
# was deleted since: those, and what was shown to models, the replay of the other events says.
COPY_MESSAGES = f"""
insert into agent_as_of.messages_rows (
    as_of, id, org, agent_id, conversation_id, position, run_id, step_id, role, created_at, sent,
    in_context, text, v1_messages, number, chunks, plain_v1_messages, recorded_at)
select %(as_of)s, m.id, m.org, m.agent_id, m.conversation_id, m.position, m.run_id, m.step_id,
       m.role, m.created_at, m.sent,
       coalesce((e.payload->>'in_context')::boolean, true) and m.role <> 'approval', m.text,
       m.v1_messages, m.number, m.chunks, m.plain_v1_messages, m.recorded_at
from agent.messages m cross join lateral (
    select payload from agent.events e
    where e.aggregate_id = m.conversation_id and e.version = m.position
      and e.topic = 'message.appended' and not e.metadata ? 'erased' offset 0) e
where m.conversation_id = %(id)s and m.position > %(after)s and m.position <= %(upto)s
  and m.org = %(org)s and m.role not in ('system', 'summary') and {NOT_DELETED}
on conflict do nothing"""
# A run that had ended by then is in its row as it ended; but for its callback, which comes later.
# The newest says when the conversation was spoken in last: it is replayed.
COPY_RUNS = f"""
insert into agent_as_of.runs_rows (
    as_of, id, org, agent_id, conversation_id, created_at, status, stop_reason, background,
    stream_tokens, request_hash, error, usage, fields)
select %(as_of)s, r.id, r.org, r.agent_id, r.conversation_id, r.created_at, r.status,
       r.stop_reason, r.background, r.stream_tokens, r.request_hash, r.error, r.usage, r.fields
from agent.events e cross join lateral (
    select * from agent.runs where id = e.about and conversation_id = %(id)s offset 0) r
where e.aggregate_id = %(id)s and e.version > %(after)s and e.version <= %(upto)s
  and e.org = %(org)s and e.topic in ('run.completed', 'run.failed', 'run.cancelled')
  and r.org = %(org)s and r.stop_reason is not null and r.fields->>'callback_url' is null
  and e.about <> (
    select newest.about from agent.events newest
    where newest.aggregate_id = %(id)s and newest.topic = 'run.accepted'
      and newest.version <= %(last)s order by newest.version desc limit 1)
  and {NOT_DELETED}
on conflict do nothing"""
COPIES = Copies(
    (COPY_MESSAGES, COPY_RUNS),
    """
    e.topic = 'message.appended' and exists (
        select from agent_as_of.messages_rows c
        where c.as_of = %(as_of)s and c.conversation_id = e.aggregate_id and c.position = e.version)
    or e.topic in ('run.accepted', 'run.started', 'run.completed', 'run.failed', 'run.cancelled')
    and exists (
        select from agent_as_of.runs_rows c
        where c.as_of = %(as_of)s and c.id = e.about and c.stop_reason is not null)""",
)


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
