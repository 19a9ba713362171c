"""What is known of the conversation of a group, and how each event changes it."""

from __future__ import annotations

from pydantic import BaseModel, Field
from pydantic_core import to_json

from libs.contracts.agent.conversations import Usage
from libs.contracts.agent.runs import CallingRun
from libs.contracts.bus_messages import Event
from libs.contracts.groups.group_runs import (
    GroupConversationForgotten,
    GroupHopEnded,
    GroupHopStarted,
    GroupMessage,
    GroupMessageAppended,
    GroupMessageEdited,
    GroupRunAccepted,
    GroupRunCancelled,
    GroupRunEnded,
    GroupRunStarted,
    GroupTranscriptEmptied,
    MemberRunPurpose,
    MemberRunStatus,
    MemberRunsWithdrawn,
    SpeakerPicked,
    ToolAnswer,
    ToolCallMade,
    member_conversation,
)

# What of the transcript members may still be shown; all of it stands in the read model.
SHOWN_MESSAGES_MAX = 500
SHOWN_BYTES_MAX = 1 << 20
# The ended runs that are remembered, so that a retried request finds its run.
ENDED_RUNS_REMEMBERED_MAX = 32
# The members that have left whose conversations still go with the transcript.
LEFT_MEMBERS_MAX = 1_000


class TranscriptMessage(BaseModel):
    """A message of the transcript, and its place there."""

    number: int
    message: GroupMessage
    bytes: int


class MemberState(BaseModel):
    """How far a member is: what it saw last, what it was told of the group, and which calls of its
    own wait for an answer. `is_made` says that its conversation exists."""

    seen: int
    conversation_id: str
    is_made: bool = False
    briefed: str = ""
    calls: list[ToolCallMade] = []


class MemberRun(BaseModel):
    """One member run of a run: what a member was asked for, and what came of it."""

    hop: int
    agent_id: str
    name: str
    run_id: str
    conversation_id: str
    purpose: MemberRunPurpose = "answer"
    since: int
    up_to: int
    question: str = ""
    answers: list[ToolAnswer] = []
    answers_say_all: bool = False
    asked_in: int | None = None
    briefed: str = ""
    continues: int | None = None
    status: MemberRunStatus = "open"
    reason: str = ""
    texts: list[str] = []
    calls: list[ToolCallMade] = []

    @property
    def is_open(self) -> bool:
        """Whether the member has not answered yet."""
        return self.status == "open"

    @property
    def text(self) -> str:
        """All that the member said."""
        return "\n".join(self.texts)


class WaitingGroupRun(BaseModel):
    """A run whose members have not been asked yet."""

    id: str
    messages: list[GroupMessage]
    recipients: list[str] = []
    callers: list[CallingRun] = []
    max_steps: int
    request_hash: str = ""


class ActiveGroupRun(WaitingGroupRun):
    """The run that is under way. `first` is the number of the transcript after its own messages;
    `next_speaker` is the member that was picked to speak and not asked yet."""

    first: int = 0
    hops: list[MemberRun] = []
    next_speaker: str = ""
    usage: Usage = Field(default_factory=Usage)
    step_count: int = 0

    @property
    def open_member_runs(self) -> list[MemberRun]:
        """The member runs whose members have not answered yet."""
        return [hop for hop in self.hops if hop.is_open]


class EndedGroupRun(BaseModel):
    """A run that is over, and the request that it answered."""

    id: str
    request_hash: str


class MemberCleanup(BaseModel):
    """A run of a member that nobody waits for any more; without a `run_id` its whole
    conversation."""

    agent_id: str
    conversation_id: str
    run_id: str = ""


