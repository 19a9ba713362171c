"""Ask models single questions, and publish their answers.

Questions are not durable: they are lost when the process ends. The client is then told so, or its
idle timeout ends. So that questions do not delay runs, few are asked at a time: there are limits
for each agent, each organisation and the process. Each question has the deadline of a step.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from libs.bus.bounded_command_queue import busy, decrement
from libs.bus.ports import Bus, Clock
from libs.contracts.bus_messages import JsonObject, Rejected
from libs.work.progress import heartbeats, publish_progress
from services.agent.adapters.models.ports import ModelFailed, Models
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import (
    Failure,
    ModelReply,
    answer_too_slow,
    error_fields,
)

log = logging.getLogger(__name__)

# Of one process.
AGENT_COMPLETIONS_MAX = 4
ORGANISATION_COMPLETIONS_MAX = 16
PROCESS_COMPLETIONS_MAX = 32
PROCESS_PROMPT_BYTES_MAX = 32 << 20
# What MCP servers ask finds room only as long as this part of it is free.
SAMPLING_SHARE = 0.5
DRAIN_SECONDS_MAX = 5.0

LOST: JsonObject = {"problem": {"message": "The server is being stopped: try again", "lost": True}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question to a model. All questions of an organisation without an agent count as one
    agent's. Its progress is published on `subject`. `answer` reads the reply, `bytes` is what the
    question keeps in memory, and `share` the part of the limits that its kind may use."""

    id: str
    agent_id: str
    org: str
    subject: str
    request: ModelRequest
    answer: Callable[[ModelReply], JsonObject | Failure]
    bytes: int
    share: float = 1.0

    @property
    def asker(self) -> tuple[str, str]:
        """The key under which an asker's questions are counted."""
        return self.org, self.agent_id


class Completions:
    """The questions that one process asks. `seconds_max` is how long each may take."""

    def __init__(self, models: Models, bus: Bus, clock: Clock, *, seconds_max: float) -> None:
        self.models = models
        self.bus = bus
        self.clock = clock
        self.seconds_max = seconds_max
        self.tasks: set[asyncio.Task[None]] = set()
        self.of_agent: Counter[tuple[str, str]] = Counter()
        self.of_organisation: Counter[str] = Counter()
        self.bytes = 0

    def full(self, question: Question) -> Rejected | None:
        """The refusal of a question for which there is no room."""
        asker, org, share = question.asker, question.org, question.share
        if self.of_agent[asker] >= AGENT_COMPLETIONS_MAX * share:
            asked_of = question.agent_id or "models without an agent"
            return busy(f"{self.of_agent[asker]} questions to {asked_of} are asked")
        if self.of_organisation[org] >= ORGANISATION_COMPLETIONS_MAX * share:
            return busy(f"{self.of_organisation[org]} questions of this organisation are asked")
        all_places = len(self.tasks) >= PROCESS_COMPLETIONS_MAX * share
        if all_places or self.bytes + question.bytes > PROCESS_PROMPT_BYTES_MAX * share:
            return busy("The server asks models as many questions as it can at once")
        return None

    def begin(self, question: Question) -> None:
        """Begin to ask; call it once it is durable that the question was taken. Others may have
        taken the room meanwhile: then its asker is told so."""
        asker, org = question.asker, question.org
        refused = self.full(question)
        if refused is not None:
            outcome: JsonObject = {"problem": {"message": refused.reason, "busy": True}}
            published = publish_progress(self.bus, question.subject, outcome)
            self.keep(asyncio.create_task(published))
            return
        self.of_agent[asker] += 1
        self.of_organisation[org] += 1
        self.bytes += question.bytes
        task = self.keep(asyncio.create_task(self.answer(question)))

        def ended(_: asyncio.Task[None]) -> None:
            decrement(self.of_agent, asker)
            decrement(self.of_organisation, org)
            self.bytes -= question.bytes

        task.add_done_callback(ended)

    def keep(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """Remember a task until it has ended."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def answer(self, question: Question) -> None:
        """Ask, and tell what came of it. A process edge: a bug is logged here, once."""
        subject = question.subject
        try:
            async with heartbeats(self.bus, self.clock, subject):
                outcome = await self.ask(question)
        except asyncio.CancelledError:
            with suppress(Exception):
                await publish_progress(self.bus, subject, LOST)
            raise
        except Exception:
            log.exception("%s failed", question.id)
            outcome = problem(Failure("internal_error", "An unknown error occurred"))
        await publish_progress(self.bus, subject, outcome)

    async def ask(self, question: Question) -> JsonObject:
        """The completion, or the problem that the client is told instead."""
        try:
            async with asyncio.timeout(self.seconds_max):
                reply = await self.models.reply(question.request)
        except ModelFailed as failed:
            return problem(failed.failure)
        except TimeoutError:
            return problem(answer_too_slow("The model", self.seconds_max))
        completion = question.answer(reply)
        if isinstance(completion, Failure):
            return problem(completion)
        return {"completion": completion}

    async def drain(self) -> None:
        """Let the models get on for a moment, then give up what they have not answered."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=DRAIN_SECONDS_MAX)
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def problem(failure: Failure) -> JsonObject:
    """Why there is no answer, as the asker is told."""
    return {"problem": error_fields(failure)}
