"""The tables of the form about schedules and groups."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from libs.agent_toml.tables import Metadata, Name, Table, Text
from libs.contracts.groups.groups import HOPS_MAX, MAX_TURNS_MAX, ManagerType, StateMode
from libs.contracts.letta.group_requests import FREQUENCY_MAX
from libs.contracts.scheduler.schedule_config import (
    MISSED_SLOTS_MAX,
    RETRIES_MAX,
    ActivePolicy,
    MissedPolicy,
)

STEPS_MAX = 1_000
KEYS_OF_ACTION = {
    "tool": ("tool_name", "arguments"),
    "summarize": ("message_count", "summary_length", "save_to_archival"),
    "compact": ("settings",),
}
TYPES_OF_GROUP_KEY = {
    "max_turns": ("round_robin", "dynamic", "swarm"),
    "termination_token": ("dynamic",),
    "sleeptime_agent_frequency": ("sleeptime",),
}


class ScheduleAction(Table):
    """The action of a schedule other than a message."""

    type: Literal["summarize", "compact", "tool"] = Field(
        description="Summarise or compact the conversation, or call a tool."
    )
    tool_name: Name | None = Field(None, description="`tool`: which one.")
    arguments: Metadata | None = Field(None, description="`tool`: what it is called with.")
    message_count: int | None = Field(
        None, ge=1, le=100_000, description="`summarize`: of how many messages."
    )
    summary_length: Literal["short", "medium", "long"] | None = Field(
        None, description="`summarize`: how long."
    )
    save_to_archival: bool | None = Field(
        None, description="`summarize`: whether it goes into the archival memory."
    )
    settings: Metadata | None = Field(
        None, description="`compact`: settings that differ from `[compaction]`."
    )


class Schedule(Table):
    """Something that the agent does by itself, once or repeatedly."""

    name: Name = Field(description="Its name: no two of the agent have the same.")
    at: datetime | Name | None = Field(
        None, description="Once: an ISO 8601 time, such as 2030-01-31T09:00:00+01:00."
    )
    every: Name | None = Field(
        None, description="Repeatedly: `15m`, `6h`, `1d`; what divides an hour or a day evenly."
    )
    cron: Name | None = Field(None, description="Repeatedly: cron, such as `0 9 * * mon-fri`.")
    timezone: Name | None = Field(
        None, description="The zone of `at` and `cron`; without it the agent's."
    )
    message: Text | None = Field(None, description="The message that the agent gets then.")
    action: ScheduleAction | None = Field(None, description="What is done instead of a message.")
    conversation_id: Name | None = Field(
        None, description="In which conversation; `new`: one of its own for each time."
    )
    missed: MissedPolicy = Field(
        "fire_once", description="What follows for times that the server was away."
    )
    missed_slots_max: int | None = Field(
        None, ge=1, le=MISSED_SLOTS_MAX, description='With `missed = "all"`: how many.'
    )
    if_active: ActivePolicy = Field("queue", description="What follows where the agent is busy.")
    retries_max: int | None = Field(
        None, ge=0, le=RETRIES_MAX, description="How often a failure is tried again."
    )
    max_steps: int | None = Field(
        None, ge=1, le=STEPS_MAX, description="How many steps one answer may take."
    )
    callback_url: Name | None = Field(None, description="Where the end of each answer is reported.")


class GroupMembership(Table):
    """A group of agents that the agent belongs to. All files that name it make one group."""

    name: Name = Field(description="The name of the group.")
    role: Literal["member", "manager"] = Field("member", description="What the agent is in it.")
    manager_type: ManagerType | None = Field(
        None, description="Who answers; one file of the group says it."
    )
    description: Text | None = Field(None, description="What the group is for.")
    max_turns: int | None = Field(
        None, ge=1, le=MAX_TURNS_MAX, description="How many answers a message gets."
    )
    termination_token: Name | None = Field(None, description="`dynamic`: the word that ends it.")
    sleeptime_agent_frequency: int | None = Field(
        None, ge=1, le=FREQUENCY_MAX, description="`sleeptime`: at every how manieth run."
    )
    hops_max: int | None = Field(
        None, ge=1, le=HOPS_MAX, description="How often members may hand over."
    )
    shared_state_mode: StateMode | None = Field(
        None, description="How writes to the shared state are merged."
    )
