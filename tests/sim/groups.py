"""Groups in the simulated world: members answer, join and leave, share a block and write one state
while processes die, freeze and are cut off."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from libs.bus.service_runner import Runtime
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.group_runs import GroupMessage, StartGroupRun
from libs.contracts.groups.groups import (
    AddMember,
    CreateGroup,
    DeleteGroup,
    GroupConfig,
    RemoveMember,
    ShareGroupBlocks,
    UpdateGroupState,
)
from libs.contracts.letta.blocks import BlockState
from libs.contracts.memory.blocks import CreateBlocks
from libs.eventstore.in_memory_database import InMemorySchema
from services.groups import app as groups_app
from services.groups.handlers.groups import GroupHandlers
from services.groups.policies.group_cleanup import (
    AttachGroupBlocks,
    DetachDeletedBlocks,
    RemoveDeletedMembers,
)
from tests.sim.plan import GROUPING, Chore
from tests.sim.reads import OverTheWire
from tests.unit.given import NOW
from tests.unit.groups.in_memory_queries import (
    InMemoryAgentRunQueries,
    InMemoryGroupQueries,
    InMemoryGroupRunQueries,
)

if TYPE_CHECKING:
    from tests.sim.world import World

LABEL = "shared by"
WRITERS = 4
RUNS = 2
ENDED = ("group_run.completed", "group_run.failed", "group_run.cancelled")
MANAGER_TYPES = {"round robin": "round_robin", "broadcast": "broadcast"}

type Send = Callable[[str, Command], Awaitable[Accepted | Rejected]]


class SimGroupQueries(OverTheWire, reads=InMemoryGroupQueries):
    """Keeps the contract of `GroupQueries`."""


class SimGroupRunQueries(OverTheWire, reads=InMemoryGroupRunQueries):
    """Keeps the contracts of `GroupRunQueries` and of `GroupMessageQueries`."""


class SimAgentRunQueries(OverTheWire, reads=InMemoryAgentRunQueries):
    """Keeps the contract of `AgentRunQueries`."""


PATCHED: list[tuple[Any, str, Any]] = [
    (groups_app, "PostgresGroupRunQueries", SimGroupRunQueries),
    (groups_app, "PostgresGroupMessageQueries", SimGroupRunQueries),
    (groups_app, "PostgresAgentRunQueries", SimAgentRunQueries),
    *(
        (policy, "every_seconds", 10.0)
        for policy in (AttachGroupBlocks, DetachDeletedBlocks, RemoveDeletedMembers)
    ),
]


async def wire(runtime: Runtime) -> None:
    """What `services.groups.app` wires for groups and their messages, on simulated adapters."""
    groups: Any = SimGroupQueries(runtime.database)  # type: ignore[arg-type]
    handlers = GroupHandlers(runtime.bus, groups, runtime.clock, runtime.service.locks)
    await runtime.service.handle({**handlers.table(), **groups_app.answer_in_groups(runtime)})
    await groups_app.keep_groups_true(runtime, groups)


def group_id(chore: Chore) -> str:
    """The group that a chore makes."""
    return derived_id("group", chore.name)


def block_id(chore: Chore) -> str:
    """The block that its members share, and nobody else has."""
    return derived_id("block", "of", chore.name)


def of_group(label: str) -> bool:
    """Whether a block is that of a group."""
    return label.startswith(LABEL)


def group_run_id(chore: Chore, number: int) -> str:
    """A run of the group."""
    return derived_id("group_run", chore.name, str(number))


async def form_group(chore: Chore, agents: list[str], send: Send) -> Accepted | Rejected:
    """Make a group, say something to it, and meanwhile change its members and its state."""
    group, block = group_id(chore), block_id(chore)
    state = BlockState(id=block, label=f"{LABEL} {chore.name}", value="", limit=1_000)
    await send(f"{chore.name} block", CreateBlocks(blocks=[state]))
    kind, _, ends = chore.kind.partition(" and ")
    config = GroupConfig(
        name=chore.name,
        agent_ids=agents,
        manager_type=MANAGER_TYPES[kind],  # type: ignore[arg-type]
        max_turns=4 if kind == "round robin" else None,
        shared_block_ids=[block],
    )
    made = await send(chore.name, CreateGroup(group_id=group, config=config))
    if isinstance(made, Rejected):
        return made
    await asyncio.gather(
        send(f"{chore.name} shares", ShareGroupBlocks(group_id=group)),
        *(say(chore, number, send) for number in range(RUNS)),
        *(write(chore, number, send) for number in range(WRITERS)),
        leave_and_come_back(chore, agents[0], send),
    )
    if ends == "delete":
        await send(f"{chore.name} goes", DeleteGroup(group_id=group))
    return made


async def say(chore: Chore, number: int, send: Send) -> None:
    """Send a message to the group; it is answered in its own time."""
    message = GroupMessage(
        id=derived_id("message", chore.name, str(number)),
        content=f"What do you think of {chore.name}?",
        created_at=NOW + timedelta(seconds=chore.at),
    )
    command = StartGroupRun(
        group_id=group_id(chore),
        run_id=group_run_id(chore, number),
        messages=[message],
        created_at=message.created_at,
    )
    await send(f"{chore.name} said {number}", command)


async def write(chore: Chore, number: int, send: Send) -> None:
    """Write one key of the shared state."""
    document: Any = {f"key {number}": number}
    command = UpdateGroupState(group_id=group_id(chore), document=document)
    await send(f"{chore.name} wrote {number}", command)


async def leave_and_come_back(chore: Chore, agent: str, send: Send) -> None:
    """A member leaves while others answer; in every second group it comes back."""
    group = group_id(chore)
    await asyncio.sleep(1.0)
    await send(f"{chore.name} left", RemoveMember(group_id=group, agent_id=agent))
    if len(chore.name) % 2:
        await send(f"{chore.name} came", AddMember(group_id=group, agent_id=agent))


# What must hold


def unfinished_groups(groups: InMemorySchema, agent: InMemorySchema) -> list[str]:
    """What groups still have to do."""
    agents = {row["id"] for row in agent.rows("agents")}
    left = [
        f"the conversation of {row['group_id']}"
        for row in groups.rows("group_conversations")
        if row["is_pending"]
    ]
    left += [
        f"{row['agent_id']} in {row['group_id']}"
        for row in groups.rows("group_members")
        if row["agent_id"] not in agents
    ]
    left += [f"the blocks of {name}" for name in sorted(unequal(groups, agent))]
    left += [f"the lease of {key}" for key in groups.leases if key.startswith("group")]
    if not len(groups.committed) == len(groups.log) == groups.published:
        left.append("the relay of groups")
    return left


def unequal(groups: InMemorySchema, agent: InMemorySchema) -> set[str]:
    """The groups that have still to share a block, or to take one back."""
    agents = {row["id"] for row in agent.rows("agents")}
    rows: list[Any] = groups.rows("groups")
    wanted = {
        f"{row['id']} {agent_id} {shared}"
        for row in rows
        for agent_id in row["agent_ids"]
        for shared in row["fields"]["shared_block_ids"]
        if agent_id in agents
    }
    pairs: list[Any] = groups.rows("shared_blocks")
    settled = {row["id"] for row in pairs if row["status"] != "offered"}
    offered = {row["id"] for row in pairs} - settled
    return {name.partition(" ")[0] for name in (wanted ^ settled) | offered}


def check_groups(world: World) -> Iterator[str]:
    """Each run and each hop ends once, a hop has one run of a member, all that was written to the
    state is there, and members alone see the shared block."""
    database = world.shared.server.database
    groups, agent = database.schema("groups"), database.schema("agent")
    for chore in world.plan.chores:
        if chore.kind in GROUPING:
            world.ledger.did["groups"] += group_id(chore) in groups.streams
            yield from check_state(chore, groups)
            yield from check_shared_block(chore, groups, agent)
    yield from check_group_runs(world, groups, agent)


def check_state(chore: Chore, groups: InMemorySchema) -> Iterator[str]:
    """Writers of different keys both live."""
    rows: list[Any] = [row for row in groups.rows("groups") if row["id"] == group_id(chore)]
    for row in rows:
        wanted = {f"key {number}": number for number in range(WRITERS)}
        if row["shared_state"] != wanted or row["state_version"] != WRITERS:
            yield f"the state of {chore.name} is {row['shared_state']}"


def check_shared_block(
    chore: Chore, groups: InMemorySchema, agent: InMemorySchema
) -> Iterator[str]:
    """The block of a group is seen by its members, and by nobody else."""
    rows: list[Any] = [row for row in groups.rows("groups") if row["id"] == group_id(chore)]
    members = {agent_id for row in rows for agent_id in row["agent_ids"]}
    agents: list[Any] = agent.rows("agents")
    seeing = {row["id"] for row in agents if block_id(chore) in row["block_ids"]}
    if seeing != members & {row["id"] for row in agents}:
        yield f"the block of {chore.name} is seen by {sorted(seeing)}, members are {members}"


def check_group_runs(world: World, groups: InMemorySchema, agent: InMemorySchema) -> Iterator[str]:
    """What became of messages to groups."""
    facts: Counter[tuple[str, str]] = Counter()
    member_runs: set[str] = set()
    for event in groups.committed:
        payload: Any = event.payload
        if event.topic in ("group_hop.started", "group_hop.ended"):
            facts[event.topic, f"{payload['run_id']} {payload['hop']}"] += 1
            member_runs |= {payload["member_run_id"]} if "member_run_id" in payload else set()
        elif event.topic == "group_run.accepted" or event.topic in ENDED:
            kind = "group_run.accepted" if event.topic == "group_run.accepted" else "ended"
            facts[kind, payload["run_id"]] += 1
    world.ledger.did["hops of groups"] += len(member_runs)
    yield from (
        f"{name} {what} {times} times" for (what, name), times in facts.items() if times > 1
    )
    accepted = {name for what, name in facts if what == "group_run.accepted"}
    if still_open := accepted - {name for what, name in facts if what == "ended"}:
        yield f"{sorted(still_open)} never ended"
    for event in agent.committed:
        payload = event.payload
        if event.topic == "run.accepted":
            about = payload["run"].get("metadata") or {}
            if about.get("run_type") == "group" and payload["run_id"] not in member_runs:
                yield f"{payload['run_id']} answers for no hop of {about.get('group_run_id')}"
