"""Batches in the simulated world: clients that have many messages answered, and what must hold of
them whatever dies in between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from libs.contracts.agent.batches import (
    ITEMS_AT_ONCE_MAX,
    BatchItem,
    CancelBatch,
    StartBatch,
    conversation_of_item,
    run_of_item,
)
from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.runs import RunConfig
from libs.eventstore.in_memory_database import InMemorySchema
from tests.sim.plan import Chore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ITEMS = 7
OPEN = ("pending", "running")

type Send = Callable[[str, Command], Awaitable[Accepted | Rejected]]


def batch_of(chore: Chore) -> str:
    """The id of the batch of a chore."""
    return derived_id("batch", chore.name)


def said_in(chore: Chore, number: int) -> str:
    """What the model is asked in an item: how long it thinks, and whether it fails."""
    dice = Random(f"{chore.name} {number}")
    fails = "llm_rate_limit" if dice.random() < 0.1 else ""
    asked = {"name": f"{chore.name} item {number}", "steps": [], "fails_with": fails}
    return json.dumps({**asked, "thinks": round(2 * dice.random(), 3)})


def item_of(chore: Chore, agent: str, number: int) -> BatchItem:
    """An item of the batch of a chore."""
    batch_id = batch_of(chore)
    beside = conversation_of_item(batch_id, number)
    run_id = run_of_item(batch_id, number)
    message_id = derived_id("message", run_id, "0")
    return BatchItem(
        run=RunConfig(
            id=run_id,
            created_at=NOW,
            agent_id=agent,
            conversation_id=None if chore.kind == "sequential batch" else beside,
            background=True,
            metadata={"batch_id": batch_id, "batch_item": number},
        ),
        messages=[
            Message(id=message_id, role="user", content=said_in(chore, number), created_at=NOW)
        ],
    )


async def answer_many(
    chore: Chore, agent: str, send: Send, pause: Callable[[float], Awaitable[None]]
) -> Accepted | Rejected:
    """Have a batch answered, and maybe cancel it in the middle; what its start was told."""
    command = StartBatch(
        batch_id=batch_of(chore),
        agent_id=agent,
        items=[item_of(chore, agent, number) for number in range(ITEMS)],
        at_once=1 if chore.kind == "sequential batch" else ITEMS_AT_ONCE_MAX,
    )
    reply = await send(chore.name, command)
    if chore.kind == "batch and cancel" and isinstance(reply, Accepted):
        await pause(3 * Random(chore.name).random())
        await send(f"{chore.name} cancelled", CancelBatch(batch_id=batch_of(chore)))
    return reply


def unfinished_batches(agent: InMemorySchema) -> Iterator[str]:
    """Batches that have not ended."""
    for row in agent.rows("batches"):
        if row["completed_at"] is None:
            yield f"{row['id']} is {row['status']}"
    yield from (f"the lease of {key}" for key in agent.leases if key.startswith("batch-"))


def check_batches(
    chores: Sequence[Chore],
    told: dict[str, Accepted | Rejected],
    agent: InMemorySchema,
    did: Counter[str],
) -> Iterator[str]:
    """Each item of a batch that was accepted is answered once, at most so many at the same time,
    its result stays, and its conversation does not."""
    runs = runs_of_items(agent)
    there = {row["id"] for row in agent.rows("conversations")}
    for chore in chores:
        if not chore.kind.endswith("batch") and chore.kind != "batch and cancel":
            continue
        if not isinstance(told.get(chore.name), Accepted):
            continue
        batch_id = batch_of(chore)
        items: list[Any] = [row for row in agent.rows("batch_items") if row["batch_id"] == batch_id]
        if len(items) != ITEMS:
            yield f"{batch_id} has {len(items)} items"
        did["batches ended"] += 1
        for item in items:
            did[f"batch items {item['status']}"] += 1
            yield from check_item(chore, item, runs[batch_id, item["number"]])
            if item["conversation_id"] in there:
                yield f"{item['conversation_id']} of an item of {batch_id} is left"
        yield from check_room(batch_id, agent.streams.get(batch_id, []))


def runs_of_items(agent: InMemorySchema) -> Counter[tuple[str, int]]:
    """How many runs were accepted for each item."""
    found: Counter[tuple[str, int]] = Counter()
    for event in agent.committed:
        if event.topic == "run.accepted":
            payload: Any = event.payload
            metadata = payload["run"].get("metadata") or {}
            if "batch_item" in metadata:
                found[metadata["batch_id"], metadata["batch_item"]] += 1
    return found


def check_item(chore: Chore, item: Any, runs: int) -> Iterator[str]:
    """One item has ended, by one run at most, and has what the model said."""
    name = f"item {item['number']} of {chore.name}"
    if item["status"] in OPEN:
        yield f"{name} is {item['status']}"
    if runs > 1:
        yield f"{name} had {runs} runs"
    if item["status"] != "completed":
        return
    if runs != 1:
        yield f"{name} is completed without a run"
    said = [message.get("content") for message in item["outcome"]["messages"]]
    if not any(f"done {chore.name} item {item['number']}" in str(text) for text in said):
        yield f"{name} was answered {said}"


def check_room(batch_id: str, events: Sequence[Any]) -> Iterator[str]:
    """No more items ran at once than may, and each ended once."""
    running: set[int] = set()
    at_once = 0
    for event in events:
        payload: Any = event.payload
        match event.topic:
            case "batch.accepted":
                at_once = payload["at_once"]
            case "batch.items_started":
                running |= {*payload["numbers"]}
                if len(running) > at_once:
                    yield f"{len(running)} items of {batch_id} ran at once"
            case "batch.item_ended":
                number = payload["outcome"]["number"]
                if number not in running:
                    yield f"item {number} of {batch_id} ended without running"
                running.discard(number)
