"""Commands about runs: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import fresh_ids
from libs.contracts.agent.approvals import AnswerApproval, StartClientRun
from libs.contracts.agent.called_runs import StartCalledRun
from libs.contracts.agent.compaction import CompactConversation
from libs.contracts.agent.conversations import CancelRuns, StartRun
from libs.contracts.agent.run_deletion import DeleteRun
from libs.contracts.agent.run_with_options import StartRunWithOptions
from libs.contracts.bus_messages import (
    NOT_FOUND,
    UNPROCESSABLE,
    Accepted,
    Command,
    Context,
    Rejected,
)
from libs.contracts.letta.error_bodies import not_found
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.custom_tool_queries import with_custom_tools
from services.agent.domain.agents.agent import Agent, AgentDesign, missing
from services.agent.domain.agents.configuration_overrides import design_of_run
from services.agent.domain.conversations.approval_resolution import answer
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_lifecycle import missing_in
from services.agent.domain.conversations.conversation_state import overtaken_by
from services.agent.domain.prompts.compaction import summary_if_idle
from services.agent.domain.runs.agent_call_deadlocks import refused_call
from services.agent.domain.runs.run_accepted_events import Terms
from services.agent.domain.runs.run_deletion import delete_run
from services.agent.domain.runs.tool_rule_names import name_clients_tools
from services.agent.domain.runs.tool_rules import rules_in_force
from services.agent.handlers.ports import HandlerPorts

RETRY_MEANS_SAME_SECONDS = 600


class RunHandlers:
    """Starts runs, ends them before their time, and forgets those that have ended."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        return {
            StartRun: self.start_run,
            StartRunWithOptions: self.start_run,
            CompactConversation: self.start_run,
            StartClientRun: self.start_run,
            AnswerApproval: self.start_run,
            StartCalledRun: self.start_run,
            CancelRuns: self.cancel_runs,
            DeleteRun: self.delete_run,
        }

    async def start_run(self, command: StartRun, work: UnitOfWork) -> Accepted | Rejected:
        """Accept messages, and begin an attempt at the run if it is active."""
        agent, conversation = await work.load_both(
            (Agent, command.agent_id), (Conversation, command.conversation)
        )
        # The two may be read side by side: the agent may be deleted between.
        if agent.design is None:
            return missing(agent.id)
        if not conversation.is_of(agent.id):
            return missing_in(agent.id, conversation.id)
        if command.retry:
            # Looked for after the conversation is read: a try that is accepted from here on is a
            # conflict, and this is decided again. Both times are the api's: the clock of this
            # process may be hours off.
            since = command.run.created_at - timedelta(seconds=RETRY_MEANS_SAME_SECONDS)
            earlier = await self.ports.queries.latest_run(
                work.context.org,
                command.agent_id,
                conversation.id,
                command.request_hash,
                since,
                command.earlier_runs,
            )
            if earlier:
                return started(earlier, command.request_hash)
        earliest, latest = asked_between(command, work.context)
        overtaken = overtaken_by(conversation.state, command.request_hash, earliest)
        if overtaken:
            return started(overtaken, command.request_hash)
        if isinstance(command, CompactConversation):
            summary = summary_if_idle(conversation.state)
            if summary is not None:
                return Accepted(result={"summary": summary})
        resolved = await self.resolved(command)
        if isinstance(resolved, Rejected):
            return resolved
        design = await self.with_rules(agent.design, work.context.org)
        run_id = self.accept(resolved, design, conversation, latest)
        if isinstance(run_id, Rejected):
            return run_id
        active = conversation.state.turn
        if run_id != command.run.id:
            pass  # an answer that came before, with its run
        elif active is None:
            self.show_end(run_id, work)
        elif active.run.id == run_id:
            design = design_of_run(conversation.state, agent.design)
            fresh = self.ports.engine.look(design, conversation)
            self.ports.begin_after_commit(conversation, work, fresh)
        return started(run_id, command.request_hash)

    async def with_rules(self, design: AgentDesign, org: str) -> AgentDesign:
        """The agent with its rules by the names that its tools have now."""
        if not name_clients_tools(design.config.tool_rules):
            return design
        return await with_custom_tools(self.ports.queries, org, design)

    async def resolved(self, command: StartRun) -> StartRun | Rejected:
        """The command with the config of the model that it names; refused where there is none, and
        where whoever is to be told of the end of its run may not be."""
        url = command.run.callback_url
        refused = self.ports.guard.refusal(url) if url is not None else None
        if refused:
            return Rejected(code=UNPROCESSABLE, reason=f"`callback_url`: {refused}")
        options = command.options
        if options is None or options.model is None:
            return command
        llm = await self.ports.handles.llm(options.model)
        if isinstance(llm, Rejected):
            return llm
        known = options.model_copy(update={"llm_config": llm})
        return command.model_copy(update={"options": known})

    def accept(
        self, command: StartRun, design: AgentDesign, conversation: Conversation, asked_at: datetime
    ) -> str | Rejected:
        """Promise what is asked for: an answer, or that the conversation is compacted. Returns the
        id of the run that does it."""
        at, config = self.ports.clock.now(), design.config
        if isinstance(command, CompactConversation):
            refused = conversation.accept_compaction(command, asked_at=asked_at, at=at)
            return refused or command.run.id
        if isinstance(command, StartCalledRun):
            refused = refused_call(command.agent_id, command.callers)
            if refused:
                return refused
        theirs = command.client_tools if isinstance(command, StartClientRun) else []
        terms = Terms(
            config.agent_type,
            rules_in_force(config.tool_rules, [*design.ruled_names, *(one.name for one in theirs)]),
            autoclear=config.message_buffer_autoclear,
        )
        if isinstance(command, AnswerApproval):
            return answer(conversation, command, terms, asked_at=asked_at, at=at)
        refused = conversation.accept(
            command,
            terms.agent_type,
            tool_rules=terms.tool_rules,
            autoclear=terms.autoclear,
            asked_at=asked_at,
            at=at,
        )
        return refused or command.run.id

    def show_end(self, run_id: str, work: UnitOfWork) -> None:
        """Once it is committed, let those who follow a run see that it has ended already."""
        work.after_commit.append(lambda _: self.ports.engine.show_ended([run_id], work.context))

    async def cancel_runs(self, command: CancelRuns, work: UnitOfWork) -> Accepted | Rejected:
        """End runs at once, wherever they stand; who drives one of them is told."""
        conversation = await work.load(Conversation, command.conversation)
        if not conversation.exists or not conversation.is_of(command.agent_id):
            return missing_in(command.agent_id, conversation.id)
        fresh = fresh_ids(self.ports.ids, "message")
        waited = conversation.state.approval is not None
        outcome = conversation.cancel(command, message_ids=fresh, at=self.ports.clock.now())
        if isinstance(outcome, Rejected):
            return outcome
        gone = [run_id for run_id, status in outcome.items() if status == "cancelled"]
        work.after_commit.append(
            lambda _: self.ports.engine.cancelled(conversation.id, gone, work.context)
        )
        if waited and conversation.state.turn is not None:
            self.ports.begin_after_commit(conversation, work)
        return Accepted(result={**outcome})

    async def delete_run(self, command: DeleteRun, work: UnitOfWork) -> Accepted | Rejected:
        """Forget a run that has ended."""
        conversation = await work.load(Conversation, command.conversation)
        org = work.context.org
        if not await self.ports.queries.has_run(org, conversation.id, command.run_id):
            reason = str(not_found("run", command.run_id)["detail"])
            return Rejected(code=NOT_FOUND, reason=reason)
        return delete_run(conversation, command, at=self.ports.clock.now()) or Accepted()


def asked_between(command: StartRun, context: Context) -> tuple[datetime, datetime]:
    """When this try was made, at the earliest and at the latest. The api's clock may be wrong, and
    what it sent may have been held up on its way to the clock of the bus."""
    by_api = command.run.created_at
    by_bus = datetime.fromisoformat(context.sent_at) if context.sent_at else by_api
    return min(by_api, by_bus), max(by_api, by_bus)


def started(run_id: str, request_hash: str) -> Accepted:
    """The reply to StartRun: which run answers, and which request it answers."""
    return Accepted(result={"run_id": run_id, "request_hash": request_hash})
