"""Agents as they were: which commit a client means, and reads of what was there then.

`PastReads.resolve` finds the place in the order of commits that `at` names, and inside
`PastReads.as_of` every query of the task is answered as it would have been right after that commit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import Accepted, Context, Rejected
from libs.contracts.memory.agent_folders import agent_folders_id
from libs.contracts.moments import MOMENT_IDS_MAX, SERVICES_WITH_MOMENTS, moment_command
from libs.contracts.time_range_parsing import first_moment
from libs.eventstore.as_of_reads import reading_as_of
from libs.eventstore.connection_pool import Database
from services.api.adapters.agents.agent_event_statement import ISOLATED_BLOCKS
from services.api.adapters.agents.agent_event_statement import PARTS as LISTED_PARTS

EVENT_ID = re.compile(
    r"(?P<aggregate>[a-z_]{1,40}-[0-9A-Za-z_-]{1,200})\.(?P<version>[1-9]\d{0,8})"
)
# A time is looked for in the events of the time before it, further and further back.
LOOKED_BACK = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=30))
# An older commit may be open for so long while an event is read; it is asked so often.
SETTLED_SECONDS_MAX = 2.0
SETTLED_LOOK_SECONDS = 0.05
MOMENT_SECONDS_MAX = 9.0

FORMS = (
    "the id of an event (`<aggregate>.<version>`, as in `GET /v1/agents/{agent_id}/events`) or a"
    " time as 2026-01-31T14:30:00Z"
)

# Of a service without moments an event still says when it was.
SERVICES_WITH_EVENTS = (*SERVICES_WITH_MOMENTS, "scheduler")
THE_EVENT = " union all ".join(
    f"select e.occurred_at, e.commit_order, e.settled from {service}.recorded_event_view e"
    " where e.aggregate_id = %(aggregate)s and e.version = %(version)s and e.org = %(org)s"
    for service in SERVICES_WITH_EVENTS
)
BIRTH = """
select e.commit_order from agent.recorded_event_view e
where e.aggregate_id = %(agent)s and e.version = 1 and e.org = %(org)s"""
# What was imported says when it happened elsewhere, not when it came.
NEWEST_BEFORE = (
    "select newest.occurred_at, newest.commit_order, newest.settled from ("
    + " union all ".join(
        f"(select e.occurred_at, e.commit_order, e.settled from {service}.recorded_event_view e"
        " where e.occurred_at <= %(at)s and e.occurred_at > %(after)s"
        " and not e.metadata ? 'import' order by e.commit_order desc limit 1)"
        for service in SERVICES_WITH_MOMENTS
    )
    + ") newest order by newest.commit_order desc limit 1"
)
# An event is an agent's if it is of the agent itself or of what it has, or ever had: the same
# aggregates whose events `GET /v1/agents/{agent_id}/events` lists.
PARTS = " union all ".join(
    (
        ISOLATED_BLOCKS,
        LISTED_PARTS["groups"],
        "select p.id from agent.part_of_agent_view p where p.agent_id = %(agent)s"
        " and p.org = %(org)s",
        "select a.id from memory.archive_of_agent_view a where a.agent_id = %(agent)s"
        " and a.agent_id <> '' and a.org = %(org)s",
        "select f.id from memory.folder_of_agent_view f where f.agent_folders_id = %(folders)s"
        " and f.org = %(org)s",
    )
)
IS_OF_AGENT = f"""
with first as materialized (
    {
    " union all ".join(
        f"select e.topic, e.payload from {service}.recorded_event_view e where"
        " e.aggregate_id = %(aggregate)s and e.version = 1 and e.org = %(org)s"
        for service in SERVICES_WITH_EVENTS
    )
}
), named as materialized (
    select case first.topic when 'passage.created' then first.payload->>'archive_id'
        when 'file.added' then first.payload->>'folder_id' else %(aggregate)s end as id,
        %(agent)s in (first.payload->>'agent_id', first.payload->'config'->>'agent_id',
            first.payload->'schedule'->>'agent_id', first.payload->>'target_id',
            first.payload->'config'->>'manager_agent_id') as is_own
    from first
)
select 1 from named where named.is_own or named.id in ({PARTS})"""

OTHERS = """
select v.block_ids, v.custom_tool_ids, array(
    select copies.value from agent.conversation_view c
    cross join lateral jsonb_each_text(c.isolated_blocks) copies
    where c.agent_id = v.id and c.org = v.org)
