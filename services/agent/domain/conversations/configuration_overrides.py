"""An agent as a conversation and its active run see it: with the conversation's own settings, and
what the request of the run wants otherwise."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from libs.contracts.agent.conversations import Message
from libs.contracts.letta.conversations import ConversationConfig
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.model_configs import AnyModelSettings, LLMConfig
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.agents.model_config_resolution import with_reasoning, with_settings
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.conversation_state import ConversationState

SETTINGS: TypeAdapter[AnyModelSettings] = TypeAdapter(AnyModelSettings)


def design_in(state: ConversationState, design: AgentDesign) -> AgentDesign:
    """The agent as it is in this conversation: with the model, the settings and the blocks that the
    conversation has of its own."""
    own = state.own
    if own is None:
        return design
    blocks = [own.isolated_blocks.get(block_id, block_id) for block_id in design.block_ids]
    llm = llm_in(own, design.config.llm_config, design.config.agent_type)
    return design.with_config(llm_config=llm).model_copy(update={"block_ids": blocks})


def llm_in(own: ConversationConfig, agents: LLMConfig, agent_type: AgentType) -> LLMConfig:
    """The model config of a conversation: what it says itself, and for the rest what its agent
    says. Another model keeps the agent's context window, if it has that much."""
    config = agents
    if own.llm_config is not None:
        window = min(agents.context_window, own.llm_config.context_window)
        config = own.llm_config.model_copy(update={"context_window": window})
        config = with_reasoning(config, config.enable_reasoner, agent_type)
    if own.context_window_limit is not None:
        config = config.model_copy(update={"context_window": own.context_window_limit})
    if own.model_settings is not None:
        config = with_settings(config, SETTINGS.validate_python(own.model_settings))
    return config


def design_of_run(state: ConversationState, design: AgentDesign) -> AgentDesign:
    """The agent as the active run sees it."""
    inside = design_in(state, design)
    options = state.active_run.options if state.active_run is not None else None
    if options is None:
        return inside
    llm = options.llm_config or inside.config.llm_config
    wanted: dict[str, Any] = {}
    if options.logprobs:
        wanted |= {"return_logprobs": True, "top_logprobs": options.top_logprobs}
    if options.token_ids:
        wanted["return_token_ids"] = True
    return inside.with_config(llm_config=llm.model_copy(update=wanted))


def within_window(design: AgentDesign, tokens: int | None) -> AgentDesign:
    """The same agent, whose model may be shown no more than its server said that it may."""
    llm = design.config.llm_config
    if tokens is None or tokens >= llm.context_window:
        return design
    return design.with_config(llm_config=llm.model_copy(update={"context_window": tokens}))


def with_own_system(messages: list[Message], run: ActiveRun) -> list[Message]:
    """The messages that the model is shown in a run: with its own system message, if it has one."""
    if run.options is None or run.options.system is None:
        return messages
    own = messages[0].model_copy(update={"content": run.options.system})
    return [own, *messages[1:]]
