"""A retry is matched only to a run that may be its own."""

from __future__ import annotations

import json
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from libs.bus.ports import BusUnavailable
from libs.contracts.bus_messages import Accepted
from libs.contracts.letta import all_request_bodies
from services.api.adapters.conversations.identical_request_runs import (
    REQUESTS_MAX,
    IdenticalRequestRuns,
)
from services.api.http.callers import CALLER, THE_ONLY_CALLER
from services.api.http.handler_dependencies import Api
from services.api.v1.message_request import MessageRequest, read_request, start_run
from tests.clock_and_ids import ManualClock

AGENT = "agent-00000000-0000-4000-8000-000000000000"


class Bus:
    """A bus that starts every run, or is away."""

    def __init__(self) -> None:
        self.away = False

    async def request(self, command: Any, context: Any, **_: Any) -> Accepted:
        if self.away:
            raise BusUnavailable("nobody answers")
        return Accepted(result={"run_id": command.run.id, "request_hash": command.request_hash})


class World:
    """An api whose bus is a `Bus`."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.runs = 0
        inbox: Any = SimpleNamespace(new_run=self.new_run)
        used = {
            "bus": self.bus,
            "clock": ManualClock(),
            "inbox": inbox,
            "identical_request_runs": IdenticalRequestRuns(),
        }
        nothing: dict[str, Any] = dict.fromkeys(field.name for field in fields(Api))
        self.api = Api(**{**nothing, **used})

    def new_run(self) -> str:
        self.runs += 1
        return f"run-{self.runs}"

    async def ask(self, text: str, *, retry: int = 0) -> MessageRequest[Any]:
        """Send a message; returns how it was asked."""

        async def body() -> bytes:
            return json.dumps({"input": text}).encode()

        request: Any = SimpleNamespace(
            headers={"x-stainless-retry-count": str(retry)},
            body=body,
            method="POST",
            url=SimpleNamespace(path=""),
            app=SimpleNamespace(state=SimpleNamespace(api=self.api)),
            scope={"state": {CALLER: THE_ONLY_CALLER}},
        )
        asked = await read_request(request, AGENT, all_request_bodies.LettaStreamingRequest)
        await start_run(request, asked)
        return asked


async def test_a_retry_of_the_second_continue_does_not_mean_the_first_one() -> None:
    world = World()
    first = await world.ask("continue")
    world.bus.away = True
    with pytest.raises(BusUnavailable):
        await world.ask("continue")
    world.bus.away = False

    again = await world.ask("continue", retry=1)

    assert again.command.retry
    assert again.command.earlier_runs == [first.command.run.id]


async def test_a_retry_may_mean_the_run_of_its_first_try() -> None:
    world = World()
    await world.ask("continue")
    other = await world.ask("stop")

    again = await world.ask("continue", retry=1)

    assert again.command.earlier_runs == []
    await world.ask("stop")
    assert (await world.ask("stop", retry=1)).command.earlier_runs == [other.command.run.id]


async def test_a_first_try_names_no_earlier_runs() -> None:
    world = World()
    for _ in range(20):
        asked = await world.ask("continue")
        assert asked.command.earlier_runs == []


def test_what_is_remembered_has_a_bound() -> None:
    tries = IdenticalRequestRuns()
    for number in range(REQUESTS_MAX + 1):
        tries.note_run(("org", "agent", str(number)), "run-1")
        tries.note_first_try(("org", "agent", str(number)))
    for number in range(100):
        tries.note_run(("org", "agent", "1"), f"run-{number}")
        tries.note_first_try(("org", "agent", "1"))

    assert len(tries.requests) == REQUESTS_MAX
    assert tries.excluded_runs(("org", "agent", "0")) == []
    assert tries.excluded_runs(("org", "agent", "2")) == ["run-1"]
    assert len(tries.excluded_runs(("org", "agent", "1"))) < 100
