"""Events about batches as rows: the batches, and their items with what came of them."""

from __future__ import annotations

from libs.contracts.agent.batches import (
    BatchAccepted,
    BatchCallbackAttempted,
    BatchCancelled,
    BatchCompleted,
    BatchEvent,
    BatchItem,
    BatchItemEnded,
    BatchItemsStarted,
    item_id,
)
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.tables import BATCH_ITEMS, BATCHES, json_list


def project_batch(event: BatchEvent, org: str, rows: RowWrites) -> None:
    """Batches are accepted, go on and end."""
    batch_id = event.originator_id
    match event:
        case BatchAccepted():
            rows.upsert(BATCHES, batch_row(event, org))
            for number, item in enumerate(event.items):
                rows.upsert(BATCH_ITEMS, item_row(batch_id, number, item, org))
        case BatchItemsStarted():
            rows.patch(BATCHES, {"id": batch_id, "status": "running"})
            rows.patch_alike(
                BATCH_ITEMS, json_list(item_ids(batch_id, event.numbers)), {"status": "running"}
            )
        case BatchItemEnded():
            outcome = event.outcome
            rows.patch(
                BATCH_ITEMS,
                {
                    "id": item_id(batch_id, outcome.number),
                    "status": outcome.status,
                    "outcome": outcome.model_dump(mode="json", exclude={"number", "status"}),
                },
            )
        case BatchCancelled():
            rows.patch(BATCHES, {"id": batch_id, "status": "cancelled"})
            rows.patch_alike(
                BATCH_ITEMS, json_list(item_ids(batch_id, event.numbers)), {"status": "cancelled"}
            )
        case BatchCompleted():
            rows.patch(
                BATCHES,
                {
                    "id": batch_id,
                    "status": event.status,
                    "completed_at": event.timestamp.isoformat(),
                    "callback_next_at": event.timestamp.isoformat(),
                    "fields": {"completed_at": timestamp(event.timestamp)},
                },
            )
        case BatchCallbackAttempted():
            rows.patch(
                BATCHES,
                {
                    "id": batch_id,
                    "callback_attempts": event.attempts,
                    "callback_next_at": event.next_at.isoformat() if event.next_at else None,
                    "fields": {
                        "callback_sent_at": timestamp(event.sent_at),
                        "callback_status_code": event.status_code,
                        "callback_error": event.error,
                    },
                },
            )


def batch_row(event: BatchAccepted, org: str) -> JsonObject:
    """The row of a batch of which no item was started."""
    return {
        "id": event.originator_id,
        "org": org,
        "agent_id": event.agent_id or None,
        "created_at": event.timestamp.isoformat(),
        "completed_at": None,
        "status": "created",
        "at_once": event.at_once,
        "keep": event.keep,
        "callback_url": event.callback_url,
        "callback_attempts": 0,
        "callback_next_at": None,
        "fields": {
            "created_at": timestamp(event.timestamp),
            "completed_at": None,
            "callback_url": event.callback_url,
            "callback_sent_at": None,
            "callback_status_code": None,
            "callback_error": None,
            "created_by_id": event.actor,
        },
    }


def item_row(batch_id: str, number: int, item: BatchItem, org: str) -> JsonObject:
    """The row of an item that was not started."""
    agent_id = item.run.agent_id
    return {
        "id": item_id(batch_id, number),
        "org": org,
        "batch_id": batch_id,
        "number": number,
        "agent_id": agent_id,
        "conversation_id": item.run.conversation_id or main_conversation(agent_id),
        "run_id": item.run.id,
        "status": "pending",
        "request": item.model_dump(mode="json"),
        "outcome": None,
    }


def item_ids(batch_id: str, numbers: list[int]) -> list[str]:
    """The keys of the rows of these items."""
    return [item_id(batch_id, number) for number in numbers]
