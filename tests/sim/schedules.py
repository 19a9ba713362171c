"""Schedules in the simulated world: their slots come every few seconds and end, and each fires once
whatever dies, freezes, is cut off or has a wrong clock in between."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.enums import MessageRole
from libs.contracts.letta.message_requests import MessageCreate
from libs.contracts.scheduler.schedule_config import MessageAction, ScheduleConfig
from libs.contracts.scheduler.schedules import CreateSchedule, FireSchedule
from libs.eventstore.in_memory_database import InMemorySchema
from services.scheduler.domain import slot_selection
from services.scheduler.policies.schedule_cleanup import ScheduleCleanup
from tests.sim.plan import SCHEDULING, Chore
from tests.unit.given import NOW

if TYPE_CHECKING:
    from tests.sim.world import World

SLOT_SECONDS, LAST_SLOT_SECONDS = 3, 24
CRON = f"every {SLOT_SECONDS} until {LAST_SLOT_SECONDS}"

type Send = Callable[[str, Command], Awaitable[Accepted | Rejected]]


def next_slots(cron_expression: str, timezone: str, after: datetime, count: int) -> list[datetime]:
    """The slots of the simulated world: one every few seconds, until the last one."""
    assert cron_expression == CRON
    slots = (
        NOW + timedelta(seconds=seconds)
        for seconds in range(SLOT_SECONDS, LAST_SLOT_SECONDS + 1, SLOT_SECONDS)
    )
    return [slot for slot in slots if slot > after][:count]


PATCHED: list[tuple[Any, str, Any]] = [
    (slot_selection, "next_slots", next_slots),
    (ScheduleCleanup, "every_seconds", 10.0),
]


def schedule_id(chore: Chore) -> str:
    """The schedule that a chore makes."""
    return derived_id("schedule", chore.name)


def wanted(chore: Chore, agent: str) -> ScheduleConfig:
    """What a chore asks for."""
    [message] = [MessageCreate(role=MessageRole.user, content=f"The time of {chore.name} has come")]
    fires_all = chore.kind == "schedule all"
    return ScheduleConfig(
        id=schedule_id(chore),
        agent_id=agent,
        created_at=NOW + timedelta(seconds=chore.at),
        schedule_type="recurring",
        cron_expression=CRON,
        action=MessageAction(messages=[message]),
        missed="all" if fires_all else "fire_once",
        if_active="queue" if fires_all else "wake",
        retries_max=1,
    )


async def schedule(chore: Chore, agent: str, send: Send) -> Accepted | Rejected:
    """Make a schedule, and fire it by hand once besides its slots."""
    made = await send(chore.name, CreateSchedule(schedule=wanted(chore, agent)))
    if isinstance(made, Accepted) and chore.kind == "schedule and fire":
        await send(f"{chore.name} fired", FireSchedule(schedule_id=schedule_id(chore)))
    return made


# What must hold


def unfinished_schedules(scheduler: InMemorySchema, agent: InMemorySchema) -> list[str]:
    """What schedules still have to do."""
    agents = {row["id"] for row in agent.rows("agents")}
    schedules: list[Any] = scheduler.rows("schedules")
    left = [f"{row['id']} is {row['status']}" for row in schedules if row["status"] == "active"]
    left += [f"{row['id']} of nobody" for row in schedules if row["agent_id"] not in agents]
    firings: list[Any] = scheduler.rows("firings")
    left += [
        f"{row['id']} is {row['status']}"
        for row in firings
        if row["status"] in ("running", "retrying")
    ]
    left += [f"the lease of {key}" for key in scheduler.leases if key.startswith("schedule-")]
    if not len(scheduler.committed) == len(scheduler.log) == scheduler.published:
        left.append("the relay of scheduler")
    return left


def check_schedules(world: World) -> Iterator[str]:
    """Each slot is fired once or skipped for a reason, and has one run that did not fail."""
    database = world.shared.server.database
    scheduler, agent = database.schema("scheduler"), database.schema("agent")
    for chore in world.plan.chores:
        if chore.kind in SCHEDULING:
            events: list[Any] = scheduler.streams.get(schedule_id(chore), [])
            world.ledger.did["schedules"] += bool(events)
            yield from check_slots(chore, events)
            yield from check_runs(world, chore, events, agent)


def check_slots(chore: Chore, events: list[Any]) -> Iterator[str]:
    """The slots of one schedule, from its first to its last."""
    fired: Counter[datetime] = Counter()
    skipped = 0
    for event in events:
        if event.topic == "firing.started" and not event.payload.get("by_hand"):
            fired[datetime.fromisoformat(event.payload["slot"])] += 1
        elif event.topic == "slots.skipped":
            skipped += event.payload["count"]
            if chore.kind == "schedule all":
                yield f"{chore.name} skipped slots: {event.payload}"
    for slot, times in fired.items():
        if times > 1:
            yield f"{chore.name} fired {slot} {times} times"
    if not events or events[-1].topic == "schedule.deleted":
        return
    slots = next_slots(CRON, "UTC", events[0].occurred_at, LAST_SLOT_SECONDS)
    if set(fired) - set(slots) or len(fired) + skipped != len(slots):
        yield f"{chore.name} fired {len(fired)} and skipped {skipped} of {len(slots)} slots"


def check_runs(
    world: World, chore: Chore, events: list[Any], agent: InMemorySchema
) -> Iterator[str]:
    """The runs of one schedule, as the agent service has them."""
    accepted: dict[str, list[str]] = defaultdict(list)
    ended: dict[str, str] = {}
    for event in agent.committed:
        payload: Any = event.payload
        if event.topic == "run.accepted":
            metadata = payload["run"].get("metadata") or {}
            if metadata.get("schedule_id") == schedule_id(chore):
                accepted[metadata["firing_id"]].append(payload["run_id"])
        elif event.topic in ("run.completed", "run.failed", "run.cancelled"):
            ended[payload["run_id"]] = event.topic
    world.ledger.did["runs of schedules"] += sum(map(len, accepted.values()))
    for firing_id, runs in accepted.items():
        good = [run_id for run_id in runs if ended.get(run_id) != "run.failed"]
        if len(set(runs)) < len(runs) or len(good) > 1:
            yield f"{firing_id} of {chore.name} has the runs {runs}"
    completed = {
        event.payload["firing_id"]
        for event in events
        if event.topic == "firing.ended" and event.payload["outcome"] == "completed"
    }
    for firing_id in completed - accepted.keys():
        yield f"{firing_id} of {chore.name} completed without a run"
