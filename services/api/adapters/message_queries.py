"""The history of a conversation, from the view that the agent service publishes.

Messages are no `Resource`: one row is served as several V1 messages, and a page is shown oldest
first whatever its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libs.eventstore.connection_pool import Database
from services.api.adapters.resource_query_builder import Filter, Slice, UnknownCursor

# The V1 messages of a row that are of the wanted types.
OF_TYPES = (
    "from json_array_elements(v.docs) doc where doc->>'message_type' = any(%(types)s::text[])"
)


@dataclass(frozen=True, slots=True)
class History:
    """Which messages: those of one conversation of an agent, with `types` only messages of these
    types, and only as these types."""

    org: str
    agent_id: str
    conversation_id: str
    types: Sequence[str] | None = None


class MessageQueries:
    """Reads messages as clients see them."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def messages(self, history: History, part: Slice) -> bytes:
        """A page of messages as a JSON array, oldest first: `order` says from which end the page
        is cut, and the cursors count in time, as recorded. Raises UnknownCursor."""
        found = Filter()
        found.add("v.conversation_id = %(conversation)s", conversation=history.conversation_id)
        found.add("v.agent_id = %(agent)s", agent=history.agent_id)
        found.add("v.org = %(org)s", org=history.org)
        for name, value, sign in (("after", part.after, ">"), ("before", part.before, "<")):
            if value is None:
                continue
            row = await self.database.fetch_one(
                "select position from agent.message_view"
                " where id = %s and agent_id = %s and org = %s",
                [value, history.agent_id, history.org],
            )
            if row is None:
                raise UnknownCursor(name, value)
            found.add(f"v.position {sign} %({name})s", **{name: row[0]})
        shown = "v.docs"
        if history.types is not None:
            shown = f"(select json_agg(doc) {OF_TYPES})"
            found.add(f"exists (select {OF_TYPES})", types=[*history.types])
        rows = await self.database.fetch(
            "select docs::text from ("
            f" select {shown} as docs, v.position from agent.message_view v where {found.sql}"
            f" order by v.position {part.order} limit %(limit)s) page order by position",
            {**found.values, "limit": part.limit},
        )
        return b"[" + b",".join(inner(row[0]) for row in rows if inner(row[0])) + b"]"


def inner(array: str) -> bytes:
    """What stands between the brackets of a JSON array."""
    return array[1:-1].encode()
