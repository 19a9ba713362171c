"""Commands about sleeptime groups: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Bus, Clock, request_as_service
from libs.contracts.agent.agents import CreateAgent, DeleteAgent, UpdateAgent
from libs.contracts.bus_messages import (
    NOT_FOUND,
    UNPROCESSABLE,
    Accepted,
    Command,
    Context,
    Json,
    JsonObject,
    Rejected,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import CreateGroup, GroupConfig
from libs.contracts.groups.sleeptime import (
    FREQUENCY_DEFAULT,
    GENERATIONS_MAX,
    MESSAGE_BUFFER_MAX,
    MESSAGE_BUFFER_MIN,
    PERSONA_LABEL,
    VOICE_DESCRIPTION,
    CountRun,
    EnableSleeptime,
    EndSleeptime,
    sleeptime_agent,
    sleeptime_agent_name,
    sleeptime_group,
)
from libs.contracts.letta.enums import AgentType
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.work_lease import DueWork
from services.groups.adapters.group_queries import GroupQueries
from services.groups.adapters.sleeptime_queries import ReviewedAgent, SleeptimeQueries
from services.groups.domain.group import Group
from services.groups.domain.review_messages import PERSONA, VOICE_PERSONA
from services.groups.domain.sleeptime import RunFacts, count_run
from services.groups.engine.reviews import Reviews

VOICE_RULES: list[Json] = [
    {"type": "run_first", "tool_name": "store_memories"},
    {
        "type": "constrain_child_tools",
        "tool_name": "store_memories",
        "children": ["rethink_user_memory"],
    },
    {"type": "continue_loop", "tool_name": "rethink_user_memory"},
    {"type": "exit_loop", "tool_name": "finish_rethinking_memory"},
]


@dataclass(frozen=True, slots=True)
class SleeptimePorts:
    """What the handlers need."""

    bus: Bus
    clock: Clock
    queries: SleeptimeQueries
    groups: GroupQueries
    reviews: Reviews


class SleeptimeHandlers:
    """Makes sleeptime agents and their groups, and counts the runs that they review."""

    def __init__(self, ports: SleeptimePorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            EnableSleeptime: self.enable,
            EndSleeptime: self.end,
            CountRun: self.count,
        }

    async def enable(self, command: EnableSleeptime, work: UnitOfWork) -> Accepted | Rejected:
        """Make a sleeptime agent that shares the blocks of an agent, then their group. Handled
        again after a crash it finds what is there."""
        org = work.context.org
        agent = await self.ports.queries.reviewed_agent(org, command.agent_id)
        if agent is None:
            await self.take_back(sleeptime_group(command.agent_id), work.context)
            return missing_agent(command.agent_id)
        present = await self.ports.queries.sleeptime_groups(org, command.agent_id)
        if present:
            return Accepted(result={"group_id": present[0]})
        group = await self.next_group(command.agent_id, work)
        if group is None:
            reason = f"Agent {command.agent_id} has had {GENERATIONS_MAX} sleeptime groups: no more"
            return Rejected(code=UNPROCESSABLE, reason=reason)
        refused = await self.make_agent(group.id, agent, work.context)
        if refused is not None:
            return refused
        return await self.make_group(group, command.agent_id, agent, work)

    async def next_group(self, agent_id: str, work: UnitOfWork) -> Group | None:
        """The first sleeptime group of an agent that was not deleted."""
        for generation in range(GENERATIONS_MAX):
            group = await work.load_new(Group, sleeptime_group(agent_id, generation))
            if not group.deleted:
                return group
        return None

    async def make_agent(
        self, group_id: str, reviewed: ReviewedAgent, context: Context
    ) -> Rejected | None:
        """Have the agent service make the sleeptime agent."""
        agent_id = sleeptime_agent(group_id)
        command = CreateAgent(agent_id=agent_id, request=sleeptime_request(reviewed))
        cause = context.follow_up(derived_id("cmd", context.message_id, agent_id))
        reply = await request_as_service(self.ports.bus, command, cause)
        return None if isinstance(reply, Accepted) else reply

    async def make_group(
        self, group: Group, agent_id: str, reviewed: ReviewedAgent, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Decide the group of an agent and its sleeptime agent."""
        config = sleeptime_config(agent_id, sleeptime_agent(group.id), reviewed)
        facts = await self.ports.groups.facts(
            work.context.org, [agent_id, sleeptime_agent(group.id)], []
        )
        command = CreateGroup(group_id=group.id, config=config)
        refused = group.create(command, facts, at=self.ports.clock.now(), actor=work.context.actor)
        if refused is not None:  # the agent is gone meanwhile, or there are too many groups
            await self.take_back(group.id, work.context)
            return refused
        return Accepted(result={"group_id": group.id})

    async def take_back(self, group_id: str, context: Context) -> None:
        """Delete the sleeptime agent that was made for a group which will not be."""
        agent_id = sleeptime_agent(group_id)
        if await self.ports.queries.sleeptime_agents(context.org, [agent_id]):
            await self.send(DeleteAgent(agent_id=agent_id), agent_id + " again", context)

    async def end(self, command: EndSleeptime, work: UnitOfWork) -> Accepted | Rejected:
        """Delete the sleeptime agents of an agent, but for those that review others, too, then
        their groups; the agent stays, if it is there, and wants no sleeptime agent any more."""
        org, manager = work.context.org, command.agent_id
        groups = await self.ports.queries.sleeptime_groups(org, manager)
        if groups and await self.ports.queries.reviewed_agent(org, manager):
            disable = UpdateAgent(agent_id=manager, request={"enable_sleeptime": None})
            refused = await self.send(disable, manager, work.context)
            if refused:
                return refused
        for group_id in groups:
            group = await work.load(Group, group_id)
            members = group.members
            for agent_id in await self.ports.queries.own_sleeptime_agents(org, manager, members):
                refused = await self.send(DeleteAgent(agent_id=agent_id), agent_id, work.context)
                if refused:
                    return refused
            if group.present is not None:
                group.delete(at=self.ports.clock.now())
        return Accepted()

    async def send(self, command: Command, about: str, context: Context) -> Rejected | None:
        """Send a command; one whose agent is gone has nothing left to do."""
        cause = context.follow_up(derived_id("cmd", context.message_id, about))
        reply = await request_as_service(self.ports.bus, command, cause)
        if isinstance(reply, Rejected) and reply.code != NOT_FOUND:
            return reply
        return None

    async def count(self, command: CountRun, work: UnitOfWork) -> Accepted | Rejected:
        """Count the end of a run, and have a review begin after the commit, if it is time."""
        group = await work.load(Group, command.group_id)
        facts = await self.facts(group, command.run_id, work.context.org)
        run_ids = count_run(group, command.run_id, facts, at=self.ports.clock.now())
        if isinstance(run_ids, Rejected):
            return run_ids
        if run_ids:
            self.ports.reviews.begin_after_commit(DueWork(group.id, work.context.org), work)
        return Accepted(result={"run_ids": [*run_ids.values()]})

    async def facts(self, group: Group, run_id: str, org: str) -> RunFacts:
        """What a review depends on."""
        queries, config = self.ports.queries, group.present
        after = config.last_processed_message_id if config else None
        after_at = group.state.reviewed_at
        last = await queries.last_answer(org, run_id, after, after_at)
        if config is None or config.manager_type != "voice_sleeptime":
            return RunFacts(last)
        manager = config.manager_agent_id or ""
        return RunFacts(last, await queries.unreviewed_messages(org, manager, after, after_at))


