"""The language of the groups service: messages to a group, and the runs that answer them.

A group has one conversation: its transcript, the run that is under way, and the runs that wait.
Each member answers in a conversation of its own that belongs to the group, so one agent can be in
many groups, and what is said in a group stays out of the agent's own conversation.
"""

from __future__ import annotations

from datetime import datetime
from operator import not_
from typing import Literal

from pydantic import Field

from libs.contracts.agent.conversations import Usage
from libs.contracts.agent.runs import CallingRun
from libs.contracts.bus_messages import (
    Command,
    Event,
    Json,
    JsonObject,
    Value,
    delta_subject,
    is_none,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.message_requests import MAX_STEPS_DEFAULT

SERVICE = "groups"

# Of one group: the run that is under way, and those that wait for it.
GROUP_RUNS_WAITING_MAX = 100
# What a request to a group may say, all its messages together, as JSON.
GROUP_REQUEST_BYTES_MAX = 256 << 10
GROUP_MESSAGES_MAX = 100
# The members that a private message may name.
RECIPIENTS_MAX = 100

type SpeakerRole = Literal["user", "system", "assistant"]
# What a member was asked for: to say something, to pick who speaks next, to answer the manager.
type MemberRunPurpose = Literal["answer", "pick", "ask"]
# A member that was skipped is deleted, or has left; one is cancelled with its run.
type MemberRunStatus = Literal["open", "completed", "failed", "skipped", "cancelled"]
type PickedBy = Literal["manager", "model", "member", "rotation"]


def group_conversation(group_id: str) -> str:
    """The id of the conversation that a group has."""
    return derived_id("group_conversation", group_id)


def member_conversation(group_id: str, agent_id: str, generation: int) -> str:
    """The id of the conversation in which a member answers; each reset begins a new generation."""
    return derived_id("conv", group_id, agent_id, str(generation))


def member_run(group_run_id: str, hop: int) -> str:
    """The id of a member run."""
    return derived_id("run", group_run_id, str(hop))


class GroupMessage(Value):
    """A message to a group, or of one of its members: the sender is an agent, an identity or
    nobody. With `recipients` it is for these members alone."""

    id: str
    role: SpeakerRole = "user"
    content: Json
    created_at: datetime
    name: str | None = None
    sender_id: str | None = None
    otid: str | None = None
    recipients: list[str] = Field(default_factory=list, exclude_if=not_)


class GroupRunCommand(Command, service=SERVICE):
    """A command about the conversation of a group."""

    group_id: str

    @property
    def target(self) -> str:
        return group_conversation(self.group_id)


class StartGroupRun(GroupRunCommand, topic="group_run.start"):
    """Have the members of a group answer messages, as its manager type says.

    With `recipients` only these members see the messages and answer. `callers` are the runs that
    led to it, where an agent sends them; `metadata` is what clients read of the run. With `retry`
    the latest run with the same `request_hash` is meant, if there is one. Answered with `run_id`
    and `request_hash`."""

    run_id: str
    messages: list[GroupMessage]
    created_at: datetime
    recipients: list[str] = Field(default_factory=list, exclude_if=not_)
    callers: list[CallingRun] = Field(default_factory=list, exclude_if=not_)
    max_steps: int = MAX_STEPS_DEFAULT
    request_hash: str = ""
    retry: bool = Field(default=False, exclude_if=not_)
    metadata: JsonObject = Field(default_factory=dict, exclude_if=not_)


class CancelGroupRun(GroupRunCommand, topic="group_run.cancel"):
    """Stop answering: these runs, or without a list every run of the group that has not ended.

    Answered with each run and what became of it."""

    run_ids: list[str] | None = None


class EditGroupMessage(GroupRunCommand, topic="group_message.edit"):
    """Change what a message of the transcript says; members that have not seen it see the new
    text."""

    message_id: str
    content: Json


class ResetGroupMessages(GroupRunCommand, topic="group_messages.reset"):
    """Empty the transcript: what is under way is cancelled, and members begin anew."""


class ToolCallMade(Value):
    """A call of a tool with which a member hands over, a manager asks, or the shared state is
    written; `answer` is what the member is told where that is known when its turn ends."""

    id: str
    name: str
    arguments: str
    answer: str = Field(default="", exclude_if=not_)


class ToolAnswer(Value):
    """The answer to a member about a call that it made in its turn before."""

    tool_call_id: str
    content: str


class Said(Value):
    """A member's words in its turn: one message of its run."""

    message_id: str
    content: str


class GroupEvent(Event, service=SERVICE):
    """A fact about the conversation of a group."""

    group_id: str


class GroupRunEvent(GroupEvent):
    """A fact about one run of a group."""

    run_id: str

    @property
    def about(self) -> str:
        return self.run_id


class GroupRunAccepted(GroupRunEvent, topic="group_run.accepted"):
    """The members of a group will answer these messages."""

    messages: list[GroupMessage]
    recipients: list[str] = Field(default_factory=list, exclude_if=not_)
    callers: list[CallingRun] = Field(default_factory=list, exclude_if=not_)
    max_steps: int
    request_hash: str = ""
    metadata: JsonObject = Field(default_factory=dict, exclude_if=not_)
    manager_type: str


class GroupRunStarted(GroupRunEvent, topic="group_run.started"):
    """It is this run's turn: its messages are part of the transcript.

    `member_ids` are the members that the group has now; they see what is said from here on, if they
    were not there before."""

    member_ids: list[str]


class GroupMessageAppended(GroupEvent, topic="group_message.appended"):
    """A message is part of the transcript, as its message `number`."""

    generation: int
    number: int
    message: GroupMessage
    run_id: str
    hop: int | None = None


class GroupMessageEdited(GroupEvent, topic="group_message.edited"):
    """A message of the transcript says something else."""

    message_id: str
    content: Json


class SpeakerPicked(GroupRunEvent, topic="group_run.speaker_picked"):
    """It was decided which member speaks next, and by whom: the manager, a model, the member that
    spoke last, or the rotation where none of them named a member."""

    agent_id: str
    by: PickedBy


class GroupHopStarted(GroupRunEvent, topic="group_hop.started"):
    """A member is asked for something: its run `member_run_id` is number `hop` of the group's run.

    It is shown what was said after the message `since` and up to the message `up_to`, then the
    `question`. `answers` are about the calls that it made in its turn before; where they say all,
    it is shown nothing besides. `asked_in` is the member run of the manager that asks it. `briefed`
    is the digest of what it is told of the group, where that is told with this turn. A member run
    that `continues` another one has the member go on with the answers to its calls."""

    hop: int
    agent_id: str
    name: str
    member_run_id: str
    conversation_id: str
    purpose: MemberRunPurpose = "answer"
    since: int
    up_to: int
    question: str = Field(default="", exclude_if=not_)
    answers: list[ToolAnswer] = Field(default_factory=list, exclude_if=not_)
    answers_say_all: bool = Field(default=False, exclude_if=not_)
    asked_in: int | None = None
    briefed: str = Field(default="", exclude_if=not_)
    continues: int | None = Field(default=None, exclude_if=is_none)


class GroupHopEnded(GroupRunEvent, topic="group_hop.ended"):
    """A member has answered, or could not: `reason` says why not.

    `calls` are those of the group's tools that wait for an answer."""

    hop: int
    agent_id: str
    status: MemberRunStatus
    reason: str = Field(default="", exclude_if=not_)
    said: list[Said] = Field(default_factory=list, exclude_if=not_)
    calls: list[ToolCallMade] = Field(default_factory=list, exclude_if=not_)
    usage: Usage = Field(default_factory=Usage)
    step_count: int = 0


class GroupRunEnded(GroupRunEvent):
    """A run of a group is over. `is_idle` says that nothing is left to be done in its
    conversation; `open_hops` are those of which nothing came."""

    usage: Usage = Field(default_factory=Usage)
    step_count: int = 0
    open_hops: list[int] = Field(default_factory=list, exclude_if=not_)
    is_idle: bool


class GroupRunCompleted(GroupRunEnded, topic="group_run.completed"):
    """The members of a group have answered."""

    stop_reason: str


class GroupRunFailed(GroupRunEnded, topic="group_run.failed"):
    """Nobody in the group could answer: `message` says why."""

    error_type: str
    message: str


class GroupRunCancelled(GroupRunEnded, topic="group_run.cancelled"):
    """A run of a group was cancelled before it ended; `reason` says why."""

    reason: str


class GroupTranscriptEmptied(GroupEvent, topic="group_transcript.emptied"):
    """The transcript of a group is empty, and its members begin anew, unless the group was deleted:
    then its runs are gone, too."""

    generation: int
    group_deleted: bool = Field(default=False, exclude_if=not_)
    is_idle: bool


class MemberRunsWithdrawn(GroupEvent, topic="group_member_runs.withdrawn"):
    """The remaining runs and conversations that nobody waits for were cancelled and deleted."""

    run_ids: list[str] = Field(default_factory=list)
    conversation_ids: list[str] = Field(default_factory=list)
    is_idle: bool


class GroupConversationForgotten(GroupEvent, topic="group_conversation.forgotten"):
    """The group was deleted, and nothing of its conversation is left to be done."""


def group_run_deltas(org: str, run_id: str) -> str:
    """The subject of what the clients that wait for a group's run are told: `{"turn": hop}` when a
    turn is over, and `{"end": status}` at the end."""
    return delta_subject(SERVICE, "group_run", "progress", org, run_id)
