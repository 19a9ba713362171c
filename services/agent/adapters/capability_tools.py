"""The tool by which an agent writes to whichever agent can do something.

The groups service routes the message. Its id follows from the call, so a call that is made again
after a crash has the same message, and reads the same answer.
"""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.runs import CallingRun
from libs.contracts.bus_messages import Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.routing import (
    Recipients,
    RoutedRequest,
    RouteMessage,
    routed_message_deltas,
)
from libs.contracts.letta.capabilities import CapabilityName
from libs.contracts.letta.message_requests import MAX_STEPS_DEFAULT
from libs.work.acceptance import ask_until_accepted
from libs.work.agent_runs import LOOK_SECONDS, LOOK_SECONDS_MAX, answer_texts
from libs.work.progress import Progress, follow
from services.agent.adapters.multi_agent_tools import (
    NO_ANSWER,
    PART_OF_DEADLINE,
    Answer,
    MultiAgentTools,
    answer_fields,
)
from services.agent.adapters.routed_message_queries import RoutedProgress
from services.agent.adapters.tool_owner_port import Calling, Runner, error
from services.agent.domain.runs.agent_call_deadlocks import given_up, waits_of
from services.agent.domain.runs.step_results import ToolResult

# Routing ends so much before the call does, so that the model is told why.
GRACE_SECONDS = 2


class ToCapability(BaseModel):
    """Arguments of `send_message_to_capability`."""

    capability: CapabilityName
    message: str


class CapabilityTools:
    """Their runners, on what the tools that name an agent have."""

    def __init__(self, others: MultiAgentTools) -> None:
        self.others = others
        self.runners: dict[str, Runner] = {"send_message_to_capability": self.ask}

    async def ask(self, calling: Calling) -> ToolResult:
        """Write to whichever agent can do something, and wait for what it says."""
        wanted = ToCapability.model_validate_json(calling.call.arguments)
        callers = await self.others.callers(calling, waits=True)
        seconds = self.others.seconds_max * PART_OF_DEADLINE ** waits_of(callers)
        command = self.command(calling, wanted, callers, seconds)
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self.others.through_outages(lambda: self.ask_once(calling, command))
        except TimeoutError:
            if not limit.expired():
                raise
            return error(f"No agent answered within {seconds:.0f} s")

    def command(
        self, calling: Calling, wanted: ToCapability, callers: list[CallingRun], seconds: float
    ) -> RouteMessage:
        """The command that routes the message, sent as a system message that names the writer."""
        sender, call = calling.design.config.id, calling.call
        routed_id = derived_id("routed_message", calling.run_id, calling.step_id, call.id)
        text = f"[Message from agent {sender}: your answer goes back to it] {wanted.message}"
        message = Message(
            id=derived_id("message", routed_id),
            role="system",
            content=text,
            created_at=self.others.clock.now(),
            sender_id=sender,
        )
        request = RoutedRequest(
            pattern="one",
            recipients=Recipients(capability=wanted.capability),
            messages=[message],
            max_steps=MAX_STEPS_DEFAULT,
            callers=callers,
        )
        seconds_max = max(int(seconds) - GRACE_SECONDS, 1)
        return RouteMessage(routed_message_id=routed_id, request=request, seconds_max=seconds_max)

    async def ask_once(self, calling: Calling, command: RouteMessage) -> ToolResult:
        """Have the message routed, and follow it to its end. Raises StoreUnavailable."""
        bus, clock = self.others.bus, self.others.clock
        context = calling.context.follow_up(command.routed_message_id)
        subject = routed_message_deltas(context.org, command.routed_message_id)
        async with follow(bus, subject) as progress:
            reply = await ask_until_accepted(bus, clock, command, context)
            if isinstance(reply, Rejected):
                return error(reply.reason)
            return await self.end(calling, command.routed_message_id, progress)

    async def end(self, calling: Calling, routed_id: str, progress: Progress) -> ToolResult:
        """The result of the message. While it is in line at an agent it may turn out that all wait
        for all: then it is withdrawn there, and goes to another agent."""
        org, look = calling.context.org, LOOK_SECONDS
        while True:
            await progress.next(look)
            routed = await self.others.queries.routed_progress(org, routed_id)
            if routed is None or routed.status == "failed":
                return error(routed.reason if routed else "The message is not there any more")
            if routed.status == "completed":
                return await self.answer(org, routed)
            await self.withdraw_if_all_wait(calling, routed)
            look = min(2 * look, LOOK_SECONDS_MAX)

    async def answer(self, org: str, routed: RoutedProgress) -> ToolResult:
        """The answering agent's words. Raises StoreUnavailable."""
        texts = answer_texts(await self.others.queries.run_messages(org, routed.run_id))
        return ToolResult(
            "success", str(answer_fields(routed.agent_id, Answer(texts or [NO_ANSWER])))
        )

    async def withdraw_if_all_wait(self, calling: Calling, routed: RoutedProgress) -> None:
        """End the run in line that can never begin, if this call is the one to give up. Raises
        StoreUnavailable."""
        calls = await self.others.queries.waiting_calls(calling.context.org, routed.run_id)
        if given_up(calls, routed.run_id):
            await self.others.deliveries.withdraw(routed.agent_id, routed.run_id, calling.context)
