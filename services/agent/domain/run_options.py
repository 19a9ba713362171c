"""An agent as a run sees it: with the conversation's own settings, and what its request wants
otherwise."""

from __future__ import annotations

from typing import Any

from libs.contracts.conversation import Message
from services.agent.domain.active_run import ActiveRun
from services.agent.domain.agent import AgentDesign
from services.agent.domain.conversation_lifecycle import design_in
from services.agent.domain.conversation_state import ConversationState


def design_of_run(state: ConversationState, design: AgentDesign) -> AgentDesign:
    """The agent as the active run sees it."""
    inside = design_in(state, design)
    options = state.turn.options if state.turn is not None else None
    if options is None:
        return inside
    llm = options.llm_config or inside.config.llm_config
    wanted: dict[str, Any] = {}
    if options.logprobs:
        wanted |= {"return_logprobs": True, "top_logprobs": options.top_logprobs}
    if options.token_ids:
        wanted["return_token_ids"] = True
    llm = llm.model_copy(update=wanted)
    config = inside.config.model_copy(update={"llm_config": llm})
    return inside.model_copy(update={"config": config})


def with_own_system(messages: list[Message], run: ActiveRun) -> list[Message]:
    """What the model is shown in a run: its own system message, if it has one."""
    if run.options is None or run.options.system is None:
        return messages
    own = messages[0].model_copy(update={"content": run.options.system})
    return [own, *messages[1:]]
