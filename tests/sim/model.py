"""The simulated model, and the one tool that may not run twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

from libs.contracts.agent.conversations import ToolCall, Usage
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from services.agent.adapters.memory_tools import MemoryTools
from services.agent.adapters.models.ports import Finished, ModelEvent, ModelFailed, TextDelta
from services.agent.adapters.tool_owner_port import Calling
from services.agent.domain.agents.model_config_resolution import llm_config
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply, ToolResult
from tests.scripted_model import messages_validator, validator
from tests.sim.loop import OWNER, Lane
from tests.sim.store import UNSTORABLE
from tests.unit.agent import anthropic_documents
from tests.unit.agent.openai_documents import body_of

HANDLE = "sim/model"
KEEP = "archival_memory_insert"  # its effect is in the ledger of the world; it may not run twice
GATED = "archival_memory_search"  # this may; each call of it needs an approval
WRITE = "send_message_to_agent_and_wait_for_reply"
KEEPING_SECONDS = 0.3
TOKEN_SECONDS = 0.05
SUMMARY_SECONDS = 0.5
WRITTEN_SECONDS = 3.0
CLAUDE = {"model": "claude-sonnet-4-5", "temperature": 1.0}
BUG = "planned bug"


class SimProvider:
    """Does what the last user message says, and refuses what a strict provider refuses."""

    name = "sim"

    def __init__(self, holder: str, lane: Lane, asked: Callable[[str, int, str], int]) -> None:
        self.holder = holder
        self.lane = lane
        self.asked = asked
        self.asking: set[tuple[str, int]] = set()

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        await asyncio.sleep(0.01)
        config = llm_config(
            HANDLE,
            endpoint_type="openai",
            endpoint="http://model.invalid/v1",
            context_window=100_000,
            max_tokens=1_000,
        )
        return [config], []

    def window_tokens(self, _model: str) -> int | None:
        """What this provider says of a model is what its config says."""
        return None

    async def close(self) -> None:
        """Nothing is open."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        check_context(request)
        if is_written_by_agent(request):
            await asyncio.sleep(WRITTEN_SECONDS)
            LEDGER[-1].did["agents answered"] += 1
            yield Finished(ModelReply("Heard.", [], "stop", usage_of(request)))
            return
        asked_for, step = asked_in(request)
        if not asked_for:
            await asyncio.sleep(SUMMARY_SECONDS)
            yield Finished(beside_the_plan(request))
            return
        time = self.asked(asked_for["name"], step, self.holder)
        asking = (asked_for["name"], step)
        assert asking not in self.asking, f"{self.holder} asks for one step twice at a time"
        self.asking.add(asking)
        try:
            await asyncio.sleep(asked_for["thinks"])
            reply = replace(answer(asked_for, step, time), usage=usage_of(request))
            if request.stream_tokens:
                for piece in reply.text:
                    yield TextDelta(piece)
                    await asyncio.sleep(TOKEN_SECONDS)
        finally:
            self.asking.discard(asking)
        yield Finished(reply)


def check_context(request: ModelRequest) -> None:
    """Would OpenAI and Anthropic take it?"""
    LEDGER[-1].did["contexts checked"] += 2
    claude = request.config.llm_config.model_copy(update=CLAUDE)
    config = request.config.model_copy(update={"llm_config": claude})
    refused = validator.check(body_of(request)) or messages_validator.check(
        anthropic_documents.body_of(replace(request, config=config))
    )
    if refused:
        LEDGER[-1].problems.append(f"a context is refused: {refused}")
    # A result that was not recorded, but made up when its call was shown, has the id of the call's
    # message: it would be accepted, but what is recorded is wrong.
    spoken = {
        message.id for message in request.messages if message.role == "assistant" and message.id
    }
    if any(message.role == "tool" and message.id in spoken for message in request.messages):
        LEDGER[-1].problems.append("a context is refused: a call has no recorded result")


def asked_in(request: ModelRequest) -> tuple[dict[str, Any], int]:
    """What the user asks the model to do, and how far that has come; nothing where somebody else
    asks for a summary or the like. What a compaction took away is known by the calls it left."""
    messages, plans = request.messages, LEDGER[-1].plans
    place = max(n for n, message in enumerate(messages) if message.role == "user")
    asked_for = plan_in(text_of(messages[place]))
    calls = [message.tool_calls[0].id for message in messages[place + 1 :] if message.tool_calls]
    if asked_for.get("name"):
        plans[asked_for["name"]] = asked_for
        return asked_for, sum(message.role == "assistant" for message in messages[place + 1 :])
    if not request.tools or not calls:
        LEDGER[-1].did["plans forgotten"] += asked_for.get("type") == "system_alert"
        return {}, 0
    name, step = calls[-1].removeprefix("call-").split("-")[:2]
    return plans[name], int(step) + 1


