"""The history of a conversation or of a run, from the view that the agent service publishes.

Messages are no `Resource`: one row is served as several V1 messages, and a page of a conversation
is shown oldest first whatever its order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from libs.eventstore.connection_pool import Database, DatabaseQueries
from services.api.adapters.resource_query_builder import ALL_OF_ORG, Filter, Slice, UnknownCursor

# The V1 messages of a row that are of the wanted types.
OF_TYPES = (
    "from json_array_elements({v1_messages}) v1_message"
    " where v1_message->>'message_type' = any(%(types)s::text[])"
)


@dataclass(frozen=True, slots=True)
class History:
    """Which messages: those of one conversation of an agent or (None) of all of them, with `types`
    only messages of these types, and only as these types. Summaries are shown as words of the
    user, unless they are wanted `structured`."""

    org: str
    agent_id: str
    conversation_id: str | None
    types: Sequence[str] | None = None
    structured_summaries: bool = False
    # The messages of the runs for this group alone.
    group_id: str | None = None
    # Whether a page comes in its order, and `after` counts in it; else both count in time.
    ordered: bool = False


# The columns by which messages are ordered: those of one conversation, of an agent, and of all.
IN_CONVERSATION = ("v.position",)
OF_AGENT = ("v.recorded_at", 'v.conversation_id collate "C"', "v.position")
OF_ALL = ("v.created_at", 'v.conversation_id collate "C"', "v.position")
OF_GROUP = (
    "v.run_id in (select r.id from agent.run_view r where r.org = %(org)s"
    " and r.fields->'metadata' ? 'group_id' and r.fields->'metadata'->>'group_id' = %(group)s)"
)
# Summaries as words of the user.
PLAIN = "coalesce(v.plain_v1_messages, v.v1_messages)"


class MessageQueries(DatabaseQueries):
    """Reads messages as clients see them."""

    async def messages(self, history: History, part: Slice) -> bytes:
        """A page of messages as a JSON array: `order` says from which end the page is cut. Of an
        agent the oldest comes first and the cursors count in time, as recorded; of a conversation
        they come in that order, in which `after` counts too, so that one can leaf on. Raises
        UnknownCursor."""
        found = Filter(["v.org = %(org)s"], {"org": history.org})
        among = {"v.agent_id": history.agent_id, "v.org": history.org}
        columns: Sequence[str] = OF_AGENT
        if history.conversation_id is None:
            # Under the collation of its index, which only this list uses.
            found.add('v.agent_id collate "C" = %(agent)s', agent=history.agent_id)
        else:
            columns = IN_CONVERSATION
            among["v.conversation_id"] = history.conversation_id
            found.add("v.agent_id = %(agent)s", agent=history.agent_id)
            found.add("v.conversation_id = %(conversation)s", conversation=history.conversation_id)
        if history.group_id is not None:
            found.add(OF_GROUP, group=history.group_id)
        later = "<" if history.ordered and part.order == "desc" else ">"
        await within_cursors(self.database, found, part, columns, among, later=later)
        v1_messages = "v.v1_messages" if history.structured_summaries else PLAIN
        shown = messages_of_types(found, v1_messages, history.types)
        order = part.order if history.ordered else "asc"
        return await messages_page(self.database, found, part, shown, columns, order)

    async def system_message(self, org: str, conversation_id: str) -> bytes:
        """The text of a conversation's system message as a JSON string; null without one."""
        text = await self.database.fetch_text(
            "select to_json(text)::text from agent.message_view"
            " where conversation_id = %(conversation)s and org = %(org)s and role = 'system'"
            " order by position limit 1",
            {"conversation": conversation_id, "org": org},
        )
        return text or b"null"

    async def messages_of_run(
        self, org: str, run_id: str, types: Sequence[str] | None, part: Slice
    ) -> bytes:
        """A page of a run's messages as a JSON array, those that were sent first, in its order.
        Raises UnknownCursor."""
        found = Filter(["v.run_id = %(run)s", "v.org = %(org)s"], {"run": run_id, "org": org})
        return await page_of_run(
            self.database, found, part, messages_of_types(found, "v.v1_messages", types)
        )

    async def messages_of_step(self, org: str, run_id: str, step_id: str, part: Slice) -> bytes:
        """A page of the messages of one step of a run as a JSON array, in its order. Raises
        UnknownCursor."""
        found = Filter(["v.run_id = %(run)s", "v.org = %(org)s"], {"run": run_id, "org": org})
        return await page_of_run(
            self.database, found.add("v.step_id = %(step)s", step=step_id), part, "v.v1_messages"
        )

    async def all_messages(
        self, org: str, conversation_id: str | None, types: Sequence[str] | None, part: Slice
    ) -> bytes:
        """A page of the messages of all agents as a JSON array, in its order: by their times, and
        within a conversation as recorded. Raises UnknownCursor."""
        found = Filter([ALL_OF_ORG], {"org": org})
        if conversation_id is not None:
            found.by_key("v.conversation_id = %(conversation)s", conversation=conversation_id)
        later, earlier = (">", "<") if part.order == "asc" else ("<", ">")
        await within_cursors(
            self.database, found, part, OF_ALL, {"v.org": org}, later=later, earlier=earlier
        )
        shown = messages_of_types(found, PLAIN, types)
        return await messages_page(self.database, found, part, shown, OF_ALL)

    async def message(self, org: str, message_id: str) -> bytes | None:
        """The V1 messages of one stored message as a JSON array; None if it is not there."""
        return await self.database.fetch_text(
            f"select ({PLAIN})::text from agent.message_view v where v.id = %s and v.org = %s",
            [message_id, org],
        )


