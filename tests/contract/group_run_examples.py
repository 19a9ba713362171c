"""An example of each message about the runs of groups."""

from __future__ import annotations

from typing import Any

from libs.contracts.agent.conversations import Usage
from libs.contracts.agent.runs import CallingRun
from libs.contracts.bus_messages import Command, Event
from libs.contracts.groups.group_runs import (
    CancelGroupRun,
    EditGroupMessage,
    GroupConversationForgotten,
    GroupEvent,
    GroupHopEnded,
    GroupHopStarted,
    GroupMessage,
    GroupMessageAppended,
    GroupMessageEdited,
    GroupRunAccepted,
    GroupRunCancelled,
    GroupRunCompleted,
    GroupRunEvent,
    GroupRunFailed,
    GroupRunStarted,
    GroupTranscriptEmptied,
    MemberRunsWithdrawn,
    ResetGroupMessages,
    Said,
    SpeakerPicked,
    StartGroupRun,
    ToolAnswer,
    ToolCallMade,
    group_conversation,
    member_conversation,
    member_run,
)
from tests.contract.file_examples import AT

GROUP = "group-21212121-2121-4121-8121-212121212121"
GROUP_RUN = "group_run-22222222-2222-4222-8222-222222222222"
ALICE = "agent-23232323-2323-4323-8323-232323232323"
BOB = "agent-24242424-2424-4424-8424-242424242424"
CONVERSATION = group_conversation(GROUP)
ASKED = GroupMessage(
    id="message-25252525-2525-4525-8525-252525252525",
    content="Who goes first?",
    created_at=AT,
    name="Carol",
    sender_id="identity-1",
    otid="otid-1",
    recipients=[ALICE],
)
CALL = ToolCallMade(id="call_1", name="hand_over", arguments='{"agent_name": "Bob"}')
WRITE = ToolCallMade(
    id="call_2", name="update_shared_state", arguments='{"state": {}}', answer="Written."
)


def of_group(kind: type[GroupEvent], **fields: Any) -> Event:
    """An event about the conversation of the group."""
    return kind(
        originator_id=CONVERSATION,
        originator_version=1,
        timestamp=AT,
        group_id=GROUP,
        **fields,
    )


def of_run(kind: type[GroupRunEvent], run_id: str = GROUP_RUN, **fields: Any) -> Event:
    """An event about the run of the group."""
    return of_group(kind, run_id=run_id, **fields)


CALLER = CallingRun(agent_id=BOB, conversation_id="conv-1", run_id="run-of-the-caller", waits=False)
COMMANDS: list[Command] = [
    StartGroupRun(
        group_id=GROUP,
        run_id=GROUP_RUN,
        messages=[ASKED],
        created_at=AT,
        recipients=[ALICE],
        callers=[CALLER],
        max_steps=7,
        request_hash="hash-1",
        retry=True,
        metadata={"schedule_id": "schedule-1"},
    ),
    CancelGroupRun(group_id=GROUP, run_ids=[GROUP_RUN]),
    EditGroupMessage(group_id=GROUP, message_id=ASKED.id, content="Who goes last?"),
    ResetGroupMessages(group_id=GROUP),
]
EVENTS: list[Event] = [
    of_run(
        GroupRunAccepted,
        messages=[ASKED],
        recipients=[ALICE],
        callers=[CALLER],
        max_steps=7,
        request_hash="hash-1",
        metadata={"schedule_id": "schedule-1"},
        manager_type="swarm",
    ),
    of_run(GroupRunStarted, member_ids=[ALICE, BOB]),
    of_group(GroupMessageAppended, generation=0, number=1, message=ASKED, run_id=GROUP_RUN),
    of_run(SpeakerPicked, agent_id=ALICE, by="rotation"),
    of_run(
        GroupHopStarted,
        hop=0,
        agent_id=ALICE,
        name="Alice",
        member_run_id=member_run(GROUP_RUN, 0),
        conversation_id=member_conversation(GROUP, ALICE, 0),
        since=0,
        up_to=1,
        question="It is your turn.",
        answers=[ToolAnswer(tool_call_id="call_0", content="Bob has the floor.")],
        answers_say_all=True,
        asked_in=0,
        briefed="a digest",
        continues=0,
    ),
    of_run(
        GroupHopEnded,
        hop=0,
        agent_id=ALICE,
        status="completed",
        reason="it called a tool",
        said=[Said(message_id="message-26262626-2626-4626-8626-262626262626", content="Bob.")],
        calls=[CALL, WRITE],
        usage=Usage(prompt_tokens=3, completion_tokens=2),
        step_count=1,
    ),
    of_group(GroupMessageEdited, message_id=ASKED.id, content="Who goes last?"),
    of_run(GroupRunCompleted, stop_reason="end_turn", usage=Usage(), step_count=1, is_idle=False),
    of_run(
        GroupRunFailed,
        run_id="group_run-failed",
        error_type="group_run_failed",
        message="No member could answer",
        is_idle=False,
    ),
    of_run(GroupRunCancelled, run_id="group_run-cancelled", reason="cancelled", is_idle=False),
    of_group(
        MemberRunsWithdrawn,
        run_ids=[member_run(GROUP_RUN, 0)],
        conversation_ids=[member_conversation(GROUP, ALICE, 0)],
        is_idle=True,
    ),
    of_group(GroupTranscriptEmptied, generation=1, is_idle=True),
    of_group(GroupConversationForgotten),
]
SUBJECTS: dict[str, str] = {
    "StartGroupRun": f"groups.command.group_run.start.org-1.{CONVERSATION}",
    "CancelGroupRun": f"groups.command.group_run.cancel.org-1.{CONVERSATION}",
    "EditGroupMessage": f"groups.command.group_message.edit.org-1.{CONVERSATION}",
    "ResetGroupMessages": f"groups.command.group_messages.reset.org-1.{CONVERSATION}",
    "GroupRunAccepted": f"groups.event.group_run.accepted.org-1.{GROUP_RUN}",
    "GroupRunStarted": f"groups.event.group_run.started.org-1.{GROUP_RUN}",
    "GroupMessageAppended": f"groups.event.group_message.appended.org-1.{CONVERSATION}",
    "GroupMessageEdited": f"groups.event.group_message.edited.org-1.{CONVERSATION}",
    "SpeakerPicked": f"groups.event.group_run.speaker_picked.org-1.{GROUP_RUN}",
    "GroupHopStarted": f"groups.event.group_hop.started.org-1.{GROUP_RUN}",
    "GroupHopEnded": f"groups.event.group_hop.ended.org-1.{GROUP_RUN}",
    "GroupRunCompleted": f"groups.event.group_run.completed.org-1.{GROUP_RUN}",
    "GroupRunFailed": "groups.event.group_run.failed.org-1.group_run-failed",
    "GroupRunCancelled": "groups.event.group_run.cancelled.org-1.group_run-cancelled",
    "GroupTranscriptEmptied": f"groups.event.group_transcript.emptied.org-1.{CONVERSATION}",
    "GroupConversationForgotten": f"groups.event.group_conversation.forgotten.org-1.{CONVERSATION}",
    "MemberRunsWithdrawn": f"groups.event.group_member_runs.withdrawn.org-1.{CONVERSATION}",
}
