"""Ask a model for one step, and tell its answer while it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from libs.bus.ports import Clock, Ids
from libs.contracts.agent.conversations import BoundTool, Message, ToolCall
from libs.contracts.agent.stored_to_letta_messages import assistant_parts, text_of
from libs.contracts.letta.messages import Envelope
from libs.contracts.token_estimates import message_bytes, schema_bytes
from services.agent.adapters.models.ports import (
    Finished,
    ModelDelta,
    Models,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.approval_state import NOT_BOUND, CallGates, gates
from services.agent.domain.conversations.configuration_overrides import with_own_system
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import SystemPrompt
from services.agent.domain.prompts.compaction_plan import PromptSize
from services.agent.domain.prompts.model_context import (
    ModelRequest,
    ShownMemory,
    rebuilt_prompt,
    weighed_messages,
)
from services.agent.domain.prompts.system_prompt import skills_note
from services.agent.domain.runs.agent_loop import OfferedTools
from services.agent.domain.runs.agent_loops import loop_of
from services.agent.domain.runs.reply_interpretation import CallReaders
from services.agent.domain.runs.step_results import (
    AnsweredStep,
    ModelReply,
    Spoken,
    kept_calls,
    spoken_message,
)
from services.agent.engine.run_stream import RunStreamPublisher
from services.agent.engine.stream_chunk_building import StepChunks


class ReplyStream:
    """Turns what a model says into what is sent of it. With `holds_text` what it writes may turn
    out to be thoughts, and is sent when that is known."""

    def __init__(self, readers: CallReaders, *, parallel: bool, holds_text: bool) -> None:
        self.readers = readers
        self.parallel = parallel
        self.holds_text = holds_text
        readers.native = False
        self.text_sent = False
        self.thoughts_sent = False
        self.calls: set[str] = set()
        self.unnamed: tuple[str, str] | None = None  # a call whose name was not sent yet

    def of(self, delta: ModelDelta) -> Iterator[ModelDelta]:
        """The deltas to send for a chunk."""
        match delta:
            case ReasoningDelta():
                if not self.thoughts_sent:
                    self.readers.native = True
                    yield delta
            case TextDelta():
                if not self.holds_text and not self.readers.words_first:
                    self.text_sent = True
                    yield delta
            case ToolCallDelta(id, name):
                if id in self.calls:
                    yield from self.stream_arguments(delta)
                elif self.parallel or not self.calls:
                    yield from self.ended_call()
                    self.calls.add(id)
                    yield from self.begun_call(delta, name or "")

    def begun_call(self, delta: ToolCallDelta, name: str) -> Iterator[ModelDelta]:
        """A call begins: its name waits for its thoughts."""
        if self.readers.reader(delta.id, name) is None:
            yield delta
        else:
            self.unnamed = (delta.id, name)

    def stream_arguments(self, delta: ToolCallDelta) -> Iterator[ModelDelta]:
        """The deltas that clients receive of a chunk of a call's arguments."""
        reader = self.readers.readers.get(delta.id)
        if reader is None:
            yield delta
            return
        read = reader.read(delta.arguments)
        if read.thoughts and not self.readers.native:
            self.thoughts_sent = True
            yield ReasoningDelta(read.thoughts, inner=True)
        if read.words and self.sends_words(delta.id):
            yield TextDelta(read.words)
        if read.rest and not reader.names.held:
            yield from self.stream_call(delta.id, read.rest)

    def sends_words(self, call_id: str) -> bool:
        """Whether the words of a call are sent as they come: one text of a step is."""
        if self.text_sent or self.readers.words_first not in ("", call_id):
            return False
        self.readers.words_first = call_id
        return True

    def stream_call(self, call_id: str, arguments: str) -> Iterator[ModelDelta]:
        """The arguments as they are, after the call's name if that was not sent yet."""
        if self.unnamed is not None:
            _, name = self.unnamed
            self.unnamed = None
            yield ToolCallDelta(call_id, name)
        yield ToolCallDelta(call_id, arguments=arguments)

    def ended_call(self) -> Iterator[ModelDelta]:
        """The call before another one is whole: if it says nothing to the user, it is sent."""
        if self.unnamed is None:
            return
        call_id, name = self.unnamed
        whole = self.readers.read_call(ToolCall(id=call_id, name=name, arguments=""))
        if whole.spoken_argument:
            self.unnamed = None
        else:
            yield from self.stream_call(call_id, whole.arguments)


CHUNKS_MAX = 50_000


@dataclass(frozen=True, slots=True)
class StepRequest:
    """The request of a step to a model; it holds for the conversation at `version`. `rebuilt` is
    the system message that it shows, if that is a new one, made of this memory. `size` is how much
    all of it weighs."""

    version: int
    request: ModelRequest
    rebuilt: SystemPrompt | None
    offered: OfferedTools
    memory: ShownMemory
    size: PromptSize
    gates: CallGates
    renamed: Mapping[str, str]
    bound: Mapping[str, BoundTool]


def step_request(
    conversation: Conversation, design: AgentDesign, memory: ShownMemory, *, at: datetime
) -> StepRequest:
    """The next request to the model of an agent that sees this memory."""
    rebuilt = rebuilt_prompt(conversation.state, design.config, memory, at=at)
    return question_showing(conversation, design, memory, rebuilt, at=at)


