"""Start what a schedule does: a run of its agent, a compaction, a call of a tool.

What is started has an id that follows from the firing and the attempt, and the command that starts
it has the same id each time, so a repeated start means the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from libs.bus.ports import Bus, Clock
from libs.contracts.agent.compaction import CompactConversation
from libs.contracts.agent.conversations import Message
from libs.contracts.agent.summaries import SummarizeMessages
from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    UNPROCESSABLE,
    Accepted,
    Context,
    Json,
    JsonObject,
    Rejected,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.group_runs import GroupMessage, StartGroupRun
from libs.contracts.letta.message_requests import MessageCreate
from libs.contracts.letta.runs import RunConfig
from libs.contracts.scheduler.firings import slot_key
from libs.contracts.scheduler.schedule_config import (
    NEW_CONVERSATION,
    CompactAction,
    GroupMessageAction,
    MessageAction,
    ScheduleConfig,
    SummarizeAction,
    ToolAction,
)
from libs.contracts.tools.tool_runs import RunTool
from libs.contracts.wall_times import zone_named
from libs.work.agent_runs import AgentRuns, WantedRun
from services.scheduler.adapters.agent_tools import AgentTools
from services.scheduler.adapters.schedule_queries import ScheduleQueries
from services.scheduler.domain.schedule_state import Firing

RUN_TYPE = "schedule"
TOOL_SECONDS_MAX = 60.0
TIME = "%A, %Y-%m-%d %H:%M:%S %:z"

GROUP_MESSAGE_FIELDS = {"id", "role", "content", "created_at", "name", "sender_id", "otid"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a firing that is to be started."""

    config: ScheduleConfig
    firing_id: str
    firing: Firing
    context: Context

    @property
    def metadata(self) -> JsonObject:
        """The metadata of the run that it starts, as clients read it."""
        return {
            "run_type": RUN_TYPE,
            "schedule_id": self.config.id,
            "firing_id": self.firing_id,
            "slot": slot_key(self.firing.slot),
        }


@dataclass(frozen=True, slots=True)
class Done:
    """An attempt is over already: there is nothing to wait for. Where it was `skipped`, `reason`
    says why."""

    is_skipped: bool = False
    reason: str = ""


# None where it goes on and will end by itself.
type Outcome = Done | Rejected | None


