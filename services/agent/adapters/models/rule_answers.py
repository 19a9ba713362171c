"""Answers that rules of this server give, in the place of a language model."""

from __future__ import annotations

from collections.abc import Callable

from libs.bus.fair_semaphore import NoPlace
from libs.work.limited_processes import LimitedProcesses, LimitReached
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply

# What the rules may look at on the event loop: about 20 ms of processor.
COMPARED_CHARS_MAX = 5_000_000

type Rules = Callable[[ModelRequest], ModelReply]


class RuleAnswers:
    """Answers by rules. Where these compare more than `COMPARED_CHARS_MAX` characters, they do so
    in a process of their own: what they look at is as long as clients like."""

    def __init__(self, rules: Rules, compared_chars: Callable[[ModelRequest], int]) -> None:
        self.rules = rules
        self.compared_chars = compared_chars
        self.processes = LimitedProcesses(rules.__module__)

    async def answer(self, request: ModelRequest) -> ModelReply:
        """The answer of the rules. Raises ModelFailed."""
        if self.compared_chars(request) <= COMPARED_CHARS_MAX:
            return self.rules(request)
        agent = request.config
        try:
            return await self.processes.run(self.rules, request, org=agent.id)
        except LimitReached as reached:
            reason = f"{agent.llm_config.handle}: the conversation is too long for it: {reached}"
            raise ModelFailed(Failure("llm_error", reason)) from reached
        except NoPlace as full:
            raise ModelFailed(Failure("llm_provider_overloaded", full.reason)) from full

    def close(self) -> None:
        """End the processes; safe to repeat."""
        self.processes.close()
