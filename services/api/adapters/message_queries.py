"""The history of a conversation or of a run, from the view that the agent service publishes.

Messages are no `Resource`: one row is served as several V1 messages, and a page of a conversation
is shown oldest first whatever its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from libs.eventstore.connection_pool import Database
from services.api.adapters.resource_query_builder import ALL_OF_ORG, Filter, Slice, UnknownCursor

# The V1 messages of a row that are of the wanted types.
OF_TYPES = (
    "from json_array_elements({docs}) doc where doc->>'message_type' = any(%(types)s::text[])"
)


@dataclass(frozen=True, slots=True)
class History:
    """Which messages: those of one conversation of an agent, with `types` only messages of these
    types, and only as these types. Summaries are shown as words of the user, unless they are
    wanted `structured`."""

    org: str
    agent_id: str
    conversation_id: str
    types: Sequence[str] | None = None
    structured_summaries: bool = False
    # Whether a page comes in its order, and `after` counts in it; else both count in time.
    ordered: bool = False


# Of a conversation any message of its agent is a cursor, of a run only its own.
OF_AGENT = "select position from agent.message_view where id = %s and agent_id = %s and org = %s"
OF_CONVERSATION = (
    "select position from agent.message_view where id = %s and conversation_id = %s and org = %s"
)
# Summaries as words of the user.
PLAIN = "coalesce(v.plain_docs, v.docs)"
PLACE = 'v.created_at, v.conversation_id collate "C", v.position'
OF_RUN = "select position from agent.message_view where id = %s and run_id = %s and org = %s"


class MessageQueries:
    """Reads messages as clients see them."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def messages(self, history: History, part: Slice) -> bytes:
        """A page of messages as a JSON array: `order` says from which end the page is cut. Of an
        agent the oldest comes first and the cursors count in time, as recorded; of a conversation
        they come in that order, in which `after` counts too, so that one can leaf on. Raises
        UnknownCursor."""
        found = Filter()
        found.add("v.conversation_id = %(conversation)s", conversation=history.conversation_id)
        found.add("v.agent_id = %(agent)s", agent=history.agent_id)
        found.add("v.org = %(org)s", org=history.org)
        owner = history.conversation_id if history.ordered else history.agent_id
        known = OF_CONVERSATION if history.ordered else OF_AGENT
        later = "<" if history.ordered and part.order == "desc" else ">"
        await within_cursors(self.database, found, part, known, owner, history.org, later=later)
        shown = "v.docs" if history.structured_summaries else PLAIN
        if history.types is not None:
            of_types = OF_TYPES.format(docs=shown)
            shown = f"(select json_agg(doc) {of_types})"
            found.add(f"exists (select {of_types})", types=[*history.types])
        order = part.order if history.ordered else "asc"
        return await messages_page(self.database, found, part, shown, order)

    async def system_message(self, org: str, conversation_id: str) -> bytes:
        """The text of a conversation's system message as a JSON string; null without one."""
        text = await self.database.fetch_text(
            "select to_json(text)::text from agent.message_view"
            " where conversation_id = %(conversation)s and org = %(org)s and role = 'system'"
            " order by position limit 1",
            {"conversation": conversation_id, "org": org},
        )
        return text or b"null"

    async def messages_of_run(self, org: str, run_id: str, part: Slice) -> bytes:
        """A page of a run's messages as a JSON array, those that were sent first, in its order.
        Raises UnknownCursor."""
        found = Filter()
        found.add("v.run_id = %(run)s", run=run_id)
        found.add("v.org = %(org)s", org=org)
        await within_cursors(self.database, found, part, OF_RUN, run_id, org)
        return await messages_page(self.database, found, part, "v.docs", part.order)

    async def messages_of_step(self, org: str, run_id: str, step_id: str, part: Slice) -> bytes:
        """A page of the messages of one step of a run as a JSON array, in its order. Raises
        UnknownCursor."""
        found = Filter()
        found.add("v.run_id = %(run)s", run=run_id)
        found.add("v.step_id = %(step)s", step=step_id)
        found.add("v.org = %(org)s", org=org)
        await within_cursors(self.database, found, part, OF_RUN, run_id, org)
        return await messages_page(self.database, found, part, "v.docs", part.order)

    async def all_messages(
        self, org: str, conversation_id: str | None, types: Sequence[str] | None, part: Slice
    ) -> bytes:
        """A page of the messages of all agents as a JSON array, in its order: by their times, and
        within a conversation as recorded. Raises UnknownCursor."""
        found = Filter([ALL_OF_ORG], {"org": org})
        if conversation_id is not None:
            found.by_key("v.conversation_id = %(conversation)s", conversation=conversation_id)
        for name, value, after in (("after", part.after, True), ("before", part.before, False)):
            if value is None:
                continue
            known = "select created_at, conversation_id, position from agent.message_view"
            row = await self.database.fetch_one(f"{known} where id = %s and org = %s", [value, org])
            if row is None:
                raise UnknownCursor(name, value)
            sign = ">" if after == (part.order == "asc") else "<"
            place = f"(%({name}_at)s, %({name}_conversation)s, %({name}_position)s)"
            found.add(f"({PLACE}) {sign} {place}", **named_place(name, row))
        shown = PLAIN
        if types is not None:
            of_types = OF_TYPES.format(docs=shown)
            shown = f"(select json_agg(doc) {of_types})"
            found.add(f"exists (select {of_types})", types=[*types])
        placed = ", ".join(f"{column} {part.order}" for column in PLACE.split(", "))
        rows = await self.database.fetch(
            f"select {shown}::text from agent.message_view v where {found.sql}"
            f" order by {placed} limit %(limit)s",
            {**found.values, "limit": part.limit},
        )
        return b"[" + b",".join(inner(row[0]) for row in rows if inner(row[0])) + b"]"

    async def message(self, org: str, message_id: str) -> bytes | None:
        """The V1 messages of one stored message as a JSON array; None if it is not there."""
        return await self.database.fetch_text(
            f"select ({PLAIN})::text from agent.message_view v where v.id = %s and v.org = %s",
            [message_id, org],
        )


def named_place(name: str, row: Sequence[Any]) -> dict[str, Any]:
    """The place of a cursor, as parameters."""
    return dict(zip((f"{name}_at", f"{name}_conversation", f"{name}_position"), row, strict=True))


async def within_cursors(
    database: Database,
    found: Filter,
    part: Slice,
    known: str,
    owner: str,
    org: str,
    *,
    later: str = ">",
) -> None:
    """Only what stands behind or before the cursors, which are counted in time."""
    for name, value, sign in (("after", part.after, later), ("before", part.before, "<")):
        if value is None:
            continue
        row = await database.fetch_one(known, [value, owner, org])
        if row is None:
            raise UnknownCursor(name, value)
        found.add(f"v.position {sign} %({name})s", **{name: row[0]})


async def messages_page(
    database: Database, found: Filter, part: Slice, shown: str, order: str
) -> bytes:
    """The messages that were found, cut from the end that the client asked for."""
    rows = await database.fetch(
        "select docs::text from ("
        f" select {shown} as docs, v.position from agent.message_view v where {found.sql}"
        f" order by v.position {part.order} limit %(limit)s) page order by position {order}",
        {**found.values, "limit": part.limit},
    )
    return b"[" + b",".join(inner(row[0]) for row in rows if inner(row[0])) + b"]"


def inner(array: str) -> bytes:
    """What stands between the brackets of a JSON array."""
    return array[1:-1].encode()
