"""Let MCP servers ask the model of the agent that calls their tool, within bounds.

The agent service asks it, and tells the answer; each question that it takes is recorded as a part
of the call, with the tokens that the answer took, before the server is answered.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from libs.bus.ports import BusUnavailable, fresh_ids
from libs.bus.process_ports import ProcessPorts
from libs.contracts.agent.one_off_completions import SampledMessage, SampleModel, sampling_deltas
from libs.contracts.bus_messages import BUSY, Context, JsonObject, Rejected
from libs.contracts.tools.tool_runs import RunTool, SamplingUsage
from libs.eventstore.ports import StoreUnavailable, VersionConflict
from libs.work.acceptance import until_accepted
from libs.work.progress import follow
from services.tools.adapters.mcp.ports import SamplingAnswer, SamplingRefused, SamplingRequest
from services.tools.domain.tool_run import ToolRun

log = logging.getLogger(__name__)

# In the course of one call.
REQUESTS_MAX = 5
# At once in one process; of one organisation, and of one agent.
PLACES = 16
ORGANISATION_PLACES_MAX = 12
AGENT_PLACES_MAX = 2
STORE_RETRY_SECONDS = 1.0
REASON_CHARS_MAX = 1_000

NO_AGENT = "No agent has called this tool, so there is no model to ask"
LOST = "The server that asks models did not answer"


def places() -> FairSemaphore:
    """The places for requests to models in a process."""
    return FairSemaphore(
        PLACES,
        of_organisation_max=ORGANISATION_PLACES_MAX,
        of_agent_max=AGENT_PLACES_MAX,
        users="MCP servers",
        thing="model",
    )


@dataclass(slots=True, kw_only=True)
class SamplingPorts(ProcessPorts):
    """The ports to models. `tokens_max` bounds each answer."""

    tokens_max: int
    places: FairSemaphore = field(default_factory=places)


class McpSampling:
    """The requests of one process's servers to models."""

    def __init__(self, ports: SamplingPorts) -> None:
        self.ports = ports

    def of(self, command: RunTool, org: str) -> CallSampling:
        """The sampling in the course of a call."""
        return CallSampling(self.ports, command, org)


class NoAnswer(Exception):
    """There is none: `words` are for the server, `reason` is for whoever reads the log."""

    def __init__(self, words: str, reason: str = "") -> None:
        super().__init__(words)
        self.words = words
        self.reason = reason or words


