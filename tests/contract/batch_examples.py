"""One example of every command and event about batches, as the code makes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from libs.contracts.agent.batches import (
    BatchAccepted,
    BatchCallbackAttempted,
    BatchCancelled,
    BatchCompleted,
    BatchItem,
    BatchItemEnded,
    BatchItemsStarted,
    CancelBatch,
    ItemOutcome,
    StartBatch,
    conversation_of_item,
    run_of_item,
)
from libs.contracts.agent.conversations import Message
from libs.contracts.agent.runs import ClientSkill, ClientTool, RunOptions
from libs.contracts.bus_messages import Command, Event
from libs.contracts.letta.runs import RunConfig

AT = datetime(2026, 5, 17, 12, 30, 15, 123456, UTC)
USER = "user-00000000-0000-4000-8000-000000000000"
AGENT = "agent-11111111-1111-4111-8111-111111111111"
BATCH = "batch-33333333-3333-4333-8333-333333333333"


def batch_item(number: int, text: str = "I like tea", **fields: Any) -> BatchItem:
    """An item that is answered in a conversation of its own."""
    run_id = run_of_item(BATCH, number)
    return BatchItem(
        run=RunConfig(
            id=run_id,
            created_at=AT,
            agent_id=AGENT,
            conversation_id=conversation_of_item(BATCH, number),
            background=True,
            metadata={"run_type": "batch", "batch_id": BATCH, "batch_item": number},
        ),
        messages=[Message(id=f"message-{number}", role="user", content=text, created_at=AT)],
        **fields,
    )


ITEMS = [
    batch_item(
        0,
        max_steps=5,
        options=RunOptions(model="openai/gpt-4o-mini"),
        structured_summaries=True,
        client_tools=[ClientTool(name="list_files")],
        client_skills=[ClientSkill(name="review", description="How we review.", location="/r.md")],
    ),
    batch_item(1),
    batch_item(2),
]
ANSWERED = ItemOutcome(
    number=0,
    status="completed",
    stop_reason="end_turn",
    messages=[{"message_type": "assistant_message", "content": "Noted."}],
    usage={"total_tokens": 12, "step_count": 1},
    cut=True,
)
FAILED = ItemOutcome(number=0, status="failed", reason="The model refuses")

COMMANDS: list[Command] = [
    StartBatch(
        batch_id=BATCH,
        agent_id=AGENT,
        items=ITEMS,
        at_once=1,
        keep=True,
        callback_url="https://hooks.example/ended",
        field="requests",
    ),
    CancelBatch(batch_id=BATCH, agent_id=AGENT),
]


def of_batch(kind: type[Event], **fields: Any) -> Event:
    """An event of the batch."""
    return kind(originator_id=BATCH, originator_version=1, timestamp=AT, **fields)


EVENTS: list[Event] = [
    of_batch(
        BatchAccepted,
        agent_id=AGENT,
        items=ITEMS,
        at_once=2,
        keep=True,
        callback_url="https://hooks.example/ended",
        actor=USER,
        correlation_id="request-1",
    ),
    of_batch(BatchItemsStarted, numbers=[0, 1]),
    of_batch(BatchItemEnded, outcome=ANSWERED),
    of_batch(BatchCancelled, numbers=[2]),
    of_batch(BatchCompleted, status="cancelled"),
    of_batch(BatchCallbackAttempted, attempts=1, sent_at=AT, status_code=503, next_at=AT),
]

SUBJECTS = {
    "StartBatch": f"agent.command.batch.start.org-1.{BATCH}",
    "CancelBatch": f"agent.command.batch.cancel.org-1.{BATCH}",
    "BatchAccepted": f"agent.event.batch.accepted.org-1.{BATCH}",
    "BatchItemsStarted": f"agent.event.batch.items_started.org-1.{BATCH}",
    "BatchItemEnded": f"agent.event.batch.item_ended.org-1.{BATCH}",
    "BatchCancelled": f"agent.event.batch.cancelled.org-1.{BATCH}",
    "BatchCallbackAttempted": f"agent.event.batch.callback_attempted.org-1.{BATCH}",
    "BatchCompleted": f"agent.event.batch.completed.org-1.{BATCH}",
}
