"""Events about conversations beside an agent's own as rows."""

from __future__ import annotations

from libs.contracts.agent.conversations import ConversationCreated, ConversationUpdated
from libs.contracts.agent.runs import RunAccepted
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.letta.conversations import ConversationConfig, conversation_state
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.tables import CONVERSATIONS


def project_conversation(
    event: ConversationCreated | ConversationUpdated, org: str, rows: RowWrites
) -> None:
    """Write the row of a conversation that was made or changed."""
    config = event.config
    if isinstance(event, ConversationUpdated):
        rows.patch(CONVERSATIONS, changed_columns(event))
        return
    rows.upsert(
        CONVERSATIONS,
        {
            "id": config.id,
            "org": org,
            "agent_id": config.agent_id,
            "created_at": config.created_at.isoformat(),
            "last_message_at": None,
            "archived": False,
            "hidden": config.hidden,
            "isolated_blocks": {**config.isolated_blocks},
            "fields": conversation_state(config),
        },
    )


def changed_columns(event: ConversationUpdated) -> JsonObject:
    """The columns that a change of a conversation sets. The time of its last message is among them
    only if a client has set it: runs set it too."""
    config = event.config
    fields = {**archive_fields(config), **conversation_state(config)}
    columns: JsonObject = {"id": config.id, "archived": config.archived_at is not None}
    if "archived_at" not in event.changed:
        fields.pop("archived")
        fields.pop("archived_at")
    if "last_message_at" in event.changed and config.last_message_at is not None:
        columns["last_message_at"] = config.last_message_at.isoformat()
    else:
        fields.pop("last_message_at")
    return {**columns, "fields": fields}


def archive_fields(config: ConversationConfig) -> JsonObject:
    """The fields of a conversation that is archived, or no longer."""
    return {"archived": config.archived_at is not None, "archived_at": None}


def spoken_in(event: RunAccepted) -> JsonObject:
    """The changes of a request to a conversation's row."""
    at = event.timestamp
    fields: JsonObject = {"last_message_at": timestamp(at), "updated_at": timestamp(at)}
    return {"id": event.originator_id, "last_message_at": at.isoformat(), "fields": fields}
