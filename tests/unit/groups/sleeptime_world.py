"""Sleeptime groups in memory: processes of the groups service, and agents that they are about."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import IncomingCommand
from libs.contracts.agent.agents import CreateAgent, DeleteAgent
from libs.contracts.agent.runs import ReviewableRunEnded
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, Context, Rejected
from libs.contracts.groups.groups import GroupConfig, GroupCreated
from libs.contracts.groups.sleeptime import SLEEPTIME_TYPES, Review
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from libs.work.agent_runs import AgentRuns, WantedRun
from libs.work.work_lease import DueWork
from services.groups import projections
from services.groups.adapters.sleeptime_queries import (
    LostSleeptimeGroup,
    ReviewedAgent,
    UnreviewedAgent,
)
from services.groups.domain.group import Group
from services.groups.domain.group_rules import GroupFacts, KnownAgent
from services.groups.domain.sleeptime import SaidMessage
from services.groups.engine.reviews import ReviewPorts, Reviews
from services.groups.handlers.sleeptime import SleeptimeHandlers, SleeptimePorts
from services.groups.policies.sleeptime import CountRuns
from tests.clock_and_ids import CountingIds, ManualClock
from tests.unit.given import NOW

ORG = "org-1"
AGENT = "agent-main"
ADA = ReviewedAgent(
    name="Ada",
    project_id="project-1",
    block_ids=["block-1"],
    enable_sleeptime=True,
    agent_type="letta_v1_agent",
    llm_config={"model": "gpt-4o-mini"},
    embedding_config={"embedding_model": "small"},
)


class AcceptingRuns:
    """Stands in for `AgentRuns`: notes each run once, and refuses what it is told to."""

    def __init__(self) -> None:
        self.wanted: dict[str, WantedRun] = {}
        self.starts = 0
        self.refusals: list[Rejected] = []

    async def start(self, wanted: WantedRun, context: Context) -> Rejected | None:
        self.starts += 1
        if self.refusals:
            return self.refusals.pop(0)
        self.wanted.setdefault(wanted.run_id, wanted)
        return None


class SleeptimeWorld:
    """The groups service in memory, and the agents that there are."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.database = InMemoryDatabase(self.clock.monotonic)
        self.agents: dict[str, ReviewedAgent] = {AGENT: ADA}
        self.said: list[SaidMessage] = []
        self.answered: dict[str, str] = {}
        self.refuses: Rejected | None = None
        self.deleted: set[str] = set()  # runs whose conversations are deleted
        self.sent: list[Command] = []
        self.runs = AcceptingRuns()
        self.bus = InMemoryBus(InMemoryNetwork())
        self.bus.request = self.take_request  # type: ignore[assignment, method-assign]
        self.start_process("process-1")

    def start_process(self, holder: str) -> None:
        """A process takes the place of the one before, or stands beside it."""
        self.locks = AggregateLocks()
        self.repository = Repository(
            InMemoryEventStore(self.database, "groups", holder), "groups", projections.project
        )
        ports = ReviewPorts(
            repository=self.repository,
            bus=self.bus,
            clock=self.clock,
            ids=CountingIds(),
            committed=lambda: None,
            locks=self.locks,
            queries=self,
            runs=cast(AgentRuns, self.runs),
        )
        self.reviews = Reviews(ports)
        handlers = SleeptimeHandlers(
            SleeptimePorts(self.bus, self.clock, self, cast(Any, self), self.reviews)
        )
        self.dispatcher = CommandDispatcher(self.repository, handlers.table())

    async def take_request(
        self, command: Command, context: Context, **_: object
    ) -> Accepted | Rejected:
        """The bus: commands of the groups service are handled, the agent service does as told."""
        if command.service == "groups":
            return await self.send(command, context.message_id)
        self.sent.append(command)
        if self.refuses is not None:
            return self.refuses
        if isinstance(command, CreateAgent):
            kind = str(command.request["agent_type"])
            self.agents[command.agent_id] = replace(ADA, agent_type=kind)
        elif isinstance(command, DeleteAgent) and self.agents.pop(command.agent_id, None) is None:
            return Rejected(code=NOT_FOUND, reason="gone")
        return Accepted()

    async def send(self, command: Command, message_id: str) -> Accepted | Rejected:
        """Handle a command, as often as it comes."""
        async with self.locks.hold(command.target):
            topic = f"{command.service}.{command.topic}"
            payload = command.model_dump_json().encode()
            context = Context(message_id, org=ORG)
            return await self.dispatcher.answer(IncomingCommand(topic, payload, context))

    async def begin(self, group_id: str, **config: Any) -> None:
        """Make a group."""
        work = self.repository.work(Context("setup", org=ORG))
        group = await work.load(Group, group_id)
        made = GroupConfig.model_validate({"manager_agent_id": AGENT, **config})
        group.record(GroupCreated, at=NOW, config=made)
        await work.commit()

    async def end_run(self, run_id: str) -> None:
        """Tell the service that a run of the agent has ended, as its log does."""
        self.answered[run_id] = f"message-of-{run_id}"
        event = ReviewableRunEnded(
            originator_id="conv-1",
            originator_version=1,
            timestamp=NOW,
            run_id=run_id,
            agent_id=AGENT,
        )
        await CountRuns(self.bus, self).run_ended(event, Context(f"event-{run_id}", org=ORG))

    async def group(self, group_id: str) -> Group:
        """A group as of now."""
        return await self.repository.load(Group, group_id, org=ORG)

    # What the service reads: the contract of `SleeptimeQueries`, and of `GroupQueries` in part

    async def reviewed_agent(self, org: str, agent_id: str) -> ReviewedAgent | None:
        return self.agents.get(agent_id)

    async def sleeptime_groups(self, org: str, agent_id: str) -> list[str]:
        return [
            str(row["id"])
            for row in self.database.schema("groups").rows("groups")
            if row["manager_agent_id"] == agent_id and row["manager_type"] in SLEEPTIME_TYPES
        ]

    async def sleeptime_agents(self, org: str, agent_ids: list[str]) -> list[str]:
        kinds = {each: self.agents[each].agent_type for each in agent_ids if each in self.agents}
        return [agent_id for agent_id, kind in kinds.items() if "sleeptime" in kind]

    async def own_sleeptime_agents(self, org: str, manager: str, agent_ids: list[str]) -> list[str]:
        others = {
            member
            for row in self.database.schema("groups").rows("groups")
            if row["manager_agent_id"] != manager
            for member in cast(list[str], row["agent_ids"])
        }
        found = await self.sleeptime_agents(org, agent_ids)
        return [agent_id for agent_id in found if agent_id not in others]

    async def last_answer(
        self, org: str, run_id: str, after_message_id: str | None, after_at: datetime | None
    ) -> str | None:
        return self.answered.get(run_id)

    async def unreviewed_messages(
        self, org: str, agent_id: str, after_message_id: str | None, after_at: datetime | None
    ) -> list[SaidMessage]:
        ids = [message.id for message in self.said]
        return self.said[ids.index(after_message_id) + 1 :] if after_message_id else self.said

    async def reviewed_messages(
        self, org: str, agent_id: str, review: Review
    ) -> list[list[dict[str, Any]]]:
        if review.run_id in self.deleted:
            return []
        span = f"{review.after_message_id} to {review.last_message_id}"
        return [[{"message_type": "user_message", "content": span}]]

    async def due_reviews(self) -> list[DueWork]:
        schema = self.database.schema("groups")
        now = self.database.clock()
        held = {key for key, lease in schema.leases.items() if lease.expires_at >= now}
        due = {str(row["group_id"]) for row in schema.rows("reviews")}
        return [DueWork(group_id, ORG) for group_id in sorted(due - held)]

    async def lost_groups(self) -> list[LostSleeptimeGroup]:
        return []

    async def agents_without_group(self) -> list[UnreviewedAgent]:
        return []

    async def facts(self, org: str, agent_ids: list[str], block_ids: list[str]) -> GroupFacts:
        known = {each: KnownAgent(each) for each in agent_ids if each in self.agents}
        return GroupFacts(known)