def question_showing(
    conversation: Conversation,
    design: AgentDesign,
    memory: ShownMemory,
    rebuilt: SystemPrompt | None,
    *,
    at: datetime,
) -> StepRequest:
    """The next request to the model, with the present system message or a `rebuilt` one."""
    state, run = conversation.state, conversation.running()
    offered = loop_of(run.agent_type).offered_tools(design, run)
    tokens = design.config.llm_config.context_window
    shown, weight = weighed_messages(
        state, rebuilt, conversation.shown_window, window_tokens=tokens
    )
    messages = with_own_system(shown, run)
    if run.gate is not None and run.gate.client_skills:
        prompt = f"{text_of(messages[0])}{skills_note(run.gate.client_skills)}"
        messages[0] = messages[0].model_copy(update={"content": prompt})
    if offered.reminder:
        messages.append(Message(id="", role="user", content=offered.reminder, created_at=at))
        weight += message_bytes(messages[-1])
    request = ModelRequest(
        config=design.config,
        messages=messages,
        tools=offered.schemas,
        parallel=offered.parallel,
        must_call=offered.must_call,
        stream_tokens=run.stream_tokens,
    )
    held = gates(run.gate, state.answered, run.next_step_id, offered.names, design.attached_names)
    size = PromptSize(
        system=message_bytes(messages[0]),
        tools=schema_bytes(offered.schemas),
        messages=weight,
    )
    return StepRequest(
        conversation.version,
        request,
        rebuilt,
        offered,
        memory,
        size,
        held,
        design.attached_names,
        design.bound if run.gate is not None else NOT_BOUND,
    )


def answered_step(
    question: StepRequest, step_id: str, reply: ModelReply, spoken: Spoken, *, model_ns: int
) -> AnsweredStep:
    """A step whose question has this reply."""
    llm = question.request.config.llm_config
    return AnsweredStep(
        step_id,
        llm.handle or llm.model,
        reply,
        spoken,
        parallel=question.request.parallel,
        offered=question.offered.names,
        renamed=question.renamed,
        bound=question.bound,
        concurrent=question.offered.concurrent,
        gone=question.offered.gone,
        rebuilt=question.rebuilt,
        model_ns=model_ns,
        prompt_bytes=0 if reply.asked_twice else question.size.whole,
    )


class ModelStep:
    """Asks the models for the steps of one conversation."""

    def __init__(
        self, models: Models, publisher: RunStreamPublisher, clock: Clock, ids: Ids
    ) -> None:
        self.models = models
        self.publisher = publisher
        self.clock = clock
        self.ids = ids

    async def answer(
        self, question: StepRequest, active: ActiveRun, step_id: str, *, number: int
    ) -> tuple[ModelReply, Spoken]:
        """The model's answer to a step, as its loop interprets it; streamed from `number` on if
        tokens were asked for. Raises ModelFailed."""
        message_id, request = self.ids.new("message"), question.request
        if not request.stream_tokens:
            reply = await self.models.reply(request)
            reply = loop_of(active.agent_type).interpret(reply, active, question.offered)
            return reply, Spoken(message_id, self.clock.now())
        since = self.clock.now()
        envelope = Envelope(id=message_id, date=since, run_id=active.run.id, step_id=step_id)
        step = StepChunks(envelope, parallel=request.parallel, gates=question.gates)
        spoken = Spoken(message_id, since, number, step.chunks)
        reply = await self.streamed_reply(question, active, step, spoken)
        return reply, spoken

    async def streamed_reply(
        self, question: StepRequest, active: ActiveRun, step: StepChunks, spoken: Spoken
    ) -> ModelReply:
        """The model's reply as its loop interprets it, streamed chunk by chunk."""
        assert spoken.number is not None, "what is streamed has a number"
        request, offered, loop = question.request, question.offered, loop_of(active.agent_type)
        readers = loop.call_readers(active, offered)
        sent = None
        if not readers.plain:
            sent = ReplyStream(readers, parallel=request.parallel, holds_text=offered.holds_text)
        self.publisher.last_number, after = spoken.number - 1, active.last_number
        async with aclosing(self.models.stream(request)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    reply = loop.interpret(event.reply, active, offered, readers)
                    calls = [
                        step.gates.mark_gated(call)
                        for call in kept_calls(reply, parallel=request.parallel)
                    ]
                    message = spoken_message(spoken, reply, calls)
                    chunks = step.rest(assistant_parts(message, step.envelope))
                else:
                    # The rest is sent at the end: each chunk is remembered with the message.
                    deltas = (event,) if sent is None else sent.of(event)
                    enough = len(step.chunks) >= CHUNKS_MAX
                    chunks = (
                        [] if enough else [chunk for delta in deltas for chunk in step.of(delta)]
                    )
                for chunk in chunks:
                    await self.publisher.chunk(active.run.id, chunk, after=after)
                    after = self.publisher.last_number
                    if after == spoken.number:
                        # It may be sent before the others are looked at, which came with it.
                        await asyncio.sleep(0)
                if isinstance(event, Finished):
                    return reply
        raise AssertionError("a model's stream ends with the whole answer, or fails")
