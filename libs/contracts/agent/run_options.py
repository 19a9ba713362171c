"""What a request may want otherwise than its agent is set up, for its run alone."""

from __future__ import annotations

from libs.contracts.bus_messages import Value
from libs.contracts.letta.model_configs import LLMConfig


class RunOptions(Value):
    """Another model by its handle, and as it was configured when the run was accepted; another
    system message, shown as it is; and what of its answers the model is to say more about."""

    model: str | None = None
    llm_config: LLMConfig | None = None
    system: str | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    token_ids: bool = False