class Actions:
    """Starts the actions of schedules."""

    def __init__(
        self, bus: Bus, runs: AgentRuns, tools: AgentTools, groups: ScheduleQueries, clock: Clock
    ) -> None:
        self.bus = bus
        self.runs = runs
        self.tools = tools
        self.groups = groups
        self.clock = clock
        self.starters: dict[str, Callable[[Attempt], Awaitable[Outcome]]] = {
            "message": self.send_messages,
            "summarize": self.summarize,
            "group_message": self.send_to_group,
            "compact": self.compact,
            "tool": self.call_tool,
        }

    async def start(self, attempt: Attempt) -> Outcome:
        """Start an attempt; safe to repeat. Raises BusUnavailable and StoreUnavailable."""
        return await self.starters[attempt.config.action.type](attempt)

    async def send_messages(self, attempt: Attempt) -> Outcome:
        """Have the agent answer the messages."""
        config, action = attempt.config, attempt.config.action
        assert isinstance(action, MessageAction)
        conversation_id = config.conversation_id
        new_conversation: JsonObject | None = None
        if conversation_id == NEW_CONVERSATION:
            conversation_id = derived_id("conv", config.id, attempt.firing_id)
            new_conversation = {"summary": config.name or f"A firing of {config.id}"}
        wanted = WantedRun(
            run_id=attempt.firing.run_id,
            agent_id=config.agent_id,
            messages=self.stored_messages(attempt, action.messages),
            created_at=self.clock.now(),
            conversation_id=conversation_id,
            new_conversation=new_conversation,
            metadata=attempt.metadata,
            max_steps=action.max_steps,
            unless_busy=config.if_active == "skip",
            callback_url=action.callback_url,
            include_return_message_types=action.include_return_message_types,
            ends_pause=config.if_active == "wake",
            unless_said=attempt.firing.attempt > 1,
        )
        return self.outcome(config, await self.runs.start(wanted, attempt.context))

    def stored_messages(self, attempt: Attempt, messages: list[MessageCreate]) -> list[Message]:
        """The messages as they will stand in the history; the first one says what time it is. In
        each attempt at a firing they have the same otids and say the same."""
        now = self.clock.now()
        contents = [message.model_dump(mode="json")["content"] for message in messages]
        # Not what the agent is to have said itself; the last one is never that.
        first = next(n for n, message in enumerate(messages) if message.role.value != "assistant")
        contents[first] = with_times(contents[first], attempt)
        return [
            Message(
                id=derived_id("message", attempt.firing.run_id, str(number)),
                role=message.role.value,
                content=contents[number],
                created_at=now,
                otid=derived_id("otid", attempt.firing_id, str(number)).removeprefix("otid-"),
                name=message.name,
                sender_id=message.sender_id,
            )
            for number, message in enumerate(messages)
        ]

    async def compact(self, attempt: Attempt) -> Outcome:
        """Compact the conversation; one that cannot be made shorter is left as it is."""
        config, run_id = attempt.config, attempt.firing.run_id
        assert isinstance(config.action, CompactAction)
        run = RunConfig(
            id=run_id,
            created_at=self.clock.now(),
            agent_id=config.agent_id,
            conversation_id=config.conversation_id,
            background=True,
            metadata=attempt.metadata,
        )
        command = CompactConversation(
            agent_id=config.agent_id,
            conversation_id=config.conversation_id,
            run=run,
            request_hash=run_id,
            unless_busy=config.if_active == "skip",
            settings=config.action.settings,
        )
        reply = await self.bus.request(command, attempt.context.follow_up(run_id))
        if isinstance(reply, Accepted):
            return Done() if "summary" in reply.result else None
        if reply.code == INVALID:
            return Done(is_skipped=True, reason=reply.reason)
        return self.outcome(config, reply)

    async def summarize(self, attempt: Attempt) -> Outcome:
        """Summarise what was said to the agent and what it answered."""
        action, summary_id = attempt.config.action, attempt.firing.run_id
        assert isinstance(action, SummarizeAction)
        command = SummarizeMessages(
            summary_id=summary_id,
            agent_id=attempt.config.agent_id,
            message_count=action.message_count,
            summary_length=action.summary_length,
            save_to_archival=action.save_to_archival,
            request_hash=summary_id,
        )
        reply = await self.bus.request(command, attempt.context.follow_up(summary_id))
        if isinstance(reply, Accepted) and reply.result.get("message_count") == 0:
            return Done(is_skipped=True, reason="There is nothing to summarise")
        return reply if isinstance(reply, Rejected) else None

    async def send_to_group(self, attempt: Attempt) -> Outcome:
        """Have a group answer the messages."""
        action, run_id = attempt.config.action, attempt.firing.run_id
        assert isinstance(action, GroupMessageAction)
        # The reply to a repeated command says what was, so a group that is gone is looked for.
        if not await self.groups.has_group(attempt.context.org, action.group_id):
            return Rejected(code=NOT_FOUND, reason=f"Group with id '{action.group_id}' not found")
        messages = [
            GroupMessage(**message.model_dump(include=GROUP_MESSAGE_FIELDS))
            for message in self.stored_messages(attempt, action.messages)
        ]
        command = StartGroupRun(
            group_id=action.group_id,
            run_id=run_id,
            messages=messages,
            created_at=self.clock.now(),
            request_hash=run_id,
            metadata=attempt.metadata,
        )
        reply = await self.bus.request(command, attempt.context.follow_up(run_id))
        return reply if isinstance(reply, Rejected) else None

    async def call_tool(self, attempt: Attempt) -> Outcome:
        """Call a tool of the agent."""
        config, org = attempt.config, attempt.context.org
        assert isinstance(config.action, ToolAction)
        name = config.action.tool_name
        tool = await self.tools.tool_of_agent(org, config.agent_id, name)
        if tool is None or not tool.runs_alone:
            reason = (
                f"Agent {config.agent_id} has no tool '{name}' that runs without a conversation"
            )
            return Rejected(code=UNPROCESSABLE, reason=reason)
        command = RunTool(
            tool_run_id=attempt.firing.run_id,
            tool_id=tool.id,
            arguments=config.action.arguments,
            environment=tool.environment,
            agent_id=config.agent_id,
            project_id=tool.project_id,
            seconds_max=TOOL_SECONDS_MAX,
        )
        reply = await self.bus.request(command, attempt.context.follow_up(command.tool_run_id))
        if isinstance(reply, Rejected) and reply.code == CONFLICT:
            return None  # it was begun before
        return reply if isinstance(reply, Rejected) else None

    def outcome(self, config: ScheduleConfig, refused: Rejected | None) -> Outcome:
        """The outcome of a refusal: with `if_active="skip"` a busy agent is no failure."""
        if refused and refused.code == CONFLICT and config.if_active == "skip":
            return Done(is_skipped=True, reason=refused.reason)
        return refused


def with_times(content: Json, attempt: Attempt) -> Json:
    """The content of a message behind a line that says when it was due, and what time it is."""
    config, firing = attempt.config, attempt.firing
    zone = zone_named(config.timezone)
    slot, now = (f"{time.astimezone(zone):{TIME}}" for time in (firing.slot, firing.fired_at))
    line = f"[Automatic message] This was due on {slot}. It is {now} ({config.timezone})."
    if isinstance(content, str):
        return f"{line}\n\n{content}"
    assert isinstance(content, list), "content is a text or parts"
    return [{"type": "text", "text": line}, *content]
