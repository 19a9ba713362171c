"""Configuration of a schedule: its times, its action, and the policy for missed slots.

A slot is a moment in UTC at which a schedule is due. A firing is what the schedule does about one
slot, or because a client asked for it; it starts a run, and another one where a run fails.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from libs.contracts.bus_messages import Value, is_none
from libs.contracts.letta.message_requests import (
    MAX_STEPS_DEFAULT,
    STEPS_MAX,
    MessageCreate,
    MessageTypes,
)
from libs.contracts.letta.request_size_limits import Metadata, Name

# Instead of the id of a conversation: each firing has one of its own.
NEW_CONVERSATION = "new"
# Schedules that have not completed, of one agent and of one organisation.
AGENT_SCHEDULES_MAX = 100
ORGANISATION_SCHEDULES_MAX = 10_000
# Of the schedules of an agent that have completed, the newest stay.
COMPLETED_SCHEDULES_KEPT = 100
MESSAGES_PER_FIRING_MAX = 100
MESSAGES_BYTES_MAX = 256 * 1024
# How many missed slots `missed="all"` fires, the latest ones.
MISSED_SLOTS_DEFAULT, MISSED_SLOTS_MAX = 100, 1_000
RETRIES_DEFAULT, RETRIES_MAX = 3, 10

ScheduleType = Literal["one_time", "recurring"]
MissedPolicy = Literal["fire_once", "skip", "all"]
ActivePolicy = Literal["queue", "skip", "wake"]


type FiringMessages = Annotated[
    list[MessageCreate], Field(min_length=1, max_length=MESSAGES_PER_FIRING_MAX)
]


class MessageAction(Value):
    """Have the agent answer these messages."""

    type: Literal["message"] = "message"
    messages: FiringMessages
    max_steps: Annotated[int, Field(ge=1, le=STEPS_MAX)] = MAX_STEPS_DEFAULT
    callback_url: Name | None = Field(default=None, exclude_if=is_none)
    include_return_message_types: MessageTypes | None = Field(default=None, exclude_if=is_none)


class SummarizeAction(Value):
    """Summarise what was said."""

    type: Literal["summarize"] = "summarize"
    message_count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    summary_length: Literal["short", "medium", "long"] = "medium"
    save_to_archival: bool = True


class CompactAction(Value):
    """Compact the conversation, as the agent's settings say but for these."""

    type: Literal["compact"] = "compact"
    settings: Metadata = Field(default_factory=dict)


class ToolAction(Value):
    """Call a tool of the agent; no model is asked."""

    type: Literal["tool"] = "tool"
    tool_name: Name
    arguments: Metadata = Field(default_factory=dict)


class GroupMessageAction(Value):
    """Send these messages to a group."""

    type: Literal["group_message"] = "group_message"
    group_id: Name
    messages: FiringMessages


type Action = Annotated[
    MessageAction | SummarizeAction | CompactAction | ToolAction | GroupMessageAction,
    Field(discriminator="type"),
]


class ScheduleConfig(Value):
    """A schedule as its client asked for it. `scheduled_at` is when a one-time schedule is due;
    `cron_expression` (five fields, in `timezone`) when a recurring one is. Without a
    `conversation_id` runs are in the agent's own conversation, and with `new` each firing of
    messages has a conversation of its own. `client_fields` are what the api remembers of the
    request, to answer in its form; the scheduler does not read them."""

    id: str
    agent_id: str
    created_at: datetime
    name: Name | None = None
    schedule_type: ScheduleType
    scheduled_at: datetime | None = None
    cron_expression: Name | None = None
    timezone: Name = "UTC"
    action: Action
    conversation_id: Name | None = None
    missed: MissedPolicy = "fire_once"
    missed_slots_max: Annotated[int, Field(ge=1, le=MISSED_SLOTS_MAX)] = MISSED_SLOTS_DEFAULT
    if_active: ActivePolicy = "queue"
    retries_max: Annotated[int, Field(ge=0, le=RETRIES_MAX)] = RETRIES_DEFAULT
    client_fields: Metadata = Field(default_factory=dict)