def is_written_by_agent(request: ModelRequest) -> bool:
    """Whether the last word is another agent's."""
    return len(request.messages) > 1 and request.messages[-1].role == "system"


def plan_in(text: str) -> dict[str, Any]:
    """What a message asks for, if it is one of a client."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def beside_the_plan(request: ModelRequest) -> ModelReply:
    """An answer to who asks for a summary, or goes on after a pause; some cannot be had."""
    LEDGER[-1].did["summaries asked"] += not request.tools
    length = sum(len(text_of(message)) for message in request.messages)
    if length % 5 == 0 and not request.tools:
        raise ModelFailed(Failure("llm_server_error", "no summary today"))
    return ModelReply("So far.", [], "stop", usage_of(request))


def usage_of(request: ModelRequest) -> Usage:
    """Tokens as we estimate them, so that windows fill."""
    chars = sum(len(text_of(message)) for message in request.messages)
    return Usage(prompt_tokens=max(1, chars // 4), completion_tokens=5)


def answer(asked_for: dict[str, Any], step: int, time: int) -> ModelReply:
    """What the model says at a step of a turn; a call has another id each time it is made."""
    name, steps, fails = asked_for["name"], asked_for["steps"], asked_for["fails_with"]
    usage = Usage(prompt_tokens=10, completion_tokens=5)
    if step < len(steps):
        calls = [
            ToolCall(id=f"call-{name}-{step}-{n}-{time}", name=tool, arguments=arguments)
            for n, (tool, arguments) in enumerate(map(called, steps[step]))
        ]
        return ModelReply("", calls, "tool_calls", usage)
    if fails == "bug":
        raise RuntimeError(BUG)
    if fails in ("garbage arguments", "unknown tool") and step == len(steps):
        tool = "memory_insert" if fails == "garbage arguments" else "no_such_tool"
        call = ToolCall(id=f"call-{name}-{step}-x-{time}", name=tool, arguments="{not json")
        return ModelReply("", [call], "tool_calls", usage)
    if fails.startswith("llm_"):
        raise ModelFailed(Failure(fails, f"{fails}, as planned for {name}"))
    said = f"{UNSTORABLE} {name}" if fails == "unstorable" else f"done {name}"
    return ModelReply(said, [], "stop", usage)


def called(call: list[str]) -> tuple[str, str]:
    """A planned call as the model makes it."""
    tool, label, line = call
    if tool == "conversation_search":
        return tool, json.dumps({"query": line})
    if tool == "pause_heartbeats":
        return tool, json.dumps({"minutes": 1})
    if tool in ("keep", "ask"):
        return KEEP if tool == "keep" else GATED, json.dumps({"content": line})
    if tool in ("roll", "weather"):
        name = "roll_dice" if tool == "roll" else "ask_weather"
        return name, json.dumps({"content": line, "how": label})
    if tool == "write":
        return WRITE, json.dumps({"message": line, "other_agent_id": written_to(int(label))})
    return tool, json.dumps({"label": label, "new_string": line})


def written_to(number: int) -> str:
    """The id of an agent, as clients make it."""
    return derived_id("agent", f"number {number}")


class Ledger:
    """What happened outside, once for each time the tool really ran."""

    def __init__(self) -> None:
        self.lines: Counter[str] = Counter()
        self.did: Counter[str] = Counter()
        self.problems: list[str] = []
        self.plans: dict[str, dict[str, Any]] = {}


LEDGER: list[Ledger] = []


class SimMemoryTools(MemoryTools):
    """The real tools, and one more with an effect that nothing remembers."""

    def __init__(self, *adapters: Any) -> None:
        super().__init__(*adapters)
        self.runners[KEEP] = self.runners[GATED] = self.keep

    async def keep(self, calling: Calling) -> ToolResult:
        """Write a line outside; the middle of it is as good a moment to die as any."""
        await asyncio.sleep(KEEPING_SECONDS)
        if OWNER.get().alive:
            LEDGER[-1].lines[json.loads(calling.call.arguments)["content"]] += 1
        await asyncio.sleep(KEEPING_SECONDS)
        return ToolResult("success", "kept")
