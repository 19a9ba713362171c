"""The rules of a batch: given events, when something is decided, then events or a refusal."""

from __future__ import annotations

from typing import Any

from libs.contracts.agent.batches import (
    BatchAccepted,
    BatchCallbackAttempted,
    BatchCancelled,
    BatchCompleted,
    BatchItemEnded,
    BatchItemsStarted,
    ItemOutcome,
    StartBatch,
)
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Context, Event, Rejected
from services.agent.domain.batches.batch import Batch
from services.agent.domain.conversations.callback_attempts import ATTEMPTS_MAX, CallbackOutcome
from tests.contract.batch_examples import AGENT, AT, BATCH, batch_item

CONTEXT = Context("request-1", org="org-1", actor="user-1")
OTHER = "agent-99999999-9999-4999-8999-999999999999"


def accepted(items: int = 8, **fields: Any) -> Batch:
    """A batch of so many items, none of them started."""
    batch = Batch.blank(BATCH, org="org-1")
    command = StartBatch(
        batch_id=BATCH, agent_id=AGENT, items=[batch_item(n) for n in range(items)], **fields
    )
    assert batch.accept(command, CONTEXT, at=AT) is None
    batch.take_new_events()
    return batch


def end(batch: Batch, *numbers: int, status: Any = "completed") -> None:
    outcomes = [ItemOutcome(number=number, status=status) for number in numbers]
    batch.end_items(outcomes, at=AT)


def kinds(batch: Batch) -> list[type[Event]]:
    return [type(event) for event in batch.take_new_events()]


def test_a_batch_is_accepted_once_and_remembers_whose_story_it_is() -> None:
    batch = Batch.blank(BATCH, org="org-1")
    command = StartBatch(batch_id=BATCH, agent_id=AGENT, items=[batch_item(0)])
    assert batch.accept(command, CONTEXT, at=AT) is None
    [event] = batch.take_new_events()
    assert isinstance(event, BatchAccepted)
    assert (event.actor, event.correlation_id) == ("user-1", "request-1")
    assert batch.context().correlation_id == "request-1"
    again = batch.accept(command, CONTEXT, at=AT)
    assert isinstance(again, Rejected)
    assert again.code == CONFLICT


def test_five_items_run_at_once_and_the_next_when_one_has_ended() -> None:
    batch = accepted()
    assert batch.start([], at=AT) == [0, 1, 2, 3, 4]
    assert batch.start([], at=AT) == []
    end(batch, 2)
    assert batch.start([], at=AT) == [5]
    assert kinds(batch) == [BatchItemsStarted, BatchItemEnded, BatchItemsStarted]


def test_a_sequential_batch_starts_an_item_when_the_one_before_has_ended() -> None:
    batch = accepted(3, at_once=1)
    for number in range(3):
        assert batch.start([], at=AT) == [number]
        assert batch.start([], at=AT) == []
        end(batch, number, status="failed" if number else "completed")
    batch.complete(at=AT)
    assert batch.final_status() == "completed", "one of its items was answered"


def test_items_of_a_busy_agent_wait_and_those_of_others_do_not() -> None:
    batch = Batch.blank(BATCH, org="org-1")
    other = batch_item(1)
    other = other.model_copy(update={"run": other.run.model_copy(update={"agent_id": OTHER})})
    batch.accept(
        StartBatch(batch_id=BATCH, items=[batch_item(0), other, batch_item(2)]), CONTEXT, at=AT
    )
    assert batch.start({AGENT}, at=AT) == [1]
    assert batch.start({AGENT}, at=AT) == []
    assert batch.start([], at=AT) == [0, 2]


def test_an_item_ends_once_and_one_that_was_not_started_does_not() -> None:
    batch = accepted()
    batch.start([], at=AT)
    end(batch, 0, 0, 7)
    end(batch, 0, status="failed")
    assert kinds(batch) == [BatchItemsStarted, BatchItemEnded]
    assert batch.numbers("completed") == [0]
    assert 7 in batch.numbers("pending")


def test_a_cancelled_batch_starts_nothing_and_ends_with_what_runs() -> None:
    batch = accepted()
    batch.start([], at=AT)
    assert batch.cancel(AGENT, at=AT) is None
    assert batch.cancel("", at=AT) is None, "it is cancelled already"
    assert batch.start([], at=AT) == []
    batch.complete(at=AT)
    assert batch.is_open, "five items still run"
    end(batch, *range(5), status="cancelled")
    batch.complete(at=AT)
    batch.complete(at=AT)
    *_, cancelled, _, _, _, _, _, completed = batch.take_new_events()
    assert isinstance(cancelled, BatchCancelled)
    assert cancelled.numbers == [5, 6, 7]
    assert isinstance(completed, BatchCompleted)
    assert completed.status == "cancelled"


def test_what_has_ended_or_is_another_agents_is_not_cancelled() -> None:
    batch = accepted(1)
    for unknown, agent_id in ((batch, OTHER), (Batch.blank(BATCH, org="org-1"), "")):
        refused = unknown.cancel(agent_id, at=AT)
        assert isinstance(refused, Rejected)
        assert refused.code == NOT_FOUND
    batch.start([], at=AT)
    end(batch, 0, status="failed")
    batch.complete(at=AT)
    assert batch.final_status() == "failed", "no item was answered"
    late = batch.cancel("", at=AT)
    assert isinstance(late, Rejected)
    assert late.code == CONFLICT


def test_a_client_is_told_so_often_and_each_attempt_is_recorded_once() -> None:
    batch = accepted(1)
    batch.start([], at=AT)
    end(batch, 0)
    silent = CallbackOutcome(error="nobody answers")
    batch.note_callback(silent, attempts=1, sent_at=AT, at=AT)
    batch.complete(at=AT)
    batch.take_new_events()
    for attempts in range(1, ATTEMPTS_MAX + 1):
        for _ in range(2):
            batch.note_callback(silent, attempts=attempts, sent_at=AT, at=AT)
    events = batch.take_new_events()
    assert [type(event) for event in events] == [BatchCallbackAttempted] * ATTEMPTS_MAX
    assert isinstance(events[-1], BatchCallbackAttempted)
    assert events[-1].next_at is None, "then never again"
