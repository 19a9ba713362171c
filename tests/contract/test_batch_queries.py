"""What the agent service reads of batches, from Postgres and in memory: the same of the same
rows."""

from __future__ import annotations

from typing import Any

from libs.contracts.agent.batches import ITEMS_AT_ONCE_MAX
from services.agent.projections import tables as agent
from tests.contract.batch_examples import batch_item
from tests.contract.read_models import ADA, ORG, START, Rows, at, put

OTHER = "org-2"
BOB = "agent-bob"


def batch(batch_id: str, **row: Any) -> dict[str, Any]:
    usual = {"agent_id": ADA, "completed_at": None, "status": "running", "at_once": 2}
    callback = {"callback_url": None, "callback_attempts": 0, "callback_next_at": None}
    return {"id": batch_id, **usual, "keep": False, "fields": {}, **callback, **row}


def item(batch_id: str, number: int, status: str, **row: Any) -> dict[str, Any]:
    name = f"{batch_id}/{number}"
    return {
        "id": f"item-{name}",
        **{"batch_id": batch_id, "number": number, "agent_id": ADA, "status": status},
        **{"conversation_id": f"conv-{name}", "run_id": f"run-{name}", "outcome": None},
        "request": batch_item(number).model_dump(mode="json"),
        **row,
    }


async def due(rows: Rows, limit: int = 10) -> list[str]:
    return [work.id for work in await rows.queries.due_batches(limit)]


async def test_a_batch_is_due_while_something_can_be_done_for_it(rows: Rows) -> None:
    await put(
        rows,
        agent.BATCHES,
        *(batch(name) for name in ("full", "room", "ended", "lost", "done", "held")),
        batch("cancelled", status="cancelled"),
        batch("over", completed_at=START.isoformat(), status="completed"),
    )
    await put(
        rows,
        agent.BATCH_ITEMS,
        *(item("full", 0, "running", agent_id=BOB), item("full", 1, "running", agent_id=BOB)),
        item("full", 2, "pending"),
        *(item("room", 0, "running"), item("room", 1, "pending")),
        item("ended", 0, "running"),
        *(item("lost", 0, "running", agent_id=BOB), item("done", 0, "completed")),
        *(item("held", 0, "pending"), item("over", 0, "completed")),
        item("cancelled", 0, "running", agent_id=BOB),
    )
    active = ("full/0", "full/1", "room/0", "cancelled/0")
    await put(
        rows,
        agent.RUNS,
        *({"id": f"run-{name}", "status": "running"} for name in active),
        {"id": "run-ended/0", "status": "failed"},
    )
    await rows.take_lease("agent", "held")
    assert await due(rows) == ["room", "ended", "lost", "done", "cancelled"]
    assert await rows.queries.has_open_batches()
    assert await rows.queries.open_batches(ORG) == 7
    assert await rows.queries.open_batches(OTHER) == 0


async def test_batches_come_by_turns_and_wait_for_a_busy_agent(rows: Rows) -> None:
    await put(
        rows,
        agent.BATCHES,
        *(batch(name) for name in ("one", "two")),
        batch("other", org=OTHER),
        batch("busy", at_once=5),
        batch("waits", org=OTHER, agent_id=BOB),
    )
    await put(
        rows,
        agent.BATCH_ITEMS,
        *(item(name, 0, "pending") for name in ("one", "two")),
        item("other", 0, "pending", org=OTHER),
        *(item("busy", n, "running", agent_id=BOB) for n in range(ITEMS_AT_ONCE_MAX)),
        item("waits", 0, "pending", agent_id=BOB, org=OTHER),
    )
    names = [f"run-busy/{n}" for n in range(ITEMS_AT_ONCE_MAX)]
    await put(rows, agent.RUNS, *({"id": name, "status": "created"} for name in names))
    assert await due(rows) == ["one", "other", "two"]
    assert await due(rows, 2) == ["one", "other"]
    assert await rows.queries.busy_agents(ORG, "busy") == {BOB}
    assert await rows.queries.busy_agents(ORG, "one") == set()


async def test_items_come_with_their_runs_in_order(rows: Rows) -> None:
    await put(rows, agent.BATCHES, batch("one"))
    await put(rows, agent.BATCH_ITEMS, *(item("one", n, "running") for n in (2, 0, 1)))
    usage, error = {"total_tokens": 3}, {"message": "No"}
    ended = {"status": "failed", "stop_reason": "llm_api_error", "usage": usage, "error": error}
    await put(rows, agent.RUNS, {"id": "run-one/0", **ended})
    found = await rows.queries.batch_items(ORG, "one", [0, 1])
    assert [(each.number, each.status, each.has_ended) for each in found] == [
        (0, "failed", True),
        (1, None, False),
    ]
    assert (found[0].stop_reason, found[0].usage, found[0].error) == ("llm_api_error", usage, error)
    assert found[0].request == batch_item(0)
    assert await rows.queries.batch_items(OTHER, "one", [0]) == []


async def test_left_conversations_are_those_of_items_that_are_there(rows: Rows) -> None:
    await put(rows, agent.BATCH_ITEMS, *(item("one", n, "completed") for n in range(3)))
    await put(rows, agent.CONVERSATIONS, *({"id": f"conv-one/{n}"} for n in (1, 2)))
    left = await rows.queries.left_conversations(ORG, "one", None)
    assert [(each.id, each.agent_id) for each in left] == [("conv-one/1", ADA), ("conv-one/2", ADA)]
    [second] = await rows.queries.left_conversations(ORG, "one", [0, 2])
    assert second.id == "conv-one/2"
    assert await rows.queries.left_conversations(OTHER, "one", None) == []


async def test_callbacks_of_batches_are_due_from_their_end_on(rows: Rows) -> None:
    told = {"callback_url": "https://hooks.example/", "fields": {"completed_at": "then"}}
    await put(
        rows,
        agent.BATCHES,
        batch("later", **told, callback_next_at="9999-01-01T00:00:00+00:00"),
        batch("second", **told, callback_next_at=at(-9), callback_attempts=1),
        batch("first", **told, callback_next_at=at(-10)),
        batch("nobody", callback_next_at=at(-10)),
        batch("never", **told),
    )
    found = await rows.queries.due_batch_callbacks(10)
    assert [(each.batch_id, each.attempts) for each in found] == [("first", 0), ("second", 1)]
    assert found[0].completed_at == "then"
    await rows.take_lease("agent", "callback-first")
    assert [each.batch_id for each in await rows.queries.due_batch_callbacks(10)] == ["second"]
