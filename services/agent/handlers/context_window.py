"""Commands about what models are shown of a conversation: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from libs.bus.command_dispatcher import Handler
from libs.contracts.agent.compaction import ClearContext, ListLeftOut, ReplaceContext, ShowLeftOut
from libs.contracts.agent.runs import PreviewModelRequest
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.all_queries import seen_memory
from services.agent.adapters.tool_permissions import with_forbidden
from services.agent.adapters.tool_queries import with_custom_tools
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.configuration_overrides import design_in
from services.agent.domain.conversations.context_replacement import (
    cannot_replace,
    replace_context,
    show_left_out,
    wanted_messages,
)
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.provider_rejected_messages import left_out_parts
from services.agent.domain.runs.compaction import cannot_clear, clear
from services.agent.domain.tools.tool_rules import rules_in_force
from services.agent.engine.model_step import step_request
from services.agent.handlers.conversations import compile_prompt, load_existing, too_large
from services.agent.handlers.ports import HandlerPorts


class ContextHandlers:
    """Clears what models are shown."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The commands of these handlers, each with its method."""
        return {
            ClearContext: self.clear_context,
            ReplaceContext: self.replace_context,
            ShowLeftOut: self.show_left_out,
            ListLeftOut: self.list_left_out,
            PreviewModelRequest: self.preview_model_request,
        }

    async def preview_model_request(
        self, command: PreviewModelRequest, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Say what the model would be asked if these messages were sent now."""
        loaded = await load_existing(command, work)
        if isinstance(loaded, Rejected):
            return loaded
        design, conversation = loaded
        inside = design_in(conversation.state, design)
        queries, org = self.ports.queries, work.context.org
        inside = await with_custom_tools(queries, org, inside)
        inside = with_forbidden(self.ports.engine.ports.policies(), org, inside)
        memory = await seen_memory(queries, org, inside)
        at = self.ports.clock.now()
        asked = as_if_asked(conversation, inside, command, at)
        request = step_request(asked, inside, memory, at=at).request
        payload = await self.ports.engine.ports.models.payload(request)
        if isinstance(payload, Rejected):
            return payload
        return too_large(payload) or Accepted(result={"payload": payload.decode()})

    async def clear_context(self, command: ClearContext, work: UnitOfWork) -> Accepted | Rejected:
        """Show models nothing any more but the system message, made anew."""
        loaded = await load_existing(command, work)
        if isinstance(loaded, Rejected):
            return loaded
        design, conversation = loaded
        refused = cannot_clear(conversation.state)
        if refused:
            return refused
        at = self.ports.clock.now()
        clear(conversation, at=at)
        prompt = await compile_prompt(conversation, design, self.ports, work)
        conversation.rebuild(prompt, at=at)
        return Accepted()

    async def replace_context(
        self, command: ReplaceContext, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Show models other messages of the conversation."""
        loaded = await load_existing(command, work)
        if isinstance(loaded, Rejected):
            return loaded
        _, conversation = loaded
        refused = cannot_replace(conversation.state, command.message_ids)
        if refused:
            return refused
        recorded = await self.ports.queries.recorded_messages(
            work.context.org, conversation.id, command.message_ids
        )
        at, origin = self.ports.clock.now(), command.restored_from
        wanted = wanted_messages(conversation, command.message_ids, recorded)
        if isinstance(wanted, Rejected):
            return wanted
        return replace_context(conversation, wanted, restored_from=origin, at=at) or Accepted()

    async def show_left_out(self, command: ShowLeftOut, work: UnitOfWork) -> Accepted | Rejected:
        """Show models again what a provider refused."""
        loaded = await load_existing(command, work)
        if isinstance(loaded, Rejected):
            return loaded
        _, conversation = loaded
        refused = cannot_replace(conversation.state, [])
        if refused:
            return refused
        show_left_out(conversation, at=self.ports.clock.now())
        return Accepted()

    async def list_left_out(self, command: ListLeftOut, work: UnitOfWork) -> Accepted | Rejected:
        """Say what models are not shown because a provider refused it."""
        loaded = await load_existing(command, work)
        if isinstance(loaded, Rejected):
            return loaded
        state = loaded[1].state
        parts = left_out_parts(state.window, state.trial.omitted or state.omitted)
        return Accepted(result={"left_out": [*parts], "on_trial": state.trial.is_running})


def as_if_asked(
    conversation: Conversation, design: AgentDesign, command: PreviewModelRequest, at: datetime
) -> Conversation:
    """A conversation that nobody else sees, as it would be with these messages to answer."""
    state, config = conversation.state, design.config
    run = ActiveRun(
        run=command.run,
        max_steps=1,
        agent_type=config.agent_type,
        tool_rules=rules_in_force(config.tool_rules, design.ruled_names),
        started_at=at,
    )
    copy = Conversation.blank(conversation.id, version=conversation.version, org=conversation.org)
    window = [*state.window, *command.messages]
    copy.state = state.model_copy(update={"window": window, "active_run": run})
    return copy
