"""The events of an agent, of all services in one order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic_core import to_json

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.api.configurations import configuration_id
from libs.contracts.api.restores import restores_id
from libs.contracts.memory.agent_folders import agent_folders_id
from libs.eventstore.connection_pool import DatabaseQueries
from services.api.adapters.agents.agent_event_statement import (
    SERVICES,
    Bounds,
    EventFilter,
    Place,
    page_statement,
)
from services.api.adapters.resource_query_builder import OTHER_ORDER, Slice, UnknownCursor

DIGITS_MAX = 9
CURSOR = " union all ".join(
    f"select e.commit_order, e.position from {service}.recorded_event_view e"
    " where e.aggregate_id = %(id)s and e.version = %(version)s and e.org = %(org)s"
    for service in SERVICES
)
RUNS_OF_CALL = """select distinct c.run_id from agent.called_tool_view c
 where c.tool_call_id = %(call)s and c.org = %(org)s limit 100"""
RUN_SPAN = """select a.conversation_id, a.commit_order, a.position, coalesce((
 select max(e.occurred_at) from agent.ended_run_view e where e.run_id = a.run_id and e.org = a.org),
 (select (r.fields->>'completed_at')::timestamptz from agent.run_view r
 where r.id = a.run_id and r.org = a.org))
from agent.accepted_run_view a where a.run_id = any(%(runs)s) and a.org = %(org)s"""


CREATION = """select 1 from agent.recorded_event_view e where e.aggregate_id = %(agent)s
 and e.version = 1 and e.topic = 'agent.created' and e.org = %(org)s"""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event as it was recorded; `payload` is its JSON, or of a large one what says why it
    happened."""

    service: str
    aggregate_id: str
    version: int
    topic: str
    about: str
    occurred_at: datetime
    metadata: dict[str, Any]
    payload: str


class AgentEventQueries(DatabaseQueries):
    """Reads the events of agents."""

    async def events(
        self, wanted: EventFilter, part: Slice, *, payloads: bool = False
    ) -> list[RecordedEvent]:
        """A page of events in its order. With `before` alone it is the page that ends right there.
        It is shorter than asked for where the payloads are large. Raises UnknownCursor."""
        bounds = await self.bounds_of(wanted, part)
        if bounds is None:
            return []
        backwards = part.before is not None and part.after is None
        order = OTHER_ORDER[part.order] if backwards else part.order
        query = page_statement(wanted, bounds, order, payloads=payloads)
        values = {
            "org": wanted.org,
            "agent": wanted.agent_id,
            "main": main_conversation(wanted.agent_id),
            "folders": agent_folders_id(wanted.agent_id),
            "restores": restores_id(wanted.agent_id),
            "configuration": configuration_id(wanted.agent_id),
            "limit": part.limit,
            "run": wanted.run_id,
            "quoted_call": to_json(wanted.tool_call_id).decode(),
            "since": wanted.since,
            "until": wanted.until,
            **bounds.values,
        }
        used = {name: value for name, value in values.items() if f"%({name})s" in query}
        found = [RecordedEvent(*row) for row in await self.database.fetch(query, used)]
        return found[::-1] if backwards else found

    async def was_created(self, org: str, agent_id: str) -> bool:
        """Whether there is such an agent, or was one that is deleted."""
        return bool(await self.database.fetch_one(CREATION, {"agent": agent_id, "org": org}))

    async def bounds_of(self, wanted: EventFilter, part: Slice) -> Bounds | None:
        """The bounds of the page; None where nothing is within. Raises UnknownCursor."""
        bounds = Bounds(since=wanted.since, until=wanted.until)
        after, before = [
            None if value is None else await self.place_of(wanted.org, name, value)
            for name, value in (("after", part.after), ("before", part.before))
        ]
        bounds.after, bounds.before = (after, before) if part.order == "asc" else (before, after)
        runs = await self.runs_of(wanted)
        if runs is None:
            return bounds
        values = {"runs": runs, "org": wanted.org}
        spans = await self.database.fetch(RUN_SPAN, values) if runs else []
        if not spans:
            return None
        bounds.conversations = sorted({conversation for conversation, *_ in spans})
        bounds.begin_at(min((order, position) for _, order, position, _ in spans))
        ends = [ended_at for *_, ended_at in spans]
        if None not in ends:
            bounds.until = min(max(ends), bounds.until or max(ends))
        return bounds

    async def runs_of(self, wanted: EventFilter) -> list[str] | None:
        """The runs that the wanted events belong to; None where they may belong to any or none."""
        if wanted.run_id is not None:
            return [wanted.run_id]
        if wanted.tool_call_id is None:
            return None
        values = {"call": wanted.tool_call_id, "org": wanted.org}
        return await self.column(RUNS_OF_CALL, values)

    async def place_of(self, org: str, name: str, event_id: str) -> Place:
        """Where an event stands in the order of commits. Raises UnknownCursor."""
        aggregate_id, _, version = event_id.rpartition(".")
        known = version.isdecimal() and version.isascii() and len(version) <= DIGITS_MAX
        values = {"id": aggregate_id, "version": int(version) if known else 0, "org": org}
        row = await self.database.fetch_one(CURSOR, values)
        if row is None:
            raise UnknownCursor(name, event_id)
        return row[0], row[1]
