"""Have the tool calls of a step carried out, several at once where they may, and record each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from libs.contracts.agent.conversations import ToolCall
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.runs.agent_loop import rules_of
from services.agent.domain.runs.run_actions import RunTools
from services.agent.domain.runs.run_steps import tool_interrupted, tool_returned
from services.agent.domain.runs.step_results import ToolResult
from services.agent.engine.leased_conversation import LeasedConversation
from services.agent.engine.ports import EnginePorts


class ToolExecution:
    """The calls that one attempt has under way: those of one step of one run."""

    def __init__(self, ports: EnginePorts, leased: LeasedConversation) -> None:
        self.ports = ports
        self.leased = leased
        self.run_id = ""
        self.running: dict[tuple[str, str], asyncio.Task[ToolResult]] = {}

    async def advance(
        self,
        action: RunTools,
        design_of: Callable[[str], Awaitable[AgentDesign | None]],
        *,
        seconds_left: float,
    ) -> None:
        """Start what is not under way here, wait until a call ends, at most so long, and record
        what came of it. Where a call's start was recorded under another lease, nobody knows what
        came of that: it is made again only if it may be."""
        self.keep_only(action)
        if not await self.begin(action, design_of):
            return
        await asyncio.wait(
            self.running.values(), timeout=seconds_left, return_when=asyncio.FIRST_COMPLETED
        )
        run_id = self.run_id
        for call in action.calls:
            task = self.running.get((action.step_id, call.id))
            if task is None or not task.done():
                continue
            del self.running[action.step_id, call.id]
            if task.cancelled():  # the run was, in another process: see what is recorded of it
                await self.leased.resume()
                return
            await self.record(action.step_id, call, task.result())
            if self.leased.released or self.leased.run_id != run_id:
                return

    async def begin(
        self, action: RunTools, design_of: Callable[[str], Awaitable[AgentDesign | None]]
    ) -> bool:
        """Start the calls that are not under way here; returns whether nothing else has to be
        done first."""
        new = [call for call in action.calls if (action.step_id, call.id) not in self.running]
        if not new:
            return True
        run_id = self.leased.run_id
        design = await design_of(self.leased.conversation.state.agent_id)
        if design is None:
            await self.leased.resume()
            return False
        if self.leased.run_id != run_id:
            return False  # it was cancelled meanwhile
        for call in new:
            recovering = (action.step_id, call.id) not in self.leased.started_here
            if recovering and not self.ports.tools.idempotent(call.name, design):
                await self.interrupt(action.step_id, call)
                return False
        self.run_id = run_id
        rules = rules_of(self.leased.conversation.running())
        for call in new:
            work = self.ports.tools.run(
                call, design, run_id, action.step_id, self.leased.context, rules
            )
            task = asyncio.create_task(work)
            # If its run ends first, nobody asks what came of it.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.running[action.step_id, call.id] = task
        return True

    async def record(self, step_id: str, call: ToolCall, result: ToolResult) -> None:
        """Make the result of a call durable."""
        message_id = self.ports.ids.new("message")
        await self.leased.record(
            lambda conversation: tool_returned(
                conversation,
                step_id,
                call,
                result,
                message_id=message_id,
                at=self.ports.clock.now(),
            )
        )

    async def interrupt(self, step_id: str, call: ToolCall) -> None:
        """Record that nobody knows what came of a call."""
        message_id = self.ports.ids.new("message")
        await self.leased.record(
            lambda conversation: tool_interrupted(
                conversation, step_id, call, message_id=message_id, at=self.ports.clock.now()
            )
        )

    def keep_only(self, action: RunTools) -> None:
        """Stop what is none of these calls any more."""
        wanted = {(action.step_id, call.id) for call in action.calls}
        for key in [key for key in self.running if key not in wanted]:
            self.running.pop(key).cancel()

    def stop(self) -> None:
        """Stop all that is under way."""
        for task in self.running.values():
            task.cancel()

    async def stop_and_wait(self) -> None:
        """Cancel the calls that run now, and wait until they have ended."""
        self.stop()
        await asyncio.gather(*self.running.values(), return_exceptions=True)
        self.running.clear()
