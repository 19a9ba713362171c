"""One-time schedules that are made over the bus, many at once, and what is found of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

from libs.bus.clock_and_ids import RandomIds
from libs.bus.nats_bus import NatsBus
from libs.contracts.bus_messages import Accepted, Context
from libs.contracts.letta.enums import MessageRole
from libs.contracts.letta.message_requests import MessageCreate
from libs.contracts.scheduler.schedule_config import MessageAction, MissedPolicy, ScheduleConfig
from libs.contracts.scheduler.schedules import CreateSchedule

MADE_AT_ONCE = 16
# Of each schedule that has this name: its slots that were fired, its firings that have ended, its
# runs, how many seconds after the slot the latest was accepted, whether its slot was skipped as one
# that was missed, and when that run was accepted.
FOUND = """
select s.id, count(distinct f.id), count(distinct f.id) filter (where f.status = 'completed'),
       count(distinct r.id),
       coalesce(extract(epoch from max(e.occurred_at) - max(f.slot)), 0)::float,
       coalesce(bool_or(s.fields->>'missed' = 'skip'
                        and s.fields->'last_skipped'->>'reason' = 'missed'), false),
       max(e.occurred_at)
from scheduler.schedule_view s left join scheduler.firing_view f on f.schedule_id = s.id
left join agent.runs r on r.fields->'metadata'->>'schedule_id' = s.id
left join agent.events e on e.about = r.id and e.topic = 'run.accepted'
where s.fields->>'name' = '{name}' group by s.id"""


async def make_schedules(
    nats_url: str,
    name: str,
    agent_ids: Sequence[str],
    slots: Sequence[datetime],
    text: str,
    *,
    missed: Sequence[MissedPolicy] = ("fire_once",),
) -> list[str]:
    """Make a schedule for each slot, of one agent and one policy after the other; returns their
    ids."""
    bus, ids, gate = (
        NatsBus(nats_url, f"maker-{uuid4()}"),
        RandomIds(),
        asyncio.Semaphore(MADE_AT_ONCE),
    )
    await bus.start()

    async def make(number: int, slot: datetime) -> str:
        message = MessageCreate(role=MessageRole.user, content=text)
        config = ScheduleConfig(
            id=ids.new("schedule"),
            agent_id=agent_ids[number % len(agent_ids)],
            created_at=datetime.now(UTC),
            name=name,
            schedule_type="one_time",
            scheduled_at=slot,
            action=MessageAction(messages=[message]),
            missed=missed[number % len(missed)],
        )
        async with gate:
            reply = await bus.request(CreateSchedule(schedule=config), Context(config.id))
        assert isinstance(reply, Accepted), reply
        return config.id

    try:
        return list(await asyncio.gather(*(make(n, slot) for n, slot in enumerate(slots))))
    finally:
        await bus.stop()
