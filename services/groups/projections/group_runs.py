"""The rows of the conversations of groups: runs, member runs and transcripts."""

from __future__ import annotations

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.groups.group_runs import (
    GroupConversationForgotten,
    GroupHopEnded,
    GroupHopStarted,
    GroupMessageAppended,
    GroupMessageEdited,
    GroupRunAccepted,
    GroupRunCancelled,
    GroupRunCompleted,
    GroupRunEnded,
    GroupRunFailed,
    GroupRunStarted,
    GroupTranscriptEmptied,
    MemberRunStatus,
    MemberRunsWithdrawn,
    member_run,
)
from libs.contracts.letta.messages import (
    Envelope,
    assistant_message,
    system_message,
    user_message,
)
from libs.eventstore.read_model_rows import RowWrites, Table

GROUP_CONVERSATIONS = Table("group_conversations")
GROUP_RUNS = Table("group_runs", aggregate="conversation_id")
GROUP_HOPS = Table("group_hops", aggregate="conversation_id")
GROUP_MESSAGES = Table("group_messages", aggregate="conversation_id")
GROUP_RUN_TABLES = (GROUP_CONVERSATIONS, GROUP_RUNS, GROUP_HOPS, GROUP_MESSAGES)


def project_group_run(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the rows of a group's conversation."""
    conversation_id = event.originator_id
    match event:
        case GroupRunAccepted():
            accept(event, org, rows)
        case GroupRunStarted():
            rows.patch(GROUP_RUNS, run_fields(event.run_id, "running"))
        case GroupMessageAppended():
            rows.upsert(GROUP_MESSAGES, message_row(event, org))
        case GroupMessageEdited():
            edited: JsonObject = {"fields": {"content": event.content}}
            rows.patch(GROUP_MESSAGES, {"id": event.message_id, **edited})
        case GroupHopStarted():
            rows.upsert(GROUP_HOPS, hop_row(event, org))
        case GroupHopEnded():
            rows.patch(GROUP_HOPS, ended_hop(event))
        case GroupRunEnded():
            rows.patch(GROUP_RUNS, ended_run(event))
            for hop in event.open_hops:
                rows.patch(GROUP_HOPS, cancelled_hop(event, hop))
            set_pending(rows, conversation_id, is_idle=event.is_idle)
        case GroupTranscriptEmptied():
            empty(event, rows)
        case MemberRunsWithdrawn():
            set_pending(rows, conversation_id, is_idle=event.is_idle)
        case GroupConversationForgotten():
            rows.delete(GROUP_CONVERSATIONS, "id", conversation_id)


def set_pending(rows: RowWrites, conversation_id: str, *, is_idle: bool) -> None:
    """Say whether something is left to be done."""
    rows.patch(GROUP_CONVERSATIONS, {"id": conversation_id, "is_pending": not is_idle})


def accept(event: GroupRunAccepted, org: str, rows: RowWrites) -> None:
    """A run is there, and something to be done."""
    at = event.timestamp.isoformat()
    row: JsonObject = {"id": event.run_id, "org": org, "conversation_id": event.originator_id}
    named: JsonObject = {"group_id": event.group_id, "created_at": at, "status": "created"}
    fields: JsonObject = {
        "id": event.run_id,
        "group_id": event.group_id,
        "status": "created",
        "stop_reason": None,
        "created_at": at,
        "completed_at": None,
        "manager_type": event.manager_type,
        "recipients": [*event.recipients] or None,
        "metadata": event.metadata,
        "usage": None,
        "error": None,
    }
    rows.upsert(GROUP_RUNS, {**row, **named, "fields": fields})
    conversation: JsonObject = {
        "id": event.originator_id,
        "org": org,
        "group_id": event.group_id,
        "is_pending": True,
        "is_open": True,
    }
    rows.upsert(GROUP_CONVERSATIONS, conversation)


def run_fields(run_id: str, status: str, **fields: str | JsonObject | None) -> JsonObject:
    """What changes in the row of a run."""
    return {"id": run_id, "status": status, "fields": {"status": status, **fields}}


def ended_run(event: GroupRunEnded) -> JsonObject:
    """The row of a run that is over."""
    usage: JsonObject = {**event.usage.model_dump(mode="json"), "step_count": event.step_count}
    at = event.timestamp.isoformat()
    match event:
        case GroupRunCompleted():
            status, reason, error = "completed", event.stop_reason, None
        case GroupRunFailed():
            status, reason = "failed", "error"
            error = error_of(event.error_type, event.message)
        case GroupRunCancelled():
            status, reason = "cancelled", "cancelled"
            error = error_of("cancelled", event.reason)
        case _:
            raise AssertionError(event)
    ended: dict[str, str | JsonObject | None] = {"stop_reason": reason, "completed_at": at}
    return run_fields(event.run_id, status, **ended, usage=usage, error=error)


def error_of(error_type: str, message: str) -> JsonObject:
    """Why there is no answer."""
    return {"error_type": error_type, "message": message, "detail": None}


def hop_row(event: GroupHopStarted, org: str) -> JsonObject:
    """A member run whose member is asked."""
    fields: JsonObject = {
        "hop": event.hop,
        "agent_id": event.agent_id,
        "name": event.name,
        "run_id": event.member_run_id,
        "conversation_id": event.conversation_id,
        "purpose": event.purpose,
        "status": "open",
        "reason": None,
        "started_at": event.timestamp.isoformat(),
        "ended_at": None,
    }
    return {
        "id": event.member_run_id,
        "org": org,
        "conversation_id": event.originator_id,
        "run_id": event.run_id,
        "hop": event.hop,
        "member_run_id": event.member_run_id,
        "status": "open",
        "fields": fields,
    }


def ended_hop(event: GroupHopEnded) -> JsonObject:
    """What came of a member run."""
    return hop_end(event, event.hop, event.status, event.reason)


def cancelled_hop(event: GroupRunEnded, hop: int) -> JsonObject:
    """A member run of which nothing came, since its run is over."""
    return hop_end(event, hop, "cancelled", "The run of the group is over")


def hop_end(
    event: GroupHopEnded | GroupRunEnded, hop: int, status: MemberRunStatus, reason: str
) -> JsonObject:
    """The end of a member run."""
    fields: JsonObject = {
        "status": status,
        "reason": reason or None,
        "ended_at": event.timestamp.isoformat(),
    }
    return {"id": member_run(event.run_id, hop), "status": status, "fields": fields}


def message_row(event: GroupMessageAppended, org: str) -> JsonObject:
    """A message of the transcript, as V1 clients read it, with what they do not know of groups."""
    document = v1_message(event)
    return {
        "id": event.message.id,
        "org": org,
        "conversation_id": event.originator_id,
        "group_id": event.group_id,
        "number": event.number,
        "run_id": event.run_id,
        "hop": event.hop,
        "created_at": event.message.created_at.isoformat(),
        "sender_id": event.message.sender_id,
        "recipients": [*event.message.recipients],
        "message_type": document["message_type"],
        "fields": document,
    }


def v1_message(event: GroupMessageAppended) -> JsonObject:
    """A message of the transcript as a V1 message."""
    message = event.message
    envelope = Envelope(
        id=message.id,
        date=message.created_at,
        otid=message.otid,
        run_id=None if event.hop is None else member_run(event.run_id, event.hop),
        sender_id=message.sender_id,
        name=message.name,
        group_id=event.group_id,
    )
    match message.role:
        case "assistant":
            document = assistant_message(envelope, message.content)
        case "system":
            document = system_message(envelope, str(message.content))
        case "user":
            document = user_message(envelope, message.content)
    return {**document, "group_run_id": event.run_id, "recipients": [*message.recipients] or None}


def empty(event: GroupTranscriptEmptied, rows: RowWrites) -> None:
    """The transcript is empty; of a group that was deleted nothing stays."""
    conversation_id = event.originator_id
    rows.delete(GROUP_MESSAGES, "conversation_id", conversation_id)
    if event.group_deleted:
        rows.delete(GROUP_RUNS, "conversation_id", conversation_id)
        rows.delete(GROUP_HOPS, "conversation_id", conversation_id)
        rows.patch(GROUP_CONVERSATIONS, {"id": conversation_id, "is_open": False})
    set_pending(rows, conversation_id, is_idle=event.is_idle)
