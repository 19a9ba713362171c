"""Runs that one agent has another one answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pydantic import TypeAdapter

from libs.contracts.agent.runs import CallingRun
from libs.eventstore.connection_pool import Database
from services.agent.domain.runs.agent_call_deadlocks import WaitingCall

# How many calls that wait for each other are looked at.
WAITING_CALLS_MAX = 1_000
CALLERS = TypeAdapter(list[CallingRun])
# From the conversation of one call on: the calls that the run which is active there waits for, and
# so forth. A caller that has ended waits for nothing.
WAITING_CALLS = """
with recursive ahead as (
    select c.run_id, c.conversation_id, c.caller_conversation_id, r.status
    from agent.called_runs c cross join lateral
        (select org, status from agent.runs where id = c.run_id limit 1) r
    where c.run_id = %(run_id)s and c.org = %(org)s and r.org = c.org
    union
    select c.run_id, c.conversation_id, c.caller_conversation_id, r.status
    from ahead a cross join lateral
        (select * from agent.called_runs where caller_conversation_id = a.conversation_id
         limit %(limit)s) c
    cross join lateral (select org, status from agent.runs where id = c.run_id limit 1) r
    cross join lateral
        (select org, status from agent.runs where id = c.caller_run_id limit 1) caller
    where c.waits and c.org = %(org)s and r.org = c.org and caller.org = c.org
      and caller.status = 'running' and r.status in ('created', 'running'))
select run_id, conversation_id, caller_conversation_id, status = 'created' from ahead
limit %(limit)s"""


@dataclass(frozen=True, slots=True)
class CallChain:
    """The conversation of a run, and the runs whose calls led to it; none where a client asked."""

    conversation_id: str
    callers: list[CallingRun]


@dataclass(frozen=True, slots=True)
class CalledRun:
    """How far a run is that another agent waits for."""

    status: str
    stop_reason: str


class CalledRunQueries(Protocol):
    """What an agent that calls others reads."""

    async def call_chain(self, org: str, run_id: str) -> CallChain | None:
        """The conversation of a run, and what led to it; None if it is deleted."""
        ...

    async def called_run(self, org: str, run_id: str) -> CalledRun | None:
        """How far a run is, if it was accepted and is not deleted."""
        ...

    async def waiting_calls(self, org: str, run_id: str) -> list[WaitingCall]:
        """A call, and those that have to be answered before it can be."""
        ...

    async def agents_with_tags(
        self, org: str, every: list[str], some: list[str], limit: int
    ) -> list[str]:
        """Agents with all of the first tags, and with one at least of the second if there are any;
        the oldest first."""
        ...


class PostgresCalledRunQueries:
    """Keeps the contract of `CalledRunQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def call_chain(self, org: str, run_id: str) -> CallChain | None:
        """The conversation of a run, and what led to it; None if it is deleted."""
        row = await self.database.fetch_one(
            "select r.conversation_id,"
            " (select callers from agent.called_runs where run_id = r.id limit 1)"
            " from agent.runs r where r.id = %s and r.org = %s",
            [run_id, org],
        )
        return CallChain(row[0], CALLERS.validate_python(row[1] or [])) if row else None

    async def called_run(self, org: str, run_id: str) -> CalledRun | None:
        """How far a run is, if it was accepted and is not deleted."""
        row = await self.database.fetch_one(
            "select status, coalesce(stop_reason, '') from agent.runs where id = %s and org = %s",
            [run_id, org],
        )
        return CalledRun(*row) if row else None

    async def waiting_calls(self, org: str, run_id: str) -> list[WaitingCall]:
        """A call, and those that have to be answered before it can be."""
        rows = await self.database.fetch(
            WAITING_CALLS, {"run_id": run_id, "org": org, "limit": WAITING_CALLS_MAX}
        )
        return [WaitingCall(*row) for row in rows]

    async def agents_with_tags(
        self, org: str, every: list[str], some: list[str], limit: int
    ) -> list[str]:
        """Agents with all of the first tags, and with one at least of the second."""
        rows = await self.database.fetch(
            'select id from agent.agents where org collate "C" = %(org)s and not hidden'
            " and tags @> %(every)s::text[]"
            " and (%(some)s::text[] = '{}' or tags && %(some)s::text[])"
            ' order by created_at, id collate "C" limit %(limit)s',
            {"org": org, "every": every, "some": some, "limit": limit},
        )
        return [agent_id for (agent_id,) in rows]
