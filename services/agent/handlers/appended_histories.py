"""Which histories of agents and conversations may come from outside, and what they must amount
to."""

from __future__ import annotations

from libs.bus.appended_histories import Appendable
from libs.contracts.agent.agents import (
    AgentCreated,
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
from libs.contracts.agent.runs import CallbackAttempted
from libs.contracts.bus_messages import EVENTS
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.agents.agent import Agent
from services.agent.domain.conversations.conversation import Conversation

NOT_APPENDED = (ConversationDeleted, CallbackAttempted)


async def check_agent(agent: Agent, work: UnitOfWork) -> str | None:
    """What is wrong with an agent that came from outside."""
    return "it is no agent in the end" if agent.design is None else None


async def check_conversation(conversation: Conversation, work: UnitOfWork) -> str | None:
    """What is wrong with a conversation that came from outside: it is complete, no run of it is
    under way, and its agent is not another one that is there."""
    state = conversation.state
    if state.active_run is not None or state.queue:
        return "a run of it is not at its end"
    is_main = conversation.id == main_conversation(state.agent_id)
    if not is_main and (state.own is None or not state.agent_id):
        return "it is neither the agent's own conversation nor one of its others"
    agent = await work.load(Agent, state.agent_id)
    if not agent.exists:
        return None
    store = work.repository.store
    if await store.import_of(agent.id) == await store.import_of(conversation.id):
        return None
    return f"agent {agent.id} is there already"


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
                AgentSecretsReplaced,
            ),
            check=check_agent,
            delete=lambda agent, at: agent.delete(at=at),
        ),
        Appendable(
            kind=Conversation,
            begins_with=(MessageAppended, ConversationCreated),
            events=of_conversations,
            check=check_conversation,
            delete=lambda conversation, at: conversation.delete(at=at),
        ),
    )