def sleeptime_request(reviewed: ReviewedAgent) -> JsonObject:
    """The request for the sleeptime agent of an agent, as V1 has it."""
    is_voice = reviewed.agent_type == AgentType.voice_convo_agent
    kind = AgentType.voice_sleeptime_agent if is_voice else AgentType.sleeptime_agent
    persona = VOICE_PERSONA if is_voice else PERSONA
    request: JsonObject = {
        "name": sleeptime_agent_name(reviewed.name),
        "agent_type": kind.value,
        "block_ids": [*reviewed.block_ids],
        "memory_blocks": [{"label": PERSONA_LABEL, "value": persona}],
        "llm_config": reviewed.llm_config,
        "embedding_config": reviewed.embedding_config,
        "project_id": reviewed.project_id,
    }
    return {**request, "tool_rules": VOICE_RULES} if is_voice else request


def sleeptime_config(agent_id: str, member_id: str, reviewed: ReviewedAgent) -> GroupConfig:
    """The group of an agent and its sleeptime agent. Its counter begins so that the first review
    follows the run that makes the frequency full."""
    if reviewed.agent_type == AgentType.voice_convo_agent:
        return GroupConfig(
            description=VOICE_DESCRIPTION,
            agent_ids=[member_id],
            manager_type="voice_sleeptime",
            manager_agent_id=agent_id,
            max_message_buffer_length=MESSAGE_BUFFER_MAX,
            min_message_buffer_length=MESSAGE_BUFFER_MIN,
        )
    return GroupConfig(
        agent_ids=[member_id],
        manager_type="sleeptime",
        manager_agent_id=agent_id,
        sleeptime_agent_frequency=FREQUENCY_DEFAULT,
        turns_counter=0,
    )


def missing_agent(agent_id: str) -> Rejected:
    """The refusal for an agent that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Agent with ID {agent_id} not found")
