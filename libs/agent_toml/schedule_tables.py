"""The tables of the form about schedules and groups."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

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


class ScheduleAction(Table):
    """The action of a schedule other than a message."""

    type: Annotated[
        Literal["summarize", "compact", "tool"],
        Field(description="Summarise or compact the conversation, or call a tool."),
    ]
    tool_name: Annotated[Name | None, Field(description="`tool`: which one.")] = None
    arguments: Annotated[Metadata | None, Field(description="`tool`: what it is called with.")] = (
        None
    )
    message_count: Annotated[
        int | None, Field(ge=1, le=100_000, description="`summarize`: of how many messages.")
    ] = None
    summary_length: Annotated[
        Literal["short", "medium", "long"] | None, Field(description="`summarize`: how long.")
    ] = None
    save_to_archival: Annotated[
        bool | None, Field(description="`summarize`: whether it goes into the archival memory.")
    ] = None
    settings: Annotated[
        Metadata | None,
        Field(description="`compact`: settings that differ from `[compaction]`."),
    ] = None


class Schedule(Table):
    """Something that the agent does by itself, once or repeatedly."""

    name: Annotated[Name, Field(description="Its name: no two of the agent have the same.")]
    at: Annotated[
        datetime | Name | None,
        Field(description="Once: an ISO 8601 time, such as 2030-01-31T09:00:00+01:00."),
    ] = None
    every: Annotated[
        Name | None,
        Field(description="Repeatedly: `15m`, `6h`, `1d`; what divides an hour or a day evenly."),
    ] = None
    cron: Annotated[
        Name | None, Field(description="Repeatedly: cron, such as `0 9 * * mon-fri`.")
    ] = None
    timezone: Annotated[
        Name | None, Field(description="The zone of `at` and `cron`; without it the agent's.")
    ] = None
    message: Annotated[Text | None, Field(description="The message that the agent gets then.")] = (
        None
    )
    action: Annotated[
        ScheduleAction | None, Field(description="What is done instead of a message.")
    ] = None
    conversation_id: Annotated[
        Name | None,
        Field(description="In which conversation; `new`: one of its own for each time."),
    ] = None
    missed: Annotated[
        MissedPolicy, Field(description="What follows for times that the server was away.")
    ] = "fire_once"
    missed_slots_max: Annotated[
        int | None,
        Field(ge=1, le=MISSED_SLOTS_MAX, description='With `missed = "all"`: how many.'),
    ] = None
    if_active: Annotated[
        ActivePolicy, Field(description="What follows where the agent is busy.")
    ] = "queue"
    retries_max: Annotated[
        int | None, Field(ge=0, le=RETRIES_MAX, description="How often a failure is tried again.")
    ] = None
    max_steps: Annotated[
        int | None, Field(ge=1, le=STEPS_MAX, description="How many steps one answer may take.")
    ] = None
    callback_url: Annotated[
        Name | None, Field(description="Where the end of each answer is reported.")
    ] = None


class GroupMembership(Table):
    """A group of agents that the agent belongs to. All files that name it make one group."""

    name: Annotated[Name, Field(description="The name of the group.")]
    role: Annotated[Literal["member", "manager"], Field(description="What the agent is in it.")] = (
        "member"
    )
    manager_type: Annotated[
        ManagerType | None, Field(description="Who answers; one file of the group says it.")
    ] = None
    description: Annotated[Text | None, Field(description="What the group is for.")] = None
    max_turns: Annotated[
        int | None, Field(ge=1, le=MAX_TURNS_MAX, description="How many answers a message gets.")
    ] = None
    termination_token: Annotated[
        Name | None, Field(description="`dynamic`: the word that ends it.")
    ] = None
    sleeptime_agent_frequency: Annotated[
        int | None,
        Field(ge=1, le=FREQUENCY_MAX, description="`sleeptime`: at every how manieth run."),
    ] = None
    hops_max: Annotated[
        int | None, Field(ge=1, le=HOPS_MAX, description="How often members may hand over.")
    ] = None
    shared_state_mode: Annotated[
        StateMode | None, Field(description="How writes to the shared state are merged.")
    ] = None
