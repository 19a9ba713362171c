"""Drive the runs of groups: decide who is asked, ask, and record what came of it.

One attempt drives the runs of one group, one after the other, under the lease of the group's
conversation. A member run is recorded before its member is asked, under an id that follows from the
run and the member run, and so is what came of it: whoever dies in between, each member run has one
answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.process_ports import ProcessPorts
from libs.contracts.agent.conversations import DeleteConversation
from libs.contracts.bus_messages import NOT_FOUND, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.group_runs import group_run_deltas
from libs.eventstore import failpoints
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.acceptance import ask_until_accepted
from libs.work.agent_runs import AgentRuns
from libs.work.leased_work import LeasedWork
from libs.work.progress import publish_progress
from libs.work.work_lease import DueWork, WorkLease
from services.groups.adapters.group_run_queries import GroupRunQueries
from services.groups.domain.conversations.group_conversation import (
    GroupConversation,
    MemberRunOutcome,
)
from services.groups.domain.conversations.group_conversation_state import MemberCleanup, MemberRun
from services.groups.domain.conversations.run_steps import RunView, Step, close, take_step
from services.groups.domain.group import Group
from services.groups.engine.member_runs import MemberRuns
from services.groups.engine.speaker_choice import SpeakerChoice

log = logging.getLogger(__name__)

# The groups that a process has answer at once, and those of one organisation.
GROUPS_AT_ONCE_MAX, ORGANISATION_GROUPS_MAX = 256, 192
DELETED = "The group was deleted"


@dataclass(slots=True, kw_only=True)
class GroupRunPorts(ProcessPorts):
    """What the runs of groups need."""

    queries: GroupRunQueries
    agent_runs: AgentRuns


class GroupRuns(LeasedWork[DueWork]):
    """The conversations of groups in which this process has members answer."""

    name = "group conversation"
    ports: GroupRunPorts

    def __init__(self, ports: GroupRunPorts) -> None:
        places = FairSemaphore(
            GROUPS_AT_ONCE_MAX,
            of_organisation_max=ORGANISATION_GROUPS_MAX,
            users="groups",
            thing="place",
        )
        super().__init__(ports, places)

    async def due(self) -> Sequence[DueWork]:
        """The conversations with something to do that nobody holds a lease for."""
        return await self.ports.queries.due_conversations()

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Have the members of a group answer until nothing waits any more."""
        attempt = GroupAttempt(self.ports, lease)
        try:
            await attempt.run()
        finally:
            await attempt.stop()

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that the run of a group that is under way has failed."""
        conversation = await unit.load(GroupConversation, work.id)
        conversation.give_up(reason, at=self.ports.clock.now())

    def publish_end(self, org: str, run_id: str, what: JsonObject) -> None:
        """Publish the end of a run that was decided outside of an attempt."""
        self.aside(publish_progress(self.ports.bus, group_run_deltas(org, run_id), what))


class GroupAttempt:
    """One process's attempt at what there is to do in the conversation of a group."""

    def __init__(self, ports: GroupRunPorts, lease: WorkLease[DueWork]) -> None:
        self.ports = ports
        self.lease = lease
        self.hops: dict[str, asyncio.Task[None]] = {}
        self.member_runs = MemberRuns(
            ports.bus, ports.clock, ports.agent_runs, self.still_takes_part
        )
        self.choice = SpeakerChoice(ports.bus, ports.clock)

    async def run(self) -> None:
        """Go on until nothing is left to be done, or the lease is lost."""
        while True:
            step = await self.lease.record(self.step, release=lambda step: step.is_idle)
            await self.tell(step)
            if step.is_idle:
                return
            if step.cleanups and await self.withdraw(step):
                return
            if step.view is not None:
                if step.asks_model:
                    await self.choose(step.view)
                    continue
                await self.answer(step.view)

    async def step(self, unit: UnitOfWork) -> Step:
        """Decide what happens next in the conversation."""
        conversation = await unit.load(GroupConversation, self.lease.work.id)
        at = self.ports.clock.now()
        group = await unit.load(Group, conversation.state.group_id)
        config = group.present
        if config is None:
            return close(conversation, DELETED, at=at)
        people = await self.ports.queries.participants(
            self.lease.work.org,
            [*config.agent_ids, *([config.manager_agent_id] if config.manager_agent_id else [])],
        )
        return take_step(conversation, config, group.state.shared_state, people, at=at)

    async def still_takes_part(self, hop: MemberRun) -> bool:
        """Whether the answer of a member is still wanted: it is in the group, and nobody cancelled
        the run."""
        unit = self.lease.unit()
        conversation = await unit.load(GroupConversation, self.lease.work.id)
        group = await unit.load(Group, conversation.state.group_id)
        config = group.present
        run = conversation.state.active
        if (
            config is None
            or run is None
            or hop.run_id not in [each.run_id for each in run.open_member_runs]
        ):
            return False
        return hop.agent_id in (*config.agent_ids, config.manager_agent_id)

    async def answer(self, view: RunView) -> None:
        """Have the open member runs answered, until the first of them has been."""
        for hop in view.run.open_member_runs:
            if hop.run_id not in self.hops:
                self.hops[hop.run_id] = asyncio.create_task(self.drive(view, hop))
        if not self.hops:
            return
        await asyncio.wait(self.hops.values(), return_when=asyncio.FIRST_COMPLETED)
        for run_id, task in [*self.hops.items()]:
            if task.done():
                del self.hops[run_id]
                task.result()

    async def drive(self, view: RunView, hop: MemberRun) -> None:
        """Have one member answer, and record what it said."""
        outcome = await self.member_runs.outcome(view, hop, self.lease.context)
        failpoints.reach("after_group_hop")
        await self.end(view.run.id, hop.hop, outcome)

    async def end(self, run_id: str, number: int, outcome: MemberRunOutcome) -> None:
        """Record what came of a member run, once, and publish that it is over."""

        async def decide(unit: UnitOfWork) -> bool:
            conversation = await unit.load(GroupConversation, self.lease.work.id)
            return conversation.end_member_run(run_id, number, outcome, at=self.ports.clock.now())

        if await self.lease.record(decide, release=False, advances=True):
            await self.publish(run_id, {"hop": number})

    async def choose(self, view: RunView) -> None:
        """Have a model pick who speaks, and record that."""
        choice = await self.choice.choose(view, self.lease.context)

        async def decide(unit: UnitOfWork) -> None:
            conversation = await unit.load(GroupConversation, self.lease.work.id)
            run = conversation.state.active
            if run is not None and run.id == view.run.id and not run.next_speaker and not run.hops:
                conversation.select_speaker(choice.agent_id, choice.by, at=self.ports.clock.now())

        await self.lease.record(decide, release=False)

    async def tell(self, step: Step) -> None:
        """Publish which runs have ended."""
        for run_id, status in step.ended.items():
            await self.publish(run_id, {"end": status})

    async def publish(self, run_id: str, what: JsonObject) -> None:
        """Publish progress of a run to the clients that wait for it."""
        subject = group_run_deltas(self.lease.work.org, run_id)
        await publish_progress(self.ports.bus, subject, what)

    async def withdraw(self, step: Step) -> bool:
        """Cancel the runs, and delete the conversations, that nobody waits for any more. Returns
        whether nothing is left to be done, and the lease is given back with that: nobody would take
        it again if the group is gone."""
        for cleanup in step.cleanups:
            await self.withdraw_one(cleanup)
        run_ids = [cleanup.run_id for cleanup in step.cleanups if cleanup.run_id]
        conversation_ids = [
            cleanup.conversation_id for cleanup in step.cleanups if not cleanup.run_id
        ]

        async def decide(unit: UnitOfWork) -> bool:
            conversation = await unit.load(GroupConversation, self.lease.work.id)
            conversation.record_withdrawal(run_ids, conversation_ids, at=self.ports.clock.now())
            return conversation.state.is_idle

        return await self.lease.record(decide, release=bool)

    async def withdraw_one(self, cleanup: MemberCleanup) -> None:
        """Cancel one run, or delete one conversation. What is gone already is refused, and nothing
        is left of it."""
        task = self.hops.pop(cleanup.run_id, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if cleanup.run_id:
            await self.member_runs.withdraw(cleanup, self.lease.context)
            return
        command = DeleteConversation(conversation_id=cleanup.conversation_id)
        context = self.lease.context.follow_up(derived_id("delete", cleanup.conversation_id))
        reply = await ask_until_accepted(self.ports.bus, self.ports.clock, command, context)
        if isinstance(reply, Rejected) and reply.code != NOT_FOUND:
            log.error("%s is not deleted: %s", cleanup.conversation_id, reply.reason)

    async def stop(self) -> None:
        """Let go of the member runs that are under way: another attempt goes on with them."""
        tasks = list(self.hops.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