def messages_of_types(found: Filter, v1_messages: str, types: Sequence[str] | None) -> str:
    """The SQL expression of a row's V1 messages: all, or those of some types, without which a row
    is not found."""
    if types is None:
        return v1_messages
    of_types = OF_TYPES.format(v1_messages=v1_messages)
    found.add(f"exists (select {of_types})", types=[*types])
    return f"(select json_agg(v1_message) {of_types})"


async def within_cursors(
    database: Database,
    found: Filter,
    part: Slice,
    columns: Sequence[str],
    among: Mapping[str, str],
    *,
    later: str = ">",
    earlier: str = "<",
) -> None:
    """Only what stands behind or before the cursors, by the columns that order the list. Cursors
    are messages `among` those whose columns have these values. Raises UnknownCursor."""
    place = ", ".join(columns)
    known = " and ".join(f"{column} = %s" for column in among)
    for name, value, sign in (("after", part.after, later), ("before", part.before, earlier)):
        if value is None:
            continue
        row = await database.fetch_one(
            f"select {place} from agent.message_view v where v.id = %s and {known}",
            [value, *among.values()],
        )
        if row is None:
            raise UnknownCursor(name, value)
        values = {f"{name}_{number}": value for number, value in enumerate(row)}
        found.add(
            f"({place}) {sign} ({', '.join(f'%({key})s' for key in values)})",
            **values,
        )


async def page_of_run(database: Database, found: Filter, part: Slice, shown: str) -> bytes:
    """The page of those of a run's messages that were found."""
    among = {"v.run_id": found.values["run"], "v.org": found.values["org"]}
    await within_cursors(database, found, part, IN_CONVERSATION, among)
    return await messages_page(database, found, part, shown, IN_CONVERSATION)


async def messages_page(
    database: Database,
    found: Filter,
    part: Slice,
    shown: str,
    columns: Sequence[str],
    order: str = "",
) -> bytes:
    """The messages that were found, cut from the end that the client asked for; in another order
    than that of the cut if one is given."""
    rows = await database.fetch(
        f"select ({shown})::text from agent.message_view v where {found.sql}"
        f" order by {', '.join(f'{column} {part.order}' for column in columns)} limit %(limit)s",
        {**found.values, "limit": part.limit},
    )
    if order and order != part.order:
        rows = rows[::-1]
    return b"[" + b",".join(inner(row[0]) for row in rows if inner(row[0])) + b"]"


def inner(array: str) -> bytes:
    """The text between the brackets of a JSON array."""
    return array[1:-1].encode()