class GroupConversationState(BaseModel):
    """What is known of the conversation of a group.

    `last_speaker` is the member that answered last, `left` are the conversations of members that
    have left, which go with the transcript. `is_closed` says that the group was deleted, and all
    that was the conversation's with it."""

    group_id: str = ""
    generation: int = 0
    number: int = 0
    transcript: list[TranscriptMessage] = []
    transcript_bytes: int = 0
    members: dict[str, MemberState] = {}
    queue: list[WaitingGroupRun] = []
    active: ActiveGroupRun | None = None
    ended: list[EndedGroupRun] = []
    cleanups: list[MemberCleanup] = []
    last_speaker: str = ""
    left: dict[str, str] = {}
    is_closed: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to be done."""
        return self.active is None and not self.queue and not self.cleanups

    @property
    def running(self) -> ActiveGroupRun:
        """The run that is under way, where there must be one."""
        assert self.active is not None, "a run is under way"
        return self.active


def evolve(state: GroupConversationState, event: Event) -> None:
    """Change the state by one event."""
    match event:
        case GroupRunAccepted():
            state.group_id = event.group_id
            state.queue.append(waiting_run(event))
        case GroupRunStarted():
            start_run(state, event)
        case GroupMessageAppended():
            append_message(state, event)
        case GroupMessageEdited():
            edit_message(state, event)
        case SpeakerPicked():
            state.running.next_speaker = event.agent_id
        case GroupHopStarted():
            start_member_run(state, event)
        case GroupHopEnded():
            end_member_run(state, event)
        case GroupRunEnded():
            end_run(state, event)
        case GroupTranscriptEmptied():
            empty_transcript(state, event)
        case GroupConversationForgotten():
            state.group_id, state.is_closed = event.group_id, True
        case MemberRunsWithdrawn():
            state.cleanups = [
                cleanup
                for cleanup in state.cleanups
                if cleanup.run_id not in event.run_ids
                and (cleanup.run_id or cleanup.conversation_id not in event.conversation_ids)
            ]


def waiting_run(event: GroupRunAccepted) -> WaitingGroupRun:
    """A run as it waits."""
    return WaitingGroupRun(
        id=event.run_id,
        messages=event.messages,
        recipients=event.recipients,
        callers=event.callers,
        max_steps=event.max_steps,
        request_hash=event.request_hash,
    )


def start_run(state: GroupConversationState, event: GroupRunStarted) -> None:
    """The first run that waits is under way. New members see what is said from here on, members
    that have left are forgotten."""
    waiting = state.queue.pop(0)
    assert waiting.id == event.run_id, "runs start in their order"
    state.active = ActiveGroupRun(**dict(waiting), first=state.number)
    for agent_id in [known for known in state.members if known not in event.member_ids]:
        state.left[agent_id] = state.members.pop(agent_id).conversation_id
    while len(state.left) > LEFT_MEMBERS_MAX:
        del state.left[next(iter(state.left))]
    for agent_id in event.member_ids:
        add_member(state, agent_id, seen=state.number)


def add_member(state: GroupConversationState, agent_id: str, *, seen: int) -> MemberState:
    """A member, as it is known, or as one that has seen the transcript up to there."""
    known = state.members.get(agent_id)
    if known is None:
        conversation_id = member_conversation(state.group_id, agent_id, state.generation)
        state.left.pop(agent_id, None)
        known = state.members[agent_id] = MemberState(seen=seen, conversation_id=conversation_id)
    return known


def append_message(state: GroupConversationState, event: GroupMessageAppended) -> None:
    """One message more in the transcript; the oldest are no longer shown."""
    size = len(to_json(event.message.content))
    entry = TranscriptMessage(number=event.number, message=event.message, bytes=size)
    state.transcript.append(entry)
    state.transcript_bytes += size
    state.number = event.number
    while (
        len(state.transcript) > SHOWN_MESSAGES_MAX or state.transcript_bytes > SHOWN_BYTES_MAX
    ) and len(state.transcript) > 1:
        state.transcript_bytes -= state.transcript.pop(0).bytes
    active = state.active
    if active is not None and event.hop is None:
        active.first = event.number


def edit_message(state: GroupConversationState, event: GroupMessageEdited) -> None:
    """A message says something else from here on."""
    for entry in state.transcript:
        if entry.message.id == event.message_id:
            state.transcript_bytes -= entry.bytes
            entry.message = entry.message.model_copy(update={"content": event.content})
            entry.bytes = len(to_json(event.content))
            state.transcript_bytes += entry.bytes


def start_member_run(state: GroupConversationState, event: GroupHopStarted) -> None:
    """A member is asked, and has seen all that it is shown."""
    run = state.running
    run.next_speaker = ""
    hop = MemberRun(
        hop=event.hop,
        agent_id=event.agent_id,
        name=event.name,
        run_id=event.member_run_id,
        conversation_id=event.conversation_id,
        purpose=event.purpose,
        since=event.since,
        up_to=event.up_to,
        question=event.question,
        answers=event.answers,
        answers_say_all=event.answers_say_all,
        asked_in=event.asked_in,
        briefed=event.briefed,
        continues=event.continues,
    )
    run.hops.append(hop)
    member = add_member(state, event.agent_id, seen=event.since)
    member.seen = event.up_to
    member.briefed = event.briefed or member.briefed
    member.calls = []


def end_member_run(state: GroupConversationState, event: GroupHopEnded) -> None:
    """A member has answered, or could not."""
    run = state.running
    hop = run.hops[event.hop]
    hop.status, hop.reason = event.status, event.reason
    hop.texts = [said.content for said in event.said]
    hop.calls = event.calls
    run.usage = run.usage.plus(event.usage)
    run.step_count += event.step_count
    member = state.members.get(event.agent_id)
    if member is not None:
        member.calls = event.calls
        member.is_made = member.is_made or event.status == "completed"
    if event.status == "completed" and hop.purpose == "answer":
        state.last_speaker = event.agent_id


def end_run(state: GroupConversationState, event: GroupRunEnded) -> None:
    """A run is over; what its members still do is nobody's any more."""
    active = state.active
    ended = active if active is not None and active.id == event.run_id else None
    if ended is None:
        known = [run for run in state.queue if run.id == event.run_id]
        state.queue = [run for run in state.queue if run.id != event.run_id]
        request_hash = known[0].request_hash if known else ""
    else:
        request_hash = ended.request_hash
        state.active = None
        if isinstance(event, GroupRunCancelled):
            state.cleanups += [
                MemberCleanup(
                    agent_id=hop.agent_id, conversation_id=hop.conversation_id, run_id=hop.run_id
                )
                for hop in ended.open_member_runs
            ]
    state.ended.append(EndedGroupRun(id=event.run_id, request_hash=request_hash))
    del state.ended[:-ENDED_RUNS_REMEMBERED_MAX]


def empty_transcript(state: GroupConversationState, event: GroupTranscriptEmptied) -> None:
    """Nothing was said, and nobody has seen anything."""
    state.group_id, state.is_closed = event.group_id, event.group_deleted
    made = {agent_id: member.conversation_id for agent_id, member in state.members.items()}
    state.cleanups += [
        MemberCleanup(agent_id=agent_id, conversation_id=conversation_id)
        for agent_id, conversation_id in (state.left | made).items()
    ]
    state.left = {}
    state.generation = event.generation
    state.transcript, state.transcript_bytes, state.members = [], 0, {}
    state.last_speaker = ""
