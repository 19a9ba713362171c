"""Callbacks: a client is told that its run has ended, at least once, and not for ever."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from libs.contracts.agent.conversations import CreateConversation, Usage
from libs.contracts.agent.runs import CancelRuns
from libs.contracts.bus_messages import UNPROCESSABLE, Accepted, Rejected
from libs.eventstore.ports import StoreUnavailable
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.conversations.callback_attempts import (
    ATTEMPTS_MAX,
    PAUSE_SECONDS,
    CallbackOutcome,
)
from services.agent.domain.runs.step_results import Failure, ModelReply
from services.agent.engine.callbacks import (
    CALLBACKS_AT_ONCE_MAX,
    ORGANISATION_CALLBACKS_AT_ONCE_MAX,
    CallbackSender,
)
from tests.contract.examples import AGENT
from tests.leased_work import sweep
from tests.unit.agent.world import Process, World

REPLY = ModelReply("Hi", [], "stop", Usage(prompt_tokens=10, completion_tokens=2))
URL = "https://hooks.example/ended?run=1"
FAILED = ModelFailed(Failure("llm_rate_limit", "429"))


class Client:
    """Who is told; answers as it is bid."""

    def __init__(self, *outcomes: CallbackOutcome | Exception) -> None:
        self.outcomes = list(outcomes)
        self.told: list[tuple[str, Any]] = []

    async def post(self, url: str, body: bytes) -> CallbackOutcome:
        self.told.append((url, json.loads(body)))
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
async def world() -> World:
    world = World()
    await world.agent()
    return world


async def say(process: Process, run_id: str, url: str = URL, **fields: Any) -> Accepted | Rejected:
    plain = process.start_run(run_id, **fields)
    run = plain.run.model_copy(update={"callback_url": url})
    command = plain.model_copy(update={"run": run})
    return await process.tell(command, f"say-{run_id}")


def sender(process: Process, client: Client) -> CallbackSender:
    return CallbackSender(process.drivers.ports, client)


def shown(world: World) -> tuple[Any, Any, bool]:
    [run] = world.schema.rows("runs")
    fields = run["fields"]
    sent = fields["callback_sent_at"] is not None
    return fields["callback_status_code"], fields["callback_error"], sent


async def test_a_client_is_told_once_its_run_has_ended_and_not_before(world: World) -> None:
    process, client = world.process("one", REPLY), Client(CallbackOutcome(status=200))
    await say(process, "run-1")
    await sweep(sender(process, client))
    assert client.told == []
    await process.idle()

    await sweep(sender(process, client))

    [(url, body)] = client.told
    assert url == URL
    assert (body["run_id"], body["status"]) == ("run-1", "completed")
    assert body["completed_at"]
    result = body["metadata"]["result"]
    kinds = [message["message_type"] for message in result["messages"]]
    assert kinds == ["assistant_message"], "the type that its request asked for"
    assert result["stop_reason"]["stop_reason"] == "end_turn"
    assert result["usage"]["prompt_tokens"] == 10
    assert shown(world) == (200, None, True)
    assert world.schema.rows("callbacks") == []
    assert not any(key.startswith("callback") for key in world.schema.leases)
    await sweep(sender(process, client))
    assert len(client.told) == 1


async def test_also_of_a_run_that_failed_or_was_cancelled(world: World) -> None:
    process = world.process("one", FAILED)
    client = Client(CallbackOutcome(status=204), CallbackOutcome(status=204))
    await say(process, "run-1")
    await process.idle()
    await say(process, "run-2")
    await process.tell(CancelRuns(agent_id=AGENT), "cancel")
    await process.idle()
    await sweep(sender(process, client))
    assert sorted(body["status"] for _, body in client.told) == ["cancelled", "failed"]


@pytest.mark.parametrize(
    "outcome", [CallbackOutcome(status=503), CallbackOutcome(error="No answer")]
)
async def test_it_is_tried_again_after_pauses_and_then_given_up(
    world: World, outcome: CallbackOutcome
) -> None:
    process, client = world.process("one", REPLY), Client(*[outcome] * ATTEMPTS_MAX)
    await say(process, "run-1")
    await process.idle()
    for number, pause in enumerate((*PAUSE_SECONDS, 0), start=1):
        await sweep(sender(process, client))
        await sweep(sender(process, client))
        assert len(client.told) == number, "not before its time"
        world.clock.seconds += pause
    world.clock.seconds += 86_400
    await sweep(sender(process, client))
    assert len(client.told) == ATTEMPTS_MAX
    assert shown(world) == (outcome.status, outcome.error, True)
    assert world.schema.rows("callbacks") == []


@pytest.mark.parametrize(
    "outcome", [CallbackOutcome(status=404), CallbackOutcome(error="private", forbidden=True)]
)
async def test_what_would_be_so_again_is_not_tried_again(
    world: World, outcome: CallbackOutcome
) -> None:
    process, client = world.process("one", REPLY), Client(outcome)
    await say(process, "run-1")
    await process.idle()
    await sweep(sender(process, client))
    assert shown(world) == (outcome.status, outcome.error, True)
    assert world.schema.rows("callbacks") == []


async def test_whoever_dies_before_it_is_recorded_leaves_it_to_another(world: World) -> None:
    first, second = world.process("one", REPLY), world.process("two")
    client = Client(CallbackOutcome(status=200), CallbackOutcome(status=200))
    await say(first, "run-1")
    await first.idle()

    async def dies(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("it died")

    async def is_not_reached(*_: Any, **__: Any) -> None:
        """A process that has died gives nothing back."""

    dying = sender(first, client)
    first.store.commit = dies  # type: ignore[method-assign]
    first.store.release_lease = is_not_reached  # type: ignore[method-assign]
    await sweep(dying)
    await sweep(sender(second, client))
    assert len(client.told) == 1, "its lease is still there"
    world.lease_expires()
    await sweep(sender(second, client))
    assert len(client.told) == 2, "at least once"
    assert shown(world) == (200, None, True)


@pytest.mark.parametrize("what", ["run_messages", "take_over", "commit"])
@pytest.mark.parametrize("problem", [StoreUnavailable("a moment"), RuntimeError("a bug")])
async def test_an_attempt_that_fails_half_way_is_made_again_by_a_process_that_lives_on(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str, problem: Exception
) -> None:
    process, client = world.process("one", REPLY), Client(*[CallbackOutcome(status=200)] * 2)
    await say(process, "run-1")
    await process.idle()

    async def fails(*_: Any, **__: Any) -> None:
        raise problem

    with monkeypatch.context() as broken:
        broken.setattr(world.queries if what == "run_messages" else process.store, what, fails)
        with suppress(StoreUnavailable, RuntimeError):  # as the loop of a service does
            await sweep(sender(process, client))
    assert not any(lease.expires_at >= 0 for lease in world.schema.leases.values())
    await process.store.renew_leases()
    world.clock.seconds += PAUSE_SECONDS[0]
    await sweep(sender(process, client))
    assert client.told, "by the same process, whose leases are renewed"
    assert shown(world) == (200, None, True)
    assert world.schema.rows("callbacks") == []


async def test_an_answer_that_cannot_be_put_together_is_tried_so_often_and_not_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, client = world.process("one", REPLY), Client()
    await say(process, "run-1")
    await process.idle()

    async def fails(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(world.queries, "run_messages", fails)
    for _ in range(ATTEMPTS_MAX):
        await sweep(sender(process, client))
        world.clock.seconds += max(PAUSE_SECONDS)
    status, error, sent = shown(world)
    assert (status, sent) == (None, True)
    assert "the log of the server says why" in error
    assert world.schema.rows("callbacks") == []


async def test_a_round_whose_attempts_are_not_recorded_is_not_repeated_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = world.process("one", *[REPLY] * CALLBACKS_AT_ONCE_MAX)
    client = Client(*[CallbackOutcome(status=200)] * CALLBACKS_AT_ONCE_MAX)
    for number in range(1, CALLBACKS_AT_ONCE_MAX + 1):
        await say(process, f"run-{number}", f"https://hooks.example/{number}")
        await process.idle()

    async def fails(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("a moment")

    monkeypatch.setattr(process.store, "commit", fails)
    await sweep(sender(process, client))
    told = {url for url, _ in client.told}
    assert len(client.told) == len(told) == ORGANISATION_CALLBACKS_AT_ONCE_MAX, "each once"


async def test_an_address_that_is_private_by_its_text_is_refused_at_once(world: World) -> None:
    process = world.process("one")
    refused = await say(process, "run-1", "http://169.254.169.254/latest/meta-data/")
    assert isinstance(refused, Rejected)
    assert refused.code == UNPROCESSABLE
    assert refused.reason.startswith("`callback_url`: 169.254.169.254 is an address of a private")
    assert "HEELER_CALLBACK_HOSTS" in refused.reason
    assert world.schema.rows("runs") == []


async def test_a_client_that_does_not_answer_keeps_no_other_waiting(world: World) -> None:
    silent, runs = CallbackOutcome(error="No answer"), 2 * CALLBACKS_AT_ONCE_MAX
    process = world.process("one", *[REPLY] * (runs + 1))
    client = Client(*[silent] * (runs + 1))
    for number in range(1, runs + 1):
        await say(process, f"run-{number}", f"https://silent.example/{number}")
        await process.idle()
    other = CreateConversation(conversation_id="conv-other", agent_id=AGENT, request={})
    assert isinstance(await process.tell(other, "create"), Accepted)
    await say(process, "run-100", "https://other.example/", conversation_id="conv-other")
    await process.idle()
    await sweep(sender(process, client))
    told = [url for url, _ in client.told]
    in_first_round = told[:CALLBACKS_AT_ONCE_MAX]
    assert "https://other.example/" in in_first_round, "though it came last"
    assert len(told) == runs + 1
