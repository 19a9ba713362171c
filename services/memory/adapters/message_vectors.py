"""Messages by their meaning: what is not embedded yet, what is nearest to a query, what is left to
do. The messages are read from the view that the agent service publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.memory.semantic_message_search import EMBEDDED_ROLES
from libs.embeddings.ports import Vector
from libs.embeddings.vector_encoding import halfvec
from libs.eventstore.connection_pool import Database
from services.memory.adapters.half_vectors import half_vector

# Of a history so many of its newest messages are embedded when it is searched; of what is older
# only what was embedded while it was new enough.
NEWEST_MESSAGES_MAX = 10_000
CONVERSATIONS_MAX = 1_000
# A search compares the newest so many vectors, one by one.
VECTORS_COMPARED_MAX = 50_000
TEXT_CHARS_MAX = 8_192
BACKLOG_OF_ORG_MAX = 1_000
ORGANISATIONS_AT_ONCE = 100
FORGOTTEN_AT_ONCE = 20
VECTORS_REMOVED_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class MessageScope:
    """The scope of messages: of an organisation, of one agent of it, or of one conversation."""

    org: str
    agent_id: str = ""
    conversation_id: str = ""


@dataclass(frozen=True, slots=True)
class Backlog:
    """A history that was searched and is not embedded yet."""

    scope: MessageScope
    asked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestQuery:
    """Which messages of a scope; `after` and `before` are among what is found. Nothing that is
    further than `similarity_min` (a cosine) from the query is found."""

    scope: MessageScope
    model: str
    vector: Vector = field(repr=False)
    roles: Sequence[str] = EMBEDDED_ROLES
    project_id: str = ""
    template_id: str = ""
    after: datetime | None = None
    before: datetime | None = None
    similarity_min: float = 0.0
    limit: int = 10


class MessageVectors(Protocol):
    """The queries and writes of the search for messages by meaning."""

    async def unembedded_messages(
        self, scope: MessageScope, model: str, limit: int
    ) -> list[tuple[str, str]]:
        """The newest messages of a scope that have no vector of a model, as ids and texts."""

    async def keep(self, scope: MessageScope, model: str, vectors: Mapping[str, Vector]) -> None:
        """Keep the vectors of these messages, of those that are still there. Safe to repeat."""

    async def nearest(self, query: NearestQuery) -> list[tuple[str, float]]:
        """The messages that are nearest, as ids and similarities, the nearest first."""

    async def put_off(self, scope: MessageScope) -> None:
        """Remember that a history is not embedded yet, unless too many of the organisation are."""

    async def backlog(self) -> list[Backlog]:
        """Of each organisation the history that has waited longest."""

    async def worked_on(self, backlog: Backlog, *, done: bool) -> None:
        """Note an attempt at a history: `done` takes it off the backlog unless it was asked for
        again since, otherwise other histories go first."""

    async def forget(self, org: str, conversation_id: str) -> None:
        """Have the vectors of a deleted conversation removed. Safe to repeat."""

    async def remove_forgotten(self, settled_seconds: float) -> bool:
        """Remove a bounded number of vectors of deleted conversations; whether any was removed.
        One that has none any more is remembered for so long, for what was embedded meanwhile."""


# The newest of each conversation, and of these the newest. The words of one are read only when it
# is known that they are wanted.
OF_AGENT = """
select m.id, m.created_at, m.conversation_id, m.position from (
    select %(main)s::text as id union all
    (select id from agent.conversation_view where agent_id = %(agent)s and org = %(org)s
     order by created_at desc limit {conversations})) c
cross join lateral (
    select id, created_at, conversation_id, position from agent.message_text_view
    where conversation_id = c.id and org = %(org)s and role = any(%(roles)s) and text <> ''
    order by position desc limit {newest}) m"""

OF_CONVERSATION = """
select id, created_at, conversation_id, position from agent.message_text_view
where conversation_id = %(conversation)s and org = %(org)s and role = any(%(roles)s) and text <> ''
  and (%(agent)s = '' or agent_id = %(agent)s)
