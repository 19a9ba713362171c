"""The groups service in memory: commands in; events, rows, replies and commands to agents out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import BusUnavailable, IncomingCommand, outgoing
from libs.contracts.agent.agents import AttachBlock, DetachBlock
from libs.contracts.bus_messages import (
    COMMANDS,
    NOT_FOUND,
    UNPROCESSABLE,
    Accepted,
    Command,
    Context,
    Rejected,
)
from libs.contracts.groups.groups import (
    GROUPS_MAX,
    AddMember,
    AttachGroupBlock,
    CreateGroup,
    DeleteGroup,
    DetachGroupBlock,
    GroupConfig,
    RemoveMember,
    ShareGroupBlocks,
    UpdateGroup,
    UpdateGroupState,
)
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from services.groups.adapters.group_queries import LostPart, OtherSharing, UnequalGroup
from services.groups.domain.group_rules import GroupFacts, KnownAgent
from services.groups.handlers.block_sharing import PAIRS_MAX
from services.groups.handlers.groups import GroupHandlers
from services.groups.policies.group_cleanup import (
    AttachGroupBlocks,
    DetachDeletedBlocks,
    RemoveDeletedMembers,
)
from services.groups.projections import project
from tests.clock_and_ids import CountingIds, ManualClock

ORG = "org-1"
GROUP = "group-1"
PLAN, NOTES = "block-plan", "block-notes"


class LossyBus(InMemoryBus):
    """Loses the replies to the next `lost` commands."""

    lost = 0

    async def request(
        self, command: Command, context: Context, *, seconds_max: float = 10.0
    ) -> Accepted | Rejected:
        reply = await super().request(command, context, seconds_max=seconds_max)
        if self.lost:
            self.lost -= 1
            raise BusUnavailable("the reply is lost")
        return reply


class World:
    """Groups beside agents that remember which blocks they see, and replies to repeated commands
    as the agent service does."""

    def __init__(self, *agent_ids: str) -> None:
        database = InMemoryDatabase(lambda: 0.0)
        self.schema = database.schema("groups")
        repository = Repository(
            InMemoryEventStore(database, "groups", "groups-1"), "groups", project
        )
        self.clock, self.ids = ManualClock(), CountingIds()
        network = InMemoryNetwork()
        self.bus, self.to_agents = InMemoryBus(network), LossyBus(network)
        self.blocks: dict[str, list[str]] = {agent_id: [] for agent_id in agent_ids}
        self.labels = {PLAN: "plan", NOTES: "notes"}
        self.replies: dict[str, Accepted | Rejected] = {}
        self.commands: list[Command] = []
        self.groups_besides = 0
        handlers = GroupHandlers(self.to_agents, self, self.clock, AggregateLocks())
        self.shell = CommandDispatcher(repository, handlers.table())
        self.asked = 0

    async def start(self) -> World:
        await self.bus.serve("groups", self.shell.answer)
        await self.bus.serve("agent", self.answer_as_agents)
        return self

    async def answer_as_agents(self, incoming: IncomingCommand) -> Accepted | Rejected:
        command = COMMANDS[incoming.name].model_validate_json(incoming.payload)
        name = incoming.context.message_id
        if name not in self.replies:
            self.commands.append(command)
            self.replies[name] = self.decide(command)
        return self.replies[name]

    def decide(self, command: Command) -> Accepted | Rejected:
        assert isinstance(command, AttachBlock | DetachBlock)
        seen = self.blocks.get(command.agent_id)
        if seen is None:
            return Rejected(code=NOT_FOUND, reason="no such agent")
        has = command.block_id in seen
        if isinstance(command, DetachBlock):
            if has:
                seen.remove(command.block_id)
            return Accepted() if has else Rejected(code=NOT_FOUND, reason="not attached")
        if not has:
            seen.append(command.block_id)
        return Accepted(result={"attached": not has})

    async def facts(self, org: str, agent_ids: list[str], block_ids: list[str]) -> GroupFacts:
        return GroupFacts(
            {
                agent_id: KnownAgent(agent_id)
                for agent_id in agent_ids
                if agent_id in self.blocks and org == ORG
            },
            {block_id: self.labels[block_id] for block_id in block_ids if block_id in self.labels},
        )

    async def group_count(self, org: str) -> int:
        return len(self.rows()) + self.groups_besides

    async def shared_by_others(
        self, org: str, group_id: str, agent_ids: list[str]
    ) -> list[OtherSharing]:
        rows: list[Any] = list(self.schema.rows("shared_blocks"))
        return [
            OtherSharing(row["group_id"], f"{row['agent_id']} {row['block_id']}", row["status"])
            for row in rows
            if row["group_id"] != group_id and row["status"] != "had_before"
        ]

    async def lost_members(self, agent_ids: list[str] | None) -> list[LostPart]:
        return [
            LostPart(str(row["group_id"]), str(row["agent_id"]), ORG)
            for row in self.schema.rows("group_members")
            if row["agent_id"] not in self.blocks
        ]

    async def lost_blocks(self) -> list[LostPart]:
        return [
            LostPart(str(row["id"]), block_id, ORG)
            for row in self.rows()
            for block_id in row["fields"]["shared_block_ids"]
            if block_id not in self.labels
        ]

    async def unequal_groups(self, group_ids: list[str] | None) -> list[UnequalGroup]:
        wanted = {
            f"{row['id']} {agent_id} {block_id}"
            for row in self.rows()
            for agent_id in [*row["agent_ids"], *filter(None, [row["manager_agent_id"]])]
            for block_id in row["fields"]["shared_block_ids"]
        }
        rows: list[Any] = list(self.schema.rows("shared_blocks"))
        shared = {row["id"] for row in rows if row["status"] != "offered"}
        open_offers = {row["id"] for row in rows} - shared
        found = {name.partition(" ")[0] for name in (wanted ^ shared) | open_offers}
        return [
            UnequalGroup(group_id, ORG)
            for group_id in sorted(found)
            if group_ids is None or group_id in group_ids
        ]

    def rows(self) -> list[Any]:
        return list(self.schema.rows("groups"))

    async def ask(self, command: Command, org: str = ORG) -> Accepted | Rejected:
        self.asked += 1
        return await self.bus.request(command, Context(f"m-{self.asked}", org, "user-1"))

    async def make(self, group_id: str, agent_ids: list[str], *block_ids: str) -> None:
        """A group whose agents see its blocks."""
        config = GroupConfig(agent_ids=agent_ids, shared_block_ids=[*block_ids])
        assert isinstance(await self.ask(CreateGroup(group_id=group_id, config=config)), Accepted)
        await self.share(group_id)

    async def share(self, group_id: str = GROUP) -> None:
        for _ in range(4):
            reply = await self.ask(ShareGroupBlocks(group_id=group_id))
            assert isinstance(reply, Accepted)
            if not reply.result["left"]:
                return
        raise AssertionError("blocks are left to be shared")


async def test_a_group_of_another_organisation_is_nowhere() -> None:
    world = await World("agent-a").start()
    await world.make(GROUP, ["agent-a"])
    for command in (
        UpdateGroup(group_id=GROUP, changes={"description": "x"}),
        AddMember(group_id=GROUP, agent_id="agent-a"),
        UpdateGroupState(group_id=GROUP, document={"a": 1}),
        DeleteGroup(group_id=GROUP),
    ):
        reply = await world.ask(command, "org-2")
        assert isinstance(reply, Rejected)
        assert reply.code == NOT_FOUND
    foreign = CreateGroup(group_id="group-2", config=GroupConfig(agent_ids=["agent-a"]))
    reply = await world.ask(foreign, "org-2")
    assert isinstance(reply, Rejected)
    assert reply.code == NOT_FOUND
    assert len(world.rows()) == 1


async def test_groups_made_in_one_moment_do_not_pass_the_limit_together() -> None:
    world = await World("agent-a").start()
    world.groups_besides = GROUPS_MAX - 2
    config = GroupConfig(agent_ids=["agent-a"])
    replies = await asyncio.gather(
        *(world.ask(CreateGroup(group_id=f"group-{n}", config=config)) for n in range(5))
    )
    refused = [reply for reply in replies if isinstance(reply, Rejected)]
    assert [reply.code for reply in refused] == [UNPROCESSABLE] * 3
    assert len(world.rows()) == 2


async def test_rows_follow_the_members() -> None:
    world = await World("agent-a", "agent-b").start()
    await world.make(GROUP, ["agent-a"])
    await world.ask(AddMember(group_id=GROUP, agent_id="agent-b"))
    await world.ask(RemoveMember(group_id=GROUP, agent_id="agent-a"))
    [row] = world.rows()
    assert row["agent_ids"] == row["fields"]["agent_ids"] == ["agent-b"]
    assert [row["agent_id"] for row in world.schema.rows("group_members")] == ["agent-b"]
    await world.ask(DeleteGroup(group_id=GROUP))
    assert world.rows() == list(world.schema.rows("group_members")) == []


async def test_concurrent_writes_of_different_keys_both_live() -> None:
    world = await World("agent-a").start()
    await world.make(GROUP, ["agent-a"])
    await asyncio.gather(
        *(world.ask(UpdateGroupState(group_id=GROUP, document={f"k{n}": n})) for n in range(20))
    )
    [row] = world.rows()
    assert row["shared_state"] == {f"k{n}": n for n in range(20)}
    assert row["state_version"] == 20


async def test_what_an_agent_had_before_is_not_taken_back() -> None:
    world = await World("agent-a", "agent-b").start()
    world.blocks["agent-a"].append(PLAN)
    await world.make(GROUP, ["agent-a", "agent-b"], PLAN)
    assert world.blocks == {"agent-a": [PLAN], "agent-b": [PLAN]}
    await world.ask(DetachGroupBlock(group_id=GROUP, block_id=PLAN))
    await world.share()
    assert world.blocks == {"agent-a": [PLAN], "agent-b": []}
    assert list(world.schema.rows("shared_blocks")) == []


async def test_the_last_of_several_groups_takes_a_block_back() -> None:
    world = await World("agent-a").start()
    await world.make("group-1", ["agent-a"], PLAN)
    await world.make("group-2", ["agent-a"], PLAN)
    for group_id, left in (("group-1", [PLAN]), ("group-2", [])):
        await world.ask(DeleteGroup(group_id=group_id))
        await world.share(group_id)
        assert world.blocks["agent-a"] == left


async def test_a_sharing_whose_replies_were_lost_is_made_again_and_knows_what_it_gave() -> None:
    """The command to the agent has the same id, so its kept reply says that the block was new."""
    world = await World("agent-a").start()
    config = GroupConfig(agent_ids=["agent-a"], shared_block_ids=[PLAN])
    await world.ask(CreateGroup(group_id=GROUP, config=config))
    await world.ask(ShareGroupBlocks(group_id=GROUP))  # the offer
    world.to_agents.lost = 1
    incoming = outgoing(ShareGroupBlocks(group_id=GROUP), Context("m-0", ORG, "user-1"))
    with pytest.raises(BusUnavailable):
        await world.shell.answer(incoming)
    assert world.blocks["agent-a"] == [PLAN]
    assert [row["status"] for row in world.schema.rows("shared_blocks")] == ["offered"]
    policy = AttachGroupBlocks(world.bus, world, world.clock, world.ids)
    await policy.sweep()
    assert [row["status"] for row in world.schema.rows("shared_blocks")] == ["shared"]
    assert len(world.commands) == 1
    await world.ask(RemoveMember(group_id=GROUP, agent_id="agent-a"))
    policy.suspect(GROUP)
    await policy.sweep()
    assert world.blocks["agent-a"] == []


async def test_an_agent_that_leaves_before_its_offer_is_settled_loses_the_block() -> None:
    """The block was attached, and nobody has recorded that."""
    world = await World("agent-a", "agent-b").start()
    config = GroupConfig(agent_ids=["agent-a", "agent-b"], shared_block_ids=[PLAN])
    world.blocks["agent-b"].append(PLAN)
    await world.ask(CreateGroup(group_id=GROUP, config=config))
    await world.ask(ShareGroupBlocks(group_id=GROUP))
    world.to_agents.lost = 2
    incoming = outgoing(ShareGroupBlocks(group_id=GROUP), Context("m-0", ORG, "user-1"))
    with pytest.raises(BusUnavailable):
        await world.shell.answer(incoming)
    world.to_agents.lost = 0
    for agent_id in ("agent-a", "agent-b"):
        await world.ask(RemoveMember(group_id=GROUP, agent_id=agent_id))
    assert world.blocks == {"agent-a": [PLAN], "agent-b": [PLAN]}
    await AttachGroupBlocks(world.bus, world, world.clock, world.ids).sweep()
    assert world.blocks == {"agent-a": [], "agent-b": [PLAN]}
    assert list(world.schema.rows("shared_blocks")) == []


async def test_many_blocks_are_shared_a_bounded_number_at_a_time() -> None:
    agent_ids = [f"agent-{n}" for n in range(60)]
    world = await World(*agent_ids).start()
    config = GroupConfig(agent_ids=agent_ids, shared_block_ids=[PLAN, NOTES])
    await world.ask(CreateGroup(group_id=GROUP, config=config))
    for left in (120, 120 - PAIRS_MAX):
        reply = await world.ask(ShareGroupBlocks(group_id=GROUP))
        assert reply == Accepted(result={"left": left})
    assert len(world.commands) == PAIRS_MAX
    await AttachGroupBlocks(world.bus, world, world.clock, world.ids).sweep()
    assert all(set(seen) == {PLAN, NOTES} for seen in world.blocks.values())


async def test_deleted_agents_and_blocks_leave_their_groups() -> None:
    world = await World("agent-a", "agent-b").start()
    await world.make(GROUP, ["agent-a", "agent-b"], PLAN, NOTES)
    del world.blocks["agent-a"], world.labels[PLAN]
    ports = (world.bus, world, world.clock, world.ids)
    for policy in (
        RemoveDeletedMembers(*ports),
        DetachDeletedBlocks(*ports),
        AttachGroupBlocks(*ports),
    ):
        await policy.sweep()
    [row] = world.rows()
    assert (row["agent_ids"], row["fields"]["shared_block_ids"]) == (["agent-b"], [NOTES])
    shared = [(row["agent_id"], row["block_id"]) for row in world.schema.rows("shared_blocks")]
    assert shared == [("agent-b", NOTES)]
    await world.ask(AttachGroupBlock(group_id=GROUP, block_id=PLAN))
    assert row == world.rows()[0], "a block that is gone is not shared"
