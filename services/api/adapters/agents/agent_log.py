"""The histories of an agent and of what is its own, as the logs of the services have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from libs.bus.ports import BusUnavailable, Clock
from libs.eventstore.connection_pool import DatabaseQueries

SERVICES = ("agent", "memory", "tools", "api")  # the last knows identities and projects
# An older commit that is under way still may belong to what an agent is: it is waited for.
SETTLED_SECONDS_MAX = 5.0
LOOK_SECONDS = 0.02
PAGE_EVENTS_MAX = 250
PAGE_BYTES_MAX = 256 << 10
IDS_AT_ONCE = 200

# A page of a history: it ends behind the event with which it is large enough.
PAGE = """
select version, topic, schema_version, payload, occurred_at
from (
    select *, sum(octet_length(payload)) over (
        order by version rows between unbounded preceding and 1 preceding) as bytes_before
    from (
        select version, topic, schema_version, payload::text, occurred_at
        from {service}.recorded_event_view
        where aggregate_id = %(id)s and org = %(org)s and version > %(after)s
          and (%(cut)s::bigint is null or commit_order <= %(cut)s)
        order by version limit %(limit)s
    ) found
) counted
where coalesce(bytes_before, 0) < %(bytes)s order by version"""
# Many short histories at once.
SHORT = """
select aggregate_id, version, topic, schema_version, payload::text, occurred_at
from {service}.recorded_event_view
where aggregate_id = any(%(ids)s) and org = %(org)s
  and (%(cut)s::bigint is null or commit_order <= %(cut)s)
order by aggregate_id, version"""
# With which event its present life began: one that was imported again after it had been deleted has
# events before that.
BEGAN = """
select max(version) from {service}.recorded_event_view
where aggregate_id = %(id)s and metadata ? 'begins'
  and (%(cut)s::bigint is null or commit_order <= %(cut)s)"""
NEWEST = """
select max(commit_order) from (
    select commit_order from {service}.recorded_event_view
    order by position desc limit 1000) newest"""
UNSETTLED = """
select exists (select from (
    select commit_order, settled from {service}.recorded_event_view
    order by position desc limit 1000) newest
where commit_order = %(cut)s and not settled)"""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as the log has it; the payload is text, since nobody looks into most."""

    version: int
    topic: str
    schema_version: int
    payload: str
    occurred_at: str


class AgentLog(DatabaseQueries):
    """Reads histories up to a cut: the last commit of all services whose events are seen, or all of
    them without one."""

    async def history(
        self, service: str, org: str, aggregate_id: str, cut: int | None
    ) -> AsyncIterator[list[LoggedEvent]]:
        """The events of an aggregate since it began, page by page."""
        began = await self.database.fetch_one(
            BEGAN.format(service=service), {"id": aggregate_id, "cut": cut}
        )
        after = (began[0] or 1) - 1 if began else 0
        while True:
            rows = await self.database.fetch(
                PAGE.format(service=service),
                {
                    "id": aggregate_id,
                    "org": org,
                    "after": after,
                    "cut": cut,
                    "limit": PAGE_EVENTS_MAX,
                    "bytes": PAGE_BYTES_MAX,
                },
            )
            if not rows:
                return
            yield [logged_event(row) for row in rows]
            after = rows[-1][0]

    async def short_histories(
        self, service: str, org: str, ids: Sequence[str], cut: int | None
    ) -> dict[str, list[LoggedEvent]]:
        """The events of several aggregates with few events each, of their present lives."""
        rows = await self.database.fetch(
            SHORT.format(service=service), {"ids": [*ids], "org": org, "cut": cut}
        )
        found: dict[str, list[LoggedEvent]] = {}
        for aggregate_id, *event in rows:
            found.setdefault(aggregate_id, []).append(logged_event(event))
        return found

    async def cut_now(self, services: Sequence[str]) -> int:
        """The newest commit of these services."""
        newest = 0
        for service in services:
            row = await self.database.fetch_one(NEWEST.format(service=service))
            newest = max(newest, int(row[0] or 0) if row else 0)
        return newest

    async def settled_cut(self, clock: Clock) -> int:
        """The newest commit of the services that have agents, when all that are before it have
        ended. Raises BusUnavailable where one takes long."""
        until = clock.monotonic() + SETTLED_SECONDS_MAX
        cut = await self.cut_now(SERVICES)
        while not await self.is_settled(SERVICES, cut):
            if clock.monotonic() > until:
                raise BusUnavailable("a long transaction is under way: try again in a moment")
            await clock.sleep(LOOK_SECONDS)
        return cut

    async def is_settled(self, services: Sequence[str], cut: int) -> bool:
        """Whether no older commit than this one is under way any more."""
        for service in services:
            row = await self.database.fetch_one(UNSETTLED.format(service=service), {"cut": cut})
            if row is not None and row[0]:
                return False
        return True


def logged_event(row: Sequence[Any]) -> LoggedEvent:
    """An event from its columns."""
    version, topic, schema_version, payload, occurred_at = row
    return LoggedEvent(version, topic, schema_version, payload, occurred_at.isoformat())
