"""Commands about runs: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import fresh_ids
from libs.contracts.agent.approvals import AnswerApproval
from libs.contracts.agent.compaction import CompactConversation
from libs.contracts.agent.runs import (
    SLEEPTIME_RUN,
    CancelRuns,
    DeleteRun,
    RequestAnswer,
    RequestRun,
    StartRun,
)
from libs.contracts.agent.steps import AnnotateStep
from libs.contracts.bus_messages import (
    NOT_FOUND,
    UNPROCESSABLE,
    Accepted,
    Command,
    Context,
    JsonObject,
    Rejected,
)
from libs.contracts.letta.error_bodies import not_found
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.tool_queries import with_custom_tools
from services.agent.domain.agents.agent import Agent, AgentDesign, missing
from services.agent.domain.conversations.configuration_overrides import design_of_run
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_lifecycle import missing_in
from services.agent.domain.conversations.conversation_state import overtaken_by
from services.agent.domain.runs.agent_call_deadlocks import refused_call
from services.agent.domain.runs.approval_resolution import answer
from services.agent.domain.runs.compaction import summary_if_idle
from services.agent.domain.runs.run_requests import (
    Terms,
    accept,
    accept_compaction,
    annotate_step,
    cancel,
    delete_run,
)
from services.agent.domain.tools.tool_rules import name_clients_tools, rules_in_force
from services.agent.handlers.ports import HandlerPorts

RETRY_MEANS_SAME_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Requested:
    """The facts that a request is decided from, and its time at the latest."""

    design: AgentDesign
    conversation: Conversation
    asked_at: datetime


class RunHandlers:
    """Starts runs, ends them before their time, and forgets those that have ended."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The commands of these handlers, each with its method."""
        return {
            StartRun: self.start_run,
            AnswerApproval: self.answer_approval,
            CompactConversation: self.compact,
            CancelRuns: self.cancel_runs,
            DeleteRun: self.delete_run,
            AnnotateStep: self.annotate_step,
        }

    async def start_run(self, command: StartRun, work: UnitOfWork) -> Accepted | Rejected:
        """Accept messages, and begin an attempt at their run if it is active."""
        requested = await self.load(command, work)
        if not isinstance(requested, Requested):
            return requested
        terms = await self.terms(command, requested.design, work.context.org)
        if isinstance(terms, Rejected):
            return terms
        refused = refused_call(command.agent_id, command.callers) or accept(
            requested.conversation,
            command,
            terms,
            asked_at=requested.asked_at,
            at=self.ports.clock.now(),
        )
        return refused or self.reply(command, command.run.id, requested, work)

    async def answer_approval(
        self, command: AnswerApproval, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Take the client's answers, and begin an attempt at the run that brings them."""
        requested = await self.load(command, work)
        if not isinstance(requested, Requested):
            return requested
        terms = await self.terms(command, requested.design, work.context.org)
        if isinstance(terms, Rejected):
            return terms
        run_id = answer(
            requested.conversation,
            command,
            terms,
            asked_at=requested.asked_at,
            at=self.ports.clock.now(),
        )
        if isinstance(run_id, Rejected):
            return run_id
        return self.reply(command, run_id, requested, work)

    async def compact(self, command: CompactConversation, work: UnitOfWork) -> Accepted | Rejected:
        """Accept that a conversation is compacted, and begin with it if no other run is active."""
        requested = await self.load(command, work)
        if not isinstance(requested, Requested):
            return requested
        conversation = requested.conversation
        summary = summary_if_idle(conversation.state)
        if summary is not None:
            return Accepted(result={"summary": summary})
        refused = accept_compaction(
            conversation, command, asked_at=requested.asked_at, at=self.ports.clock.now()
        )
        return refused or self.reply(command, command.run.id, requested, work)

    async def load(self, command: RequestRun, work: UnitOfWork) -> Requested | Accepted | Rejected:
        """The facts to decide from; or the reply at once, where a run answers it already."""
        agent, conversation = await work.load_both(
            (Agent, command.agent_id), (Conversation, command.conversation)
        )
        # The two may be read side by side: the agent may be deleted between.
        if agent.design is None:
            return missing(agent.id)
        if not conversation.is_of(agent.id):
            return missing_in(agent.id, conversation.id)
        earliest, latest = asked_between(command, work.context)
        # The earlier run is looked for after the conversation is read: a try that is accepted from
        # here on is a conflict, and this is decided again.
        earlier = await self.earlier_run(command, work.context.org)
        run_id = earlier or overtaken_by(conversation.state, command.request_hash, earliest)
        if run_id is not None:
            sleeptime = counts_for_sleeptime(command, agent.design)
            return run_reply(run_id, command.request_hash, sleeptime)
        return Requested(agent.design, conversation, latest)

    async def earlier_run(self, command: RequestRun, org: str) -> str | None:
        """The run that answers the same request, of which this is a retry."""
        if not command.retry:
            return None
        # Both times are the api's: the clock of this process may be hours off.
        since = command.run.created_at - timedelta(seconds=RETRY_MEANS_SAME_SECONDS)
        return await self.ports.queries.latest_run(
            org,
            command.agent_id,
            command.conversation,
            command.request_hash,
            since,
            command.earlier_runs,
        )

    async def terms(
        self, command: RequestAnswer, design: AgentDesign, org: str
    ) -> Terms | Rejected:
        """The agent's terms for answering this request; refused where there is no model of the name
        that it gives, and where its callback may not be sent."""
        url = command.run.callback_url
        refused = self.ports.guard.refusal(url) if url is not None else None
        if refused:
            return Rejected(code=UNPROCESSABLE, reason=f"`callback_url`: {refused}")
        options = command.options
        if options is not None and options.model is not None:
            llm = await self.ports.handles.llm(options.model)
            if isinstance(llm, Rejected):
                return llm
            options = options.model_copy(update={"llm_config": llm})
        if name_clients_tools(design.config.tool_rules):
            design = await with_custom_tools(self.ports.queries, org, design)
        names = [*design.ruled_names, *(tool.name for tool in command.client_tools)]
        return Terms(
            design.config.agent_type,
            rules_in_force(design.config.tool_rules, names),
            autoclear=design.config.message_buffer_autoclear,
            options=options,
            sleeptime=counts_for_sleeptime(command, design),
        )

    def reply(
        self, command: RequestRun, run_id: str, requested: Requested, work: UnitOfWork
    ) -> Accepted:
        """Name the run that answers, and have what follows begin once it is committed."""
        conversation = requested.conversation
        active = conversation.state.active_run
        if run_id != command.run.id:
            pass  # an answer that came before, with its run
        elif active is None:
            # Those who follow the run are to see that it has ended already.
            show_ended, context = self.ports.engine.show_ended, work.context
            work.after_commit.append(lambda _: show_ended([run_id], context))
        elif active.run.id == run_id:
            design = design_of_run(conversation.state, requested.design)
            fresh = self.ports.engine.look(design, conversation)
            self.ports.begin_after_commit(conversation, work, fresh)
        return run_reply(
            run_id, command.request_hash, counts_for_sleeptime(command, requested.design)
        )

    async def cancel_runs(self, command: CancelRuns, work: UnitOfWork) -> Accepted | Rejected:
        """End runs at once, wherever they stand; the process that attempts one is told."""
        conversation = await work.load(Conversation, command.conversation)
        if not conversation.exists or not conversation.is_of(command.agent_id):
            return missing_in(command.agent_id, conversation.id)
        fresh = fresh_ids(self.ports.ids, "message")
        waited = conversation.state.approval is not None
        outcome = cancel(conversation, command, message_ids=fresh, at=self.ports.clock.now())
        if isinstance(outcome, Rejected):
            return outcome
        gone = [run_id for run_id, status in outcome.items() if status == "cancelled"]
        work.after_commit.append(
            lambda _: self.ports.engine.cancelled(conversation.id, gone, work.context)
        )
        if waited and conversation.state.active_run is not None:
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

    async def annotate_step(self, command: AnnotateStep, work: UnitOfWork) -> Accepted | Rejected:
        """Keep what a client says of a step."""
        conversation = await work.load(Conversation, command.conversation)
        org = work.context.org
        run_id = await self.ports.queries.run_of_step(org, conversation.id, command.step_id)
        if run_id is None:
            reason = str(not_found("step", command.step_id)["detail"])
            return Rejected(code=NOT_FOUND, reason=reason)
        annotate_step(conversation, command, run_id=run_id, at=self.ports.clock.now())
        return Accepted()


def asked_between(command: RequestRun, context: Context) -> tuple[datetime, datetime]:
    """When this try was made, at the earliest and at the latest. The api's clock may be wrong, and
    what it sent may have been held up on its way to the clock of the bus."""
    by_api = command.run.created_at
    by_bus = datetime.fromisoformat(context.sent_at) if context.sent_at else by_api
    return min(by_api, by_bus), max(by_api, by_bus)


def run_reply(run_id: str, request_hash: str, sleeptime: bool) -> Accepted:
    """The reply to a request: which run answers, and which request it answers; and where that is
    so, that the end of the run counts for a sleeptime group."""
    result: JsonObject = {"run_id": run_id, "request_hash": request_hash}
    return Accepted(result={**result, "sleeptime": True} if sleeptime else result)


def counts_for_sleeptime(command: RequestRun, design: AgentDesign) -> bool:
    """Whether the end of a run counts for the sleeptime group of its agent: a review does not."""
    run_type = (command.run.metadata or {}).get("run_type")
    answers = isinstance(command, RequestAnswer)
    return answers and bool(design.config.enable_sleeptime) and run_type != SLEEPTIME_RUN