order by position desc limit {newest}"""

OF_ORGANISATION = """
select id, created_at, conversation_id, position from agent.message_text_view
where org collate "C" = %(org)s and role = any(%(roles)s) and text <> ''
order by created_at desc, conversation_id collate "C" desc, position desc limit {newest}"""

UNEMBEDDED = """
select w.id, w.text from (
    select m.id, m.created_at, m.position from ({source}) m
    where not coalesce((select v.model = %(model)s from memory.message_vectors v
                        where v.message_id = m.id limit 1), false)
    order by m.created_at desc, m.position desc limit %(limit)s) few
cross join lateral (
    select id, left(text, {chars}) as text from agent.message_text_view
    where id = few.id and org = %(org)s limit 1) w
order by few.created_at desc, few.position desc"""

KEEP = """
insert into memory.message_vectors
    (message_id, org, agent_id, conversation_id, role, created_at, model, embedding)
select m.id, m.org, m.agent_id, m.conversation_id, m.role, m.created_at, %(model)s,
       given.embedding::halfvec
from unnest(%(ids)s::text[], %(embeddings)s::text[]) as given(id, embedding)
cross join lateral (
    select id, org, agent_id, conversation_id, role, created_at from agent.message_text_view
    where id = given.id and org = %(org)s limit 1) m
on conflict (message_id) do update set model = excluded.model, embedding = excluded.embedding
where message_vectors.model <> excluded.model"""

NEAREST = """
select message_id, -distance from (
    select message_id, embedding <#> %(vector)s::halfvec as distance from (
        select v.message_id, v.embedding from memory.message_vectors v
        where {filters} and v.model = %(model)s and vector_dims(v.embedding) = {dimensions}
        order by v.created_at desc limit {compared}) newest
    order by distance, message_id limit %(limit)s) nearest
where -distance >= %(similarity_min)s order by distance, message_id"""

PUT_OFF = """
insert into memory.message_backlog (org, agent_id, conversation_id, asked_at, worked_at)
select %(org)s, %(agent)s, %(conversation)s, clock_timestamp(), clock_timestamp()
where (select count(*) from (select from memory.message_backlog
       where org = %(org)s limit {most}) few) < {most}
on conflict (org, agent_id, conversation_id) do update set asked_at = excluded.asked_at"""

BACKLOG = """
select org, agent_id, conversation_id, asked_at from (
    select distinct on (org) org, agent_id, conversation_id, asked_at, worked_at
    from memory.message_backlog order by org, worked_at) longest
order by worked_at limit {organisations}"""

SAME = "org = %(org)s and agent_id = %(agent)s and conversation_id = %(conversation)s"
DONE = f"delete from memory.message_backlog where {SAME} and asked_at = %(asked_at)s"
LATER = f"update memory.message_backlog set worked_at = clock_timestamp() where {SAME}"

FORGET = """
insert into memory.forgotten_conversations (conversation_id, org, deleted_at)
values (%s, %s, clock_timestamp()) on conflict (conversation_id) do nothing"""

REMOVE = """
delete from memory.message_vectors where message_id in (
    select v.message_id from (
        select conversation_id from memory.forgotten_conversations
        order by deleted_at limit {conversations}) f
    cross join lateral (select message_id from memory.message_vectors
                        where conversation_id = f.conversation_id limit {vectors}) v
    limit {vectors})
