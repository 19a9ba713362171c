"""Commands about messages to groups: load, decide, save, reply; members answer later."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Clock
from libs.contracts.bus_messages import CONFLICT, INVALID, NOT_FOUND, Accepted, Command, Rejected
from libs.contracts.groups.group_runs import (
    CancelGroupRun,
    EditGroupMessage,
    GroupRunCommand,
    ResetGroupMessages,
    StartGroupRun,
)
from libs.contracts.groups.groups import GroupConfig
from libs.contracts.letta.error_bodies import not_found
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.work_lease import DueWork
from services.groups.adapters.group_message_queries import GroupMessageQueries
from services.groups.domain.conversations.group_conversation import GroupConversation
from services.groups.domain.conversations.refusals import no_such_message
from services.groups.domain.conversations.run_steps import members_of
from services.groups.domain.group import Group
from services.groups.engine.group_runs import GroupRuns

RESET = "The messages of the group were reset"
CANCELLED = "A client cancelled it"
# The types of managers of which no member can take the place.
NEED_MANAGER = ("supervisor", "sleeptime", "voice_sleeptime")


class GroupRunHandlers:
    """Starts the runs of groups, ends them before their time, and edits transcripts."""

    def __init__(self, runs: GroupRuns, queries: GroupMessageQueries, clock: Clock) -> None:
        self.runs = runs
        self.queries = queries
        self.clock = clock

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            StartGroupRun: self.start_run,
            CancelGroupRun: self.cancel_runs,
            EditGroupMessage: self.edit_message,
            ResetGroupMessages: self.reset_messages,
        }

    async def start_run(self, command: StartGroupRun, work: UnitOfWork) -> Accepted | Rejected:
        """Accept messages to a group, and have its members answer once that is durable."""
        config = await self.config_of(command, work)
        if isinstance(config, Rejected):
            return config
        refused = refusal_of_members(command, config)
        if refused:
            return refused
        conversation = await work.load(GroupConversation, command.target)
        if conversation.run_of(command) is None and await self.lacks_manager(config, work):
            return manager_is_gone(config)
        run_id = conversation.accept(command, config.manager_type, at=self.clock.now())
        if isinstance(run_id, Rejected):
            return run_id
        self.begin(conversation, work)
        return Accepted(result={"run_id": run_id, "request_hash": command.request_hash})

    async def cancel_runs(self, command: CancelGroupRun, work: UnitOfWork) -> Accepted | Rejected:
        """End runs at once; their members' runs are cancelled behind them."""
        config = await self.config_of(command, work)
        if isinstance(config, Rejected):
            return config
        conversation = await work.load(GroupConversation, command.target)
        outcome = conversation.cancel(command.run_ids, CANCELLED, at=self.clock.now())
        if isinstance(outcome, Rejected):
            return outcome
        gone = [run_id for run_id, status in outcome.items() if status == "cancelled"]
        self.let_go(conversation, gone, work)
        return Accepted(result={**outcome})

    async def edit_message(
        self, command: EditGroupMessage, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Change a message of the transcript."""
        config = await self.config_of(command, work)
        if isinstance(config, Rejected):
            return config
        org = work.context.org
        if not await self.queries.has_message(org, command.group_id, command.message_id):
            return no_such_message(command.message_id)
        conversation = await work.load(GroupConversation, command.target)
        conversation.edit(command.message_id, command.content, at=self.clock.now())
        return Accepted()

    async def reset_messages(
        self, command: ResetGroupMessages, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Empty the transcript; what is under way is cancelled."""
        config = await self.config_of(command, work)
        if isinstance(config, Rejected):
            return config
        conversation = await work.load(GroupConversation, command.target)
        unended = [run.id for run in conversation.state.queue]
        unended += [conversation.state.active.id] if conversation.state.active else []
        conversation.reset(group_id=command.group_id, reason=RESET, at=self.clock.now())
        self.let_go(conversation, unended, work)
        return Accepted()

    async def config_of(self, command: GroupRunCommand, work: UnitOfWork) -> GroupConfig | Rejected:
        """What the group is that a command is about, or the refusal where there is none."""
        group = await work.load(Group, command.group_id)
        if group.present is None:
            reason = str(not_found("group", command.group_id)["detail"])
            return Rejected(code=NOT_FOUND, reason=reason)
        return group.present

    async def lacks_manager(self, config: GroupConfig, work: UnitOfWork) -> bool:
        """Whether nobody could answer, since the manager that has to was deleted."""
        if config.manager_type not in NEED_MANAGER or not config.manager_agent_id:
            return False
        queries = self.runs.ports.queries
        return not await queries.participants(work.context.org, [config.manager_agent_id])

    def begin(self, conversation: GroupConversation, work: UnitOfWork) -> None:
        """Have the members asked, once the commit is made."""
        self.runs.begin_after_commit(DueWork(conversation.id, work.context.org), work)

    def let_go(self, conversation: GroupConversation, run_ids: list[str], work: UnitOfWork) -> None:
        """Tell the clients that wait for cancelled runs, and have what is left of them go. An
        attempt that is under way is cancelled: it waits for members that nobody waits for."""

        def tell(_: int | None) -> None:
            for run_id in run_ids:
                self.runs.publish_end(work.context.org, run_id, {"end": "cancelled"})
            self.runs.cancel(conversation.id)

        work.after_commit.append(tell)
        self.begin(conversation, work)


def refusal_of_members(command: StartGroupRun, config: GroupConfig) -> Rejected | None:
    """The refusal of messages to nobody, or to agents that are no members."""
    if not members_of(config):
        reason = (
            f"Group {command.group_id} has no members: add one with"
            " POST /v1/agent-groups/{group_id}/members, then send again"
        )
        return Rejected(code=INVALID, reason=reason)
    strangers = [each for each in command.recipients if each not in members_of(config)]
    if strangers:
        reason = (
            f"`recipients`: {strangers[0]} is no member of group {command.group_id}: name members,"
            " or leave this out to address all"
        )
        return Rejected(code=INVALID, reason=reason)
    return None


def manager_is_gone(config: GroupConfig) -> Rejected:
    """The refusal of messages that a manager would have to answer that was deleted."""
    reason = (
        f"`manager_agent_id`: Agent {config.manager_agent_id} does not exist any more, and a group"
        f" of the type {config.manager_type} answers by it: set another one with PATCH"
        " /v1/agent-groups/{group_id}, then send again"
    )
    return Rejected(code=CONFLICT, reason=reason)
