"""The tools by which agents write to each other: each message is a run of the other agent.

It is begun over the bus, and its id follows from the call: so a call that is made again after a
crash has the same run, and reads the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from libs.bus.ports import Bus, Clock
from libs.contracts.agent.conversations import Message, main_conversation
from libs.contracts.agent.runs import CallingRun
from libs.contracts.bus_messages import Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.eventstore import failpoints
from libs.eventstore.ports import StoreUnavailable
from libs.work.acceptance import NOT_WANTED
from libs.work.agent_runs import AgentRuns, RunProgress, WantedRun, answer_texts
from libs.work.deliveries import Deliveries
from services.agent.adapters.all_queries import Queries
from services.agent.adapters.tool_owner_port import Calling, Runner, error
from services.agent.domain.runs.agent_call_deadlocks import given_up, waits_of
from services.agent.domain.runs.step_results import ToolResult
from services.agent.settings import TOOL_SECONDS_MAX

RETRY_SECONDS = 0.5
# An answer is waited for a little less than a tool may take; and who is waited for waits less
# itself, so that the last one ends first.
PART_OF_DEADLINE = 0.9
TARGETS_MAX = 50
TARGETS_AT_ONCE = 8
TAGS_MAX = 100
NO_ANSWER = "<no response>"
SENT = "Successfully sent message"


class ToAgent(BaseModel):
    """Arguments of the tools that write to one agent."""

    message: str
    other_agent_id: str


class ToTags(BaseModel):
    """Arguments of `send_message_to_agents_matching_tags`."""

    message: str
    match_all: list[str] = Field(default=[], max_length=TAGS_MAX)
    match_some: list[str] = Field(default=[], max_length=TAGS_MAX)


@dataclass(frozen=True, slots=True)
class Answer:
    """Another agent's answer, or the reason why there is none."""

    texts: list[str]
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message to another agent, under way or to be sent, and the run that answers it."""

    calling: Calling
    agent_id: str
    text: str
    callers: list[CallingRun]

    @property
    def run_id(self) -> str:
        """The same for the same call."""
        calling = self.calling
        return derived_id("run", calling.run_id, calling.step_id, calling.call.id, self.agent_id)


class MultiAgentTools:
    """Their runners. `seconds_max` is how long a call of a tool may take."""

    def __init__(
        self, bus: Bus, queries: Queries, clock: Clock, *, seconds_max: float = TOOL_SECONDS_MAX
    ) -> None:
        self.bus = bus
        self.queries = queries
        self.clock = clock
        self.deliveries = Deliveries(AgentRuns(bus, queries), clock)
        self.seconds_max = seconds_max
        self.runners: dict[str, Runner] = {
            "send_message_to_agent_and_wait_for_reply": self.wait_for_reply,
            "send_message_to_agent_async": self.send,
            "send_message_to_agents_matching_tags": self.ask_by_tags,
        }

    async def wait_for_reply(self, calling: Calling) -> ToolResult:
        """Write to another agent and wait for what it says."""
        wanted = ToAgent.model_validate_json(calling.call.arguments)
        callers = await self.callers(calling, waits=True)
        answer = await self.answer(Sent(calling, wanted.other_agent_id, wanted.message, callers))
        if answer.failed:
            return error(answer.failed)
        return ToolResult("success", str(answer_fields(wanted.other_agent_id, answer)))

    async def send(self, calling: Calling) -> ToolResult:
        """Write to another agent; what it says is in its own history."""
        wanted = ToAgent.model_validate_json(calling.call.arguments)
        callers = await self.callers(calling, waits=False)
        sent = Sent(calling, wanted.other_agent_id, wanted.message, callers)
        refused = await self.deliveries.begin(self.wanted_run(sent), calling.context)
        failpoints.reach("after_message_to_agent")
        return error(refused.reason) if refused else ToolResult("success", SENT)

    async def ask_by_tags(self, calling: Calling) -> ToolResult:
        """Write to all agents with some tags, several at a time, and gather what they say."""
        wanted = ToTags.model_validate_json(calling.call.arguments)
        own = calling.design.config.id
        found = await self.queries.agents_with_tags(
            calling.context.org, wanted.match_all, wanted.match_some, TARGETS_MAX + 2
        )
        others = [agent_id for agent_id in found if agent_id != own]
        if len(others) > TARGETS_MAX:
            return error(f"More than {TARGETS_MAX} agents have these tags: name more of them.")
        callers = await self.callers(calling, waits=True)
        room = asyncio.Semaphore(TARGETS_AT_ONCE)

        async def ask(agent_id: str) -> dict[str, Any]:
            async with room:
                return answer_fields(
                    agent_id, await self.answer(Sent(calling, agent_id, wanted.message, callers))
                )

        return ToolResult("success", str(await asyncio.gather(*map(ask, others))))

    async def callers(self, calling: Calling, *, waits: bool) -> list[CallingRun]:
        """The runs that led to this call, and the run that makes it. Raises StoreUnavailable."""
        chain = await self.queries.call_chain(calling.context.org, calling.run_id)
        config = calling.design.config
        known = chain.conversation_id if chain else main_conversation(config.id)
        own = CallingRun(
            agent_id=config.id, conversation_id=known, run_id=calling.run_id, waits=waits
        )
        return [*(chain.callers if chain else []), own]

    async def answer(self, sent: Sent) -> Answer:
        """The other agent's answer, within the time that there is for it."""
        depth = waits_of(sent.callers)
        seconds = self.seconds_max * PART_OF_DEADLINE**depth
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self.through_outages(lambda: self.ask(sent))
        except TimeoutError:
            if not limit.expired():
                raise
            return await self.late(sent, seconds)

    async def through_outages[T](self, ask: Callable[[], Awaitable[T]]) -> T:
        """The result of `ask`, which is called again after an outage of the store."""
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                await self.clock.sleep(RETRY_SECONDS)

    async def ask(self, sent: Sent) -> Answer:
        """Start the run and follow it to its end. While it is in line it may turn out that all wait
        for all: then it is withdrawn. Raises StoreUnavailable."""
        context = sent.calling.context

        async def goes_on(run: RunProgress | None) -> bool:
            in_line = run is not None and run.status == "created"
            return not (in_line and await self.must_give_up(sent))

        ended = await self.deliveries.answer(self.wanted_run(sent), context, goes_on=goes_on)
        name = f"Agent {sent.agent_id}"
        if ended is None:
            return Answer([], f"{name} does not exist any more")
        if ended is NOT_WANTED:
            why = "waits for an answer that waits for yours, so your message was withdrawn"
            return Answer([], f"{name} {why}")
        if isinstance(ended, Rejected):
            return Answer([], ended.reason)
        if ended.status != "completed":
            why = f"{name} gave no answer: its run is {ended.status}"
            return Answer([], f"{why} ({ended.stop_reason})" if ended.stop_reason else why)
        v1_messages = await self.queries.run_messages(context.org, sent.run_id)
        return Answer(answer_texts(v1_messages) or [NO_ANSWER])

    def wanted_run(self, sent: Sent) -> WantedRun:
        """The run that answers: to a message of the system that says who writes."""
        now, sender = self.clock.now(), sent.calling.design.config.id
        what = "your answer goes back to it" if sent.callers[-1].waits else "it does not wait"
        message = Message(
            id=derived_id("message", sent.run_id),
            role="system",
            content=f"[Message from agent {sender}: {what}] {sent.text}",
            created_at=now,
            sender_id=sender,
        )
        return WantedRun(
            run_id=sent.run_id,
            agent_id=sent.agent_id,
            messages=[message],
            created_at=now,
            metadata={"run_type": "send_message_to_agent", "caller_run_id": sent.calling.run_id},
            callers=tuple(sent.callers),
        )

    async def must_give_up(self, sent: Sent) -> bool:
        """Whether all wait for all, and this call is the one that ends that."""
        calls = await self.queries.waiting_calls(sent.calling.context.org, sent.run_id)
        return given_up(calls, sent.run_id)

    async def late(self, sent: Sent, seconds: float) -> Answer:
        """The answer for an agent that did not reply in time; a run that is still in line there is
        withdrawn."""
        context = sent.calling.context
        run = await self.queries.run_progress(context.org, sent.run_id)
        if run is not None and run.status == "created":
            await self.deliveries.withdraw(sent.agent_id, sent.run_id, context)
            what = "was busy with something else, so your message was withdrawn"
        else:
            what = "is still at work on its answer, which nobody waits for any more"
        return Answer([], f"Agent {sent.agent_id} did not answer within {seconds:.0f} s: it {what}")


def answer_fields(agent_id: str, answer: Answer) -> dict[str, Any]:
    """An answer as models read it, the way V1 writes it."""
    texts = [f"<error: {answer.failed}>"] if answer.failed else answer.texts
    return {"agent_id": agent_id, "response": texts}