returning true"""

SETTLED = """
delete from memory.forgotten_conversations where conversation_id in (
    select conversation_id from memory.forgotten_conversations
    where deleted_at < clock_timestamp() - make_interval(secs => %s)
    order by deleted_at limit {conversations})"""


class PostgresMessageVectors:
    """Keeps the contract of `MessageVectors`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def unembedded_messages(
        self, scope: MessageScope, model: str, limit: int
    ) -> list[tuple[str, str]]:
        source = OF_ORGANISATION
        if scope.agent_id:
            source = OF_AGENT
        if scope.conversation_id:
            source = OF_CONVERSATION
        sql = UNEMBEDDED.format(
            source=source.format(newest=NEWEST_MESSAGES_MAX, conversations=CONVERSATIONS_MAX),
            chars=TEXT_CHARS_MAX,
        )
        values = {
            **names_of(scope),
            "main": main_conversation(scope.agent_id),
            "roles": [*EMBEDDED_ROLES],
            "model": model,
            "limit": limit,
        }
        return [(row[0], row[1]) for row in await self.database.fetch(sql, values)]

    async def keep(self, scope: MessageScope, model: str, vectors: Mapping[str, Vector]) -> None:
        embeddings = [halfvec(vector) for vector in vectors.values()]
        values = {"org": scope.org, "model": model, "ids": [*vectors], "embeddings": embeddings}
        await self.database.fetch(KEEP, values)

    async def nearest(self, query: NearestQuery) -> list[tuple[str, float]]:
        filters, values = filters_of(query)
        sql = NEAREST.format(
            filters=filters, dimensions=len(query.vector), compared=VECTORS_COMPARED_MAX
        )
        values |= {
            "vector": half_vector(query.vector),
            "model": query.model,
            "similarity_min": query.similarity_min,
            "limit": query.limit,
        }
        return [(row[0], row[1]) for row in await self.database.fetch(sql, values)]

    async def put_off(self, scope: MessageScope) -> None:
        await self.database.fetch(PUT_OFF.format(most=BACKLOG_OF_ORG_MAX), names_of(scope))

    async def backlog(self) -> list[Backlog]:
        if not await self.database.any_row("memory.message_backlog"):
            return []
        rows = await self.database.fetch(BACKLOG.format(organisations=ORGANISATIONS_AT_ONCE), {})
        return [Backlog(MessageScope(*row[:3]), row[3]) for row in rows]

    async def worked_on(self, backlog: Backlog, *, done: bool) -> None:
        values = {**names_of(backlog.scope), "asked_at": backlog.asked_at}
        if done:
            await self.database.fetch(DONE, values)
        else:
            await self.database.fetch(LATER, values)

    async def forget(self, org: str, conversation_id: str) -> None:
        await self.database.fetch(FORGET, [conversation_id, org])

    async def remove_forgotten(self, settled_seconds: float) -> bool:
        if not await self.database.any_row("memory.forgotten_conversations"):
            return False
        removal = REMOVE.format(conversations=FORGOTTEN_AT_ONCE, vectors=VECTORS_REMOVED_AT_ONCE)
        if await self.database.fetch(removal, {}):
            return True
        await self.database.fetch(
            SETTLED.format(conversations=FORGOTTEN_AT_ONCE), [settled_seconds]
        )
        return False


def names_of(scope: MessageScope) -> dict[str, Any]:
    """The parameters that name a scope."""
    return {
        "org": scope.org,
        "agent": scope.agent_id,
        "conversation": scope.conversation_id,
    }


def filters_of(query: NearestQuery) -> tuple[str, dict[str, Any]]:
    """The condition of everything that is found, and its parameters. An organisation's vectors are
    read in the order of an index of their own where nothing narrower is named."""
    scope = query.scope
    values = names_of(scope)
    narrow = scope.agent_id or scope.conversation_id
    conditions = ["v.org = %(org)s" if narrow else 'v.org collate "C" = %(org)s']
    if scope.agent_id:
        conditions.append("v.agent_id = %(agent)s")
    if scope.conversation_id:
        conditions.append("v.conversation_id = %(conversation)s")
    conditions.append("v.role = any(%(roles)s)")
    values["roles"] = [*query.roles]
    for name, condition, value in (
        ("after", "v.created_at >= %(after)s", query.after),
        ("before", "v.created_at <= %(before)s", query.before),
        ("project_id", of_agents("project_id"), query.project_id),
        ("template_id", of_agents("template_id"), query.template_id),
    ):
        if value:
            conditions.append(condition)
            values[name] = value
    return " and ".join(conditions), values


def of_agents(field_name: str) -> str:
    """The condition that a message's agent was made from something."""
    agent = "from agent.agent_view a where a.id = v.agent_id and a.org = v.org"
    return f"%({field_name})s = (select a.fields->>'{field_name}' {agent})"
