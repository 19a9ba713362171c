"""Which histories of agents and conversations may come from outside, and what they must amount
to."""

from __future__ import annotations

from libs.bus.appended_histories import Appendable
from libs.contracts.agent.agents import (
    AgentCreated,
    AgentForked,
    AgentSecretsReplaced,
    AgentUpdated,
    BlockAttached,
    BlockDetached,
)
from libs.contracts.agent.conversations import (
    ConversationCreated,
    ConversationDeleted,
    ConversationEvent,
    MessageAppended,
    main_conversation,
)
from libs.contracts.agent.runs import CallbackAttempted, RunAccepted
from libs.contracts.bus_messages import EVENTS, Event
from libs.contracts.state_size_limits import oversize_agent
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.agents.agent import Agent, too_many, unfit_secrets
from services.agent.domain.conversations.conversation import Conversation

NOT_APPENDED = (ConversationDeleted, CallbackAttempted)


async def check_agent(agent: Agent, work: UnitOfWork) -> str | None:
    """The problem with an imported agent, if any."""
    design = agent.design
    if design is None:
        return "it is no agent in the end"
    refused = too_many(len(design.block_ids)) or unfit_secrets(design.secrets)
    if refused:
        return refused.reason
    return oversize_agent({**dict(design.config), "tags": design.tags})


async def check_conversation(conversation: Conversation, work: UnitOfWork) -> str | None:
    """The problem with an imported conversation that is incomplete, has a run under way, or belongs
    to another agent that is there; None for a good one."""
    state = conversation.state
    if state.active_run is not None or state.queue or state.pause is not None:
        return "a run of it is not at its end"
    is_main = conversation.id == main_conversation(state.agent_id)
    if not is_main and (state.own is None or not state.agent_id):
        return "it is neither the agent's own conversation nor one of its others"
    agent = await work.load(Agent, state.agent_id)
    if not agent.exists:
        return None
    if work.continues_import or agent.deleted:
        return None
    if work.import_id in await begun_by(agent.id, work):
        return None
    return f"agent {agent.id} is there already"


async def begun_by(agent_id: str, work: UnitOfWork) -> tuple[str, ...]:
    """The import that an agent began by; none for one that began here."""
    begun = await work.repository.store.import_of(agent_id)
    return (begun.import_id,) if begun else ()


def without_callback(event: Event) -> Event:
    """An event of a run of which nobody here is to be told."""
    if not isinstance(event, RunAccepted) or event.run.callback_url is None:
        return event
    run = event.run.model_copy(update={"callback_url": None})
    return event.model_copy(update={"run": run})


def appendable() -> tuple[Appendable[Agent], Appendable[Conversation]]:
    """The kinds of this service."""
    of_conversations = tuple(
        kind
        for kind in EVENTS.values()
        if issubclass(kind, ConversationEvent) and kind not in NOT_APPENDED
    )
    return (
        Appendable(
            kind=Agent,
            begins_with=(AgentCreated,),
            events=(
                *(AgentCreated, AgentUpdated, BlockAttached, BlockDetached),
                *(AgentSecretsReplaced, AgentForked),
            ),
            check=check_agent,
            delete=lambda agent, at: agent.delete(at=at),
        ),
        Appendable(
            kind=Conversation,
            begins_with=(MessageAppended, ConversationCreated),
            events=of_conversations,
            as_recorded=without_callback,
            check=check_conversation,
            delete=lambda conversation, at: conversation.delete(at=at),
        ),
    )