from agent.agent_view v where v.id = %(agent)s and v.org = %(org)s"""


class NotAMoment(Exception):
    """The value of `at` is neither an event nor a time."""


class NoSuchMoment(Exception):
    """There is no such event of this agent, or there was no such agent at that time."""


class MomentUnavailable(Exception):
    """The moment cannot be shown now; the refusal says why, and whether it is later."""

    def __init__(self, refusal: Rejected) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Cut:
    """A place in the order of commits, for one agent: all that was committed up to `commit_order`
    is there, and nothing else. `at` is the time of the newest event in it."""

    org: str
    agent_id: str
    commit_order: int
    at: datetime


class PastReads:
    """Finds moments, and has queries answered as of them."""

    def __init__(self, database: Database, bus: Bus, clock: Clock, ids: Ids) -> None:
        """The adapters of the process."""
        self.database = database
        self.bus = bus
        self.clock = clock
        self.ids = ids

    async def resolve(self, org: str, agent_id: str, at: str) -> Cut:
        """The commit that `at` names: that of an event of the agent, or the last one at a time.
        Raises NotAMoment, NoSuchMoment and MomentUnavailable."""
        asked = {"agent": agent_id, "org": org}
        if found := EVENT_ID.fullmatch(at):
            cut = await self.cut_of_event(asked, found["aggregate"], int(found["version"]))
        else:
            cut = await self.cut_of_time(asked, time_of(at))
        birth = await self.database.fetch_one(BIRTH, asked)
        if cut is None or birth is None or birth[0] > cut.commit_order:
            raise NoSuchMoment(at)
        return cut

    async def cut_of_event(
        self, asked: dict[str, str], aggregate_id: str, version: int
    ) -> Cut | None:
        """The commit of an event; None if it is none of this agent's."""
        names = {**asked, "aggregate": aggregate_id, "version": version}
        cut = await self.find_settled(THE_EVENT, names)
        folders = agent_folders_id(asked["agent"])
        own = (asked["agent"], main_conversation(asked["agent"]), folders)
        owned = {**names, "folders": folders}
        if cut and (aggregate_id in own or await self.database.fetch(IS_OF_AGENT, owned)):
            return cut
        return None

    async def cut_of_time(self, asked: dict[str, str], at: datetime) -> Cut | None:
        """The newest commit at a time; None if there was none."""
        at = min(at, self.clock.now())
        afters = [at - back for back in LOOKED_BACK if at > EPOCH + back]
        for after in (*afters, EPOCH):
            if cut := await self.find_settled(NEWEST_BEFORE, {**asked, "at": at, "after": after}):
                return cut
        return None

    async def find_settled(self, query: str, values: dict[str, Any]) -> Cut | None:
        """The commit that a query finds, once nothing can come before it any more. Raises
        MomentUnavailable where an older commit stays open."""
        deadline = self.clock.monotonic() + SETTLED_SECONDS_MAX
        while True:
            row = await self.database.fetch_one(query, values)
            if row is None:
                return None
            if row[2]:
                return Cut(values["org"], values["agent"], row[1], row[0])
            if self.clock.monotonic() > deadline:
                reason = "An older commit is still open: ask again in a second"
                raise MomentUnavailable(Rejected(code="unavailable", reason=reason))
            await self.clock.sleep(SETTLED_LOOK_SECONDS)

    @asynccontextmanager
    async def as_of(self, cut: Cut, context: Context) -> AsyncIterator[None]:
        """Have every query inside be answered as right after a commit, as far as it is about the
        agent of the cut. Nothing may be written inside. `context` says in whose name. Raises
        MomentUnavailable, and NoSuchMoment if there was no such agent."""
        with reading_as_of(await self.moments(cut, context)):
            yield

    async def moments(self, cut: Cut, context: Context) -> dict[str, int]:
        """The rows of each service, made if they are not there; for `reading_as_of`. Raises as
        `as_of` does."""
        agent = await self.moment(cut, context, "agent", ())
        with reading_as_of({"agent": agent}):
            asked = {"agent": cut.agent_id, "org": cut.org}
            row = await self.database.fetch_one(OTHERS, asked)
        if row is None:
            raise NoSuchMoment(cut.agent_id)
        block_ids, tool_ids, copies = row
        blocks = [*block_ids, *copies]
        known = {"memory": blocks, "tools": tool_ids, "groups": (), "api": blocks}
        found = await asyncio.gather(
            *(self.moment(cut, context, service, ids) for service, ids in known.items())
        )
        return {"agent": agent, **dict(zip(known, found, strict=True))}

    async def moment(self, cut: Cut, context: Context, service: str, ids: Sequence[str]) -> int:
        """The key of the rows of one service. Raises MomentUnavailable."""
        # Of very many conversations with blocks of their own the last ones' are left out.
        command = moment_command(service)(
            asker=self.ids.new("moment"),
            agent_id=cut.agent_id,
            cut=cut.commit_order,
            ids=tuple(dict.fromkeys(ids))[:MOMENT_IDS_MAX],
        )
        asking = context.follow_up(command.asker)
        reply = await self.bus.request(command, asking, seconds_max=MOMENT_SECONDS_MAX)
        match reply:
            case Accepted():
                return int(str(reply.result["as_of"]))
            case Rejected():
                raise MomentUnavailable(reply)


EPOCH = datetime(1, 1, 2, tzinfo=UTC)


def time_of(at: str) -> datetime:
    """A time as a client wrote it, in UTC where it says no zone. Raises NotAMoment."""
    try:
        # In a URL a plus sign means a space.
        return first_moment(re.sub(r" (?=\d\d:?\d\d$)", "+", at.strip()), UTC)
    except ValueError:
        raise NotAMoment(at) from None