class CallSampling:
    """The requests of a server in the course of one call. `usage` is their cost so far."""

    def __init__(self, ports: SamplingPorts, command: RunTool, org: str) -> None:
        self.ports = ports
        self.command = command
        self.org = org
        self.usage = SamplingUsage()

    async def answer(self, request: SamplingRequest) -> SamplingAnswer:
        """The answer of the agent's model. Raises SamplingRefused; cancelled with the call."""
        if not self.command.agent_id:
            raise SamplingRefused("no_agent", NO_AGENT)
        if self.usage.requests >= REQUESTS_MAX:
            words = f"In one call of a tool a model is asked {REQUESTS_MAX} times at most"
            raise SamplingRefused("too_many", words)
        self.use(requests=1)
        try:
            async with self.ports.places.hold(self.org, self.command.agent_id):
                return await self.ask_model(request)
        except NoPlace as full:
            raise SamplingRefused("failed", full.reason) from None

    async def ask_model(self, request: SamplingRequest) -> SamplingAnswer:
        """Ask a model once the agent service has room; record the answer or why there is none."""
        since = self.ports.clock.monotonic()
        question = self.question(request)
        fields: JsonObject = {"completion_id": question.completion_id}
        try:
            completed = await self.completion(question)
        except NoAnswer as none:
            fields |= {"outcome": "failed", "reason": none.reason[:REASON_CHARS_MAX]}
            raise SamplingRefused("failed", none.words) from None
        else:
            usage = completed["usage"]
            tokens = {name: usage[name] for name in ("prompt_tokens", "completion_tokens")}
            self.use(**tokens)
            fields |= {"outcome": "answered", "model": completed["model"], **tokens}
            return SamplingAnswer(
                text=completed["content"],
                model=completed["model"],
                stop_reason=completed["stop_reason"],
            )
        finally:
            if "outcome" in fields:
                await self.record({**fields, "seconds": self.ports.clock.monotonic() - since})

    def question(self, request: SamplingRequest) -> SampleModel:
        """The command to the agent service."""
        return SampleModel(
            completion_id=self.ports.ids.new("completion"),
            agent_id=self.command.agent_id,
            messages=[
                SampledMessage(role=message.role, content=message.content)
                for message in request.messages
            ],
            system_prompt=request.system_prompt,
            max_tokens=min(request.max_tokens, self.ports.tokens_max),
            temperature=request.temperature,
            stop_sequences=[*request.stop_sequences],
        )

    async def completion(self, question: SampleModel) -> dict[str, Any]:
        """The answer. Where there is no room for the question, another one like it is asked.
        Raises NoAnswer."""
        fresh = chain([question.completion_id], fresh_ids(self.ports.ids, "completion"))
        reply = await until_accepted(
            self.ports.clock,
            lambda: self.ask(question.model_copy(update={"completion_id": next(fresh)})),
        )
        if isinstance(reply, Rejected):
            raise NoAnswer("The model of the agent cannot be asked", reply.reason)
        return reply

    async def ask(self, question: SampleModel) -> dict[str, Any] | Rejected:
        """The answer of the agent service, or why it is not asked. Raises NoAnswer."""
        caused_by = self.command.tool_run_id
        context = Context(question.completion_id, org=self.org, causation_id=caused_by)
        subject = sampling_deltas(self.org, question.completion_id)
        try:
            async with follow(self.ports.bus, subject) as progress:
                reply = await self.ports.bus.request(question, context)
                if isinstance(reply, Rejected):
                    return reply
                end = await progress.end_or_silence()
        except BusUnavailable:
            raise NoAnswer(LOST) from None
        if end is None:
            raise NoAnswer(LOST)
        return completion_in(end)

    def use(self, *, requests: int = 0, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """Add requests and tokens to the usage."""
        used = self.usage
        self.usage = SamplingUsage(
            requests=used.requests + requests,
            prompt_tokens=used.prompt_tokens + prompt_tokens,
            completion_tokens=used.completion_tokens + completion_tokens,
        )

    async def record(self, answer: JsonObject) -> None:
        """Make it durable what came of a question, however long the store is away; at the longest
        until the call is over."""
        command, ports = self.command, self.ports
        context = Context(ports.ids.new("sampled"), org=self.org, causation_id=command.tool_run_id)
        while True:
            work = ports.repository.work(context)
            try:
                call = await work.load(ToolRun, command.tool_run_id)
                call.record_sampling(answer, at=ports.clock.now())
                await work.commit()
            except VersionConflict:
                continue
            except StoreUnavailable as outage:
                log.warning("%s waits for the store: %s", command.tool_run_id, outage)
                await ports.clock.sleep(STORE_RETRY_SECONDS)
                continue
            ports.committed()
            return


def completion_in(end: dict[str, Any]) -> dict[str, Any] | Rejected:
    """The answer in the message that ends a question, or that there was no room for it. Raises
    NoAnswer."""
    if "completion" in end:
        return dict(end["completion"])
    problem = end["problem"]
    if problem.get("busy"):
        return Rejected(code=BUSY, reason="The model has no room for the question")
    # What a provider says is not for a foreign server: it may name accounts and keys.
    words = f"The model of the agent gave no answer ({problem.get('error_type') or 'lost'})"
    raise NoAnswer(words, f"{problem['message']} {problem.get('detail') or ''}".strip())
