"""Commands about schedules: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from libs.bus.command_dispatcher import Handler
from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, Rejected
from libs.contracts.scheduler.schedule_config import (
    NEW_CONVERSATION,
    GroupMessageAction,
    ScheduleConfig,
    ToolAction,
)
from libs.contracts.scheduler.schedules import (
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    ListNextSlots,
    PauseSchedule,
    ResumeSchedule,
    UpdateSchedule,
)
from libs.eventstore.unit_of_work import UnitOfWork
from services.scheduler.adapters.agent_tools import AgentTools
from services.scheduler.adapters.schedule_queries import ScheduleQueries
from services.scheduler.domain.schedule import Schedule
from services.scheduler.domain.schedule_rules import (
    refuse,
    refuse_one_more,
    refuse_without_effect,
)


@dataclass(slots=True, kw_only=True)
class SchedulePorts(ProcessPorts):
    """The ports of the handlers."""

    queries: ScheduleQueries
    tools: AgentTools


class ScheduleHandlers:
    """The handlers of commands to schedules. The time of each decision is that of the database."""

    def __init__(self, ports: SchedulePorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateSchedule: self.create_schedule,
            UpdateSchedule: self.update_schedule,
            PauseSchedule: self.pause_schedule,
            ResumeSchedule: self.resume_schedule,
            FireSchedule: self.fire_schedule,
            ListNextSlots: self.list_next_slots,
            DeleteSchedule: self.delete_schedule,
        }

    async def create_schedule(
        self, command: CreateSchedule, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Make a schedule of an agent."""
        config, org, ports = command.schedule, work.context.org, self.ports
        refused = await self.refuse_targets(config, org)
        if refused:
            return refused
        full = await self.refuse_one_more(config, work)
        schedule = await work.load_new(Schedule, config.id)
        full = None if schedule.exists else full
        refused = full or schedule.create(config, now=await ports.queries.now())
        return refused or Accepted(result={"schedule_id": schedule.id})

    async def refuse_one_more(self, config: ScheduleConfig, work: UnitOfWork) -> Rejected | None:
        """The refusal where there are as many schedules that have not completed as may be."""
        org, ports = work.context.org, self.ports
        # Those that are made in the same moment are counted one after the other.
        await work.hold(ports.locks.hold(f"schedules of {org}"))
        counts = await ports.queries.counts(org, config.agent_id)
        return refuse_one_more(counts.of_agent, counts.of_org)

    async def refuse_targets(self, config: ScheduleConfig, org: str) -> Rejected | None:
        """The refusal of a schedule of something that is not there, or that cannot be done."""
        queries, action = self.ports.queries, config.action
        if not await queries.has_agent(org, config.agent_id):
            reason = f"Agent with id '{config.agent_id}' not found"
            return Rejected(code=NOT_FOUND, reason=reason)
        refused = refuse_without_effect(config)
        if refused:
            return refused
        is_named = config.conversation_id not in (None, NEW_CONVERSATION)
        if is_named and not await queries.has_conversation(
            org, config.agent_id, config.conversation_id or ""
        ):
            return refuse(
                f"conversation_id: agent {config.agent_id} has no conversation"
                f" '{config.conversation_id}': leave it out for the agent's own"
            )
        if isinstance(action, GroupMessageAction) and not await queries.has_group(
            org, action.group_id
        ):
            return refuse(
                f"action.group_id: there is no group '{action.group_id}': create it first"
            )
        if isinstance(action, ToolAction):
            tool = await self.ports.tools.tool_of_agent(org, config.agent_id, action.tool_name)
            if tool is None:
                what = f"agent {config.agent_id} has no tool '{action.tool_name}': attach it first"
                return refuse(f"action.tool_name: {what}")
            if not tool.runs_alone:
                what = f"'{action.tool_name}' is called in a conversation: send a message instead"
                return refuse(f"action.tool_name: {what}")
        return None

    async def update_schedule(
        self, command: UpdateSchedule, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Change the given fields of a schedule."""
        schedule = await work.load(Schedule, command.schedule_id)
        was_completed = schedule.state.completed
        refused = schedule.update(command.changes, now=await self.ports.queries.now())
        config = schedule.present
        if not refused and config and was_completed and not schedule.state.completed:
            refused = await self.refuse_one_more(config, work)
        if not refused and config and {"action", "conversation_id"} & command.changes.keys():
            refused = await self.refuse_targets(config, work.context.org)
        return refused or Accepted()

    async def pause_schedule(self, command: PauseSchedule, work: UnitOfWork) -> Accepted | Rejected:
        """Let no slot fire until the schedule is resumed."""
        schedule = await work.load(Schedule, command.schedule_id)
        return schedule.pause(now=await self.ports.queries.now()) or Accepted()

    async def resume_schedule(
        self, command: ResumeSchedule, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Let slots fire again, from now on."""
        schedule = await work.load(Schedule, command.schedule_id)
        return schedule.resume(now=await self.ports.queries.now()) or Accepted()

    async def fire_schedule(self, command: FireSchedule, work: UnitOfWork) -> Accepted | Rejected:
        """Fire a schedule besides its slots, or a dead letter again; a sweeper starts the run."""
        schedule = await work.load(Schedule, command.schedule_id)
        context, now = work.context, await self.ports.queries.now()
        firing_id = command.firing_id
        if firing_id:
            refused = schedule.fire_again(firing_id, now=now)
            if refused:
                return refused
        else:
            fired = schedule.fire(context.message_id, context.correlation_id, now=now)
            if isinstance(fired, Rejected):
                return fired
            firing_id = fired
        run_id = schedule.state.open[firing_id].run_id
        started = run_id if run_id.startswith("run-") else None
        return Accepted(result={"firing_id": firing_id, "run_id": started})

    async def list_next_slots(
        self, command: ListNextSlots, work: UnitOfWork
    ) -> Accepted | Rejected:
        """List the next slots of a schedule."""
        schedule = await work.load(Schedule, command.schedule_id)
        slots = schedule.next_slots(command.count, now=await self.ports.queries.now())
        if isinstance(slots, Rejected):
            return slots
        return Accepted(result={"times": [slot.isoformat() for slot in slots]})

    async def delete_schedule(
        self, command: DeleteSchedule, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Remove a schedule with its firings."""
        schedule = await work.load(Schedule, command.schedule_id)
        now = await self.ports.queries.now()
        return schedule.delete(if_over=command.if_over, now=now) or Accepted()
