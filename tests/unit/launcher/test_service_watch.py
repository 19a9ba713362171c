"""When a part is taken for ill: by what was heard of it, and never for what another lacks."""

from __future__ import annotations

import json
import os
from typing import Any, cast

import pytest

from deploy.embedded import service_watch
from deploy.embedded.process_activity import OwnTime
from deploy.embedded.service_watch import (
    BUSY_SECONDS_MAX,
    COMMAND_SECONDS_MAX,
    RELAY_SECONDS_MAX,
    STORED_SECONDS_MAX,
    Answers,
    ServiceWatch,
)
from deploy.embedded.settings import FROZEN_SECONDS_MAX
from deploy.embedded.supervised_process import (
    DOUBLINGS_MAX,
    FIRST_ANSWER_WITHIN,
    LOOK_SECONDS,
    OverdueTime,
    Well,
)
from libs.contracts.stream_definitions import STREAM_IS_FULL

ME = os.getpid()
STORED = b'{"stream": "COMMANDS", "seq": 7}'


class Process:
    """A part with a process, as far as it is judged."""

    def __init__(self, name: str) -> None:
        self.command = self
        self.name = name
        self.pid: int | None = ME
        self.started_at = 0.0


class Machine:
    """A clock, two servers and what a process does, all set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.well: dict[str, Well | None] = {"postgres": Well(0.0, 0.0), "nats": Well(0.0, 0.0)}
        servers = (lambda: self.well["postgres"], lambda: self.well["nats"])
        self.watch = ServiceWatch("nats://u:p@h", servers, frozen_seconds_max=FROZEN_SECONDS_MAX)
        self.asks = True
        self.agent = Process("agent")
        self.overdue = OverdueTime()
        self.own = OwnTime()  # since the last look

    def passes(self, seconds: float, *, on_processor: float | None = None) -> None:
        """Time goes by, and the supervisor asks meanwhile, from the first moment on. The process is
        idle, or is on a processor for so long, and waits for one for the rest."""
        if self.asks:
            self.watch._asked.append(self.now + 0.001)
        self.now += seconds
        self.own += OwnTime(0.0, seconds) if on_processor is None else OwnTime(on_processor)
        for name, well in self.well.items():
            self.well[name] = Well.going_on(well, self.now) if well else None
        if self.asks:
            self.watch.answers.forget_signs(self.now)
            self.watch._asked.append(self.now)

    def sign(self) -> None:
        answer = {"metadata": {"process": f"host:{ME}"}}
        self.watch.answers.hear("sign", json.dumps(answer).encode(), self.now)

    def answer(self, *, done: int = 1, waiting: int = 0) -> None:
        answer = {"outcome": "accepted", "result": {"relay": {"done": done, "waiting": waiting}}}
        self.watch.answers.hear("answer.agent", json.dumps(answer).encode(), self.now)

    def is_left_alone(self, factor: float = 1.0) -> bool:
        """Whether a look finds no reason to end the process."""
        look = self.watch.look(cast(Any, self.agent))
        self.overdue.note(self.now, self.own, look)
        self.own = OwnTime()
        return self.overdue.too_long(look, factor) is None

    def is_well(self) -> bool:
        return self.watch.look(cast(Any, self.agent)).is_well


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(service_watch.time, "monotonic", lambda: machine.now)
    machine.passes(1.0)
    machine.sign()
    machine.answer()
    assert machine.is_left_alone()
    assert machine.is_well()
    machine.passes(1.0)
    assert machine.is_left_alone()
    return machine


def test_a_process_without_a_sign_of_life_is_ill_after_some_idle_seconds(machine: Machine) -> None:
    machine.passes(FROZEN_SECONDS_MAX)
    assert machine.is_left_alone()
    machine.passes(0.1)
    assert not machine.is_left_alone()
    machine.sign()
    assert machine.is_left_alone()


def test_a_process_that_was_not_asked_for_long_is_not_ill_before_it_can_answer(
    machine: Machine,
) -> None:
    machine.sign()
    machine.asks = False
    machine.passes(FROZEN_SECONDS_MAX + 1.0)
    machine.watch._asked.append(machine.now)  # the answer is on its way
    machine.passes(0.1)
    assert machine.is_left_alone()


def test_one_that_loops_for_ever_is_ill_after_a_minute_of_its_own_processor(
    machine: Machine,
) -> None:
    used = 0.0
    while used + LOOK_SECONDS <= BUSY_SECONDS_MAX:
        machine.passes(LOOK_SECONDS, on_processor=LOOK_SECONDS)
        used += LOOK_SECONDS
        assert machine.is_left_alone()
    machine.passes(LOOK_SECONDS, on_processor=LOOK_SECONDS)
    assert not machine.is_left_alone()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.03])
def test_a_process_that_gets_next_to_no_processor_is_left_alone(
    machine: Machine, share: float
) -> None:
    for _ in range(round(30 * BUSY_SECONDS_MAX / LOOK_SECONDS)):
        machine.passes(LOOK_SECONDS, on_processor=share * LOOK_SECONDS)
        assert machine.is_left_alone()


def test_one_that_loads_its_modules_slowly_has_its_own_time_for_that(machine: Machine) -> None:
    machine.agent.pid, machine.agent.started_at = ME + 1, machine.now
    for _ in range(200):  # ten minutes at 3 % of a core
        machine.passes(LOOK_SECONDS, on_processor=0.03 * LOOK_SECONDS)
        assert machine.is_left_alone()
    assert not machine.is_well()
    machine.passes(1.0, on_processor=FIRST_ANSWER_WITHIN.processor_seconds)
    assert not machine.is_left_alone()


def test_one_that_was_ended_in_vain_has_twice_as_long_each_time(machine: Machine) -> None:
    for doublings in range(DOUBLINGS_MAX + 1):
        machine.sign()
        factor = 2.0**doublings
        assert machine.is_left_alone(factor)
        machine.passes(0.1)
        assert machine.is_left_alone(factor)
        machine.passes(FROZEN_SECONDS_MAX * factor)
        machine.answer()
        assert machine.is_left_alone(factor)
        machine.passes(0.1)
        assert not machine.is_left_alone(factor)


@pytest.mark.parametrize("server", ["postgres", "nats"])
def test_nobody_is_ill_while_a_server_is_away_nor_at_once_when_it_is_back(
    machine: Machine, server: str
) -> None:
    machine.well[server] = None
    machine.passes(600.0)
    assert machine.is_left_alone()
    machine.well[server] = Well(machine.now, machine.now)
    machine.passes(0.1)
    assert machine.is_left_alone()
    machine.passes(FROZEN_SECONDS_MAX)
    assert machine.is_left_alone()
    machine.passes(0.1)
    assert not machine.is_left_alone()


def test_a_silence_does_not_count_after_the_last_look_that_found_the_servers_well(
    machine: Machine,
) -> None:
    machine.passes(LOOK_SECONDS)
    assert machine.is_left_alone()
    machine.now += 600.0  # they may have been frozen ever since
    machine.own = OwnTime(0.0, 600.0)
    machine.watch._asked.append(machine.now)
    assert machine.is_left_alone()
    machine.passes(0.1)  # they were not
    assert not machine.is_left_alone()


def test_nobody_is_ill_where_nobody_asked(machine: Machine) -> None:
    machine.asks = False  # the supervisor stood still, or the whole machine
    machine.passes(600.0)
    assert machine.is_left_alone()


def test_a_process_has_an_idle_minute_for_its_first_sign_of_life(machine: Machine) -> None:
    machine.agent.pid, machine.agent.started_at = ME + 1, machine.now
    machine.passes(0.1)
    assert machine.is_left_alone()
    for passed in (FIRST_ANSWER_WITHIN.idle_seconds, 0.1):
        machine.passes(passed)
        machine.answer()
        assert machine.is_left_alone() == (passed > 0.1)


def test_a_service_that_answers_no_command_is_ill_however_alive(machine: Machine) -> None:
    machine.passes(COMMAND_SECONDS_MAX - 1.0)
    machine.sign()
    assert machine.is_left_alone()
    machine.passes(1.1)
    machine.sign()
    assert not machine.is_left_alone()
    machine.watch.answers.hear("answer.memory", b'{"outcome": "accepted"}', machine.now)
    assert not machine.is_left_alone()
    machine.answer()
    assert machine.is_left_alone()


def test_an_api_that_answers_no_client_is_ill_whatever_it_says_on_the_bus(
    machine: Machine,
) -> None:
    machine.agent.name = "api"
    machine.watch.clients_answered_at = machine.now

    def passes(seconds: float) -> bool:
        machine.passes(seconds)
        machine.sign()
        machine.watch.answers.hear("answer.api", b'{"outcome": "accepted"}', machine.now)
        return machine.is_left_alone()

    assert passes(0.1)
    assert passes(COMMAND_SECONDS_MAX)
    assert not passes(0.1)
    machine.watch.clients_answered_at = machine.now
    assert passes(0.1)


def test_a_store_is_broken_that_does_not_say_in_time_that_it_stored() -> None:
    answers = Answers()
    answers.asked["agent.command"] = 5.0
    assert answers.stores(5.0 + STORED_SECONDS_MAX)
    assert not answers.stores(5.1 + STORED_SECONDS_MAX)
    refusal = {"error": {"err_code": 10047, "description": "insufficient storage"}}
    for unsaid in (b"", json.dumps(refusal).encode()):
        answers.hear("stored.agent.command", unsaid, 60.0)
        assert not answers.stores(60.0)
    answers.hear("stored.agent.command", STORED, 60.0)
    assert answers.stores(60.0)


def test_a_full_queue_is_no_broken_store() -> None:
    answers = Answers(asked={"agent.command": 5.0})
    refusal = {"error": {"err_code": STREAM_IS_FULL, "description": "maximum bytes exceeded"}}
    answers.hear("stored.agent.command", json.dumps(refusal).encode(), 60.0)
    assert answers.stores(60.0)


def test_a_relay_stands_that_has_work_and_does_none(machine: Machine) -> None:
    answers = machine.watch.answers
    machine.answer(done=5, waiting=3)
    began = machine.now
    machine.passes(RELAY_SECONDS_MAX)
    machine.answer(done=5, waiting=9)
    assert not answers.relay_stands("agent", machine.now)
    assert answers.relay_stands("agent", began + RELAY_SECONDS_MAX + 0.1)
    machine.answer(done=6, waiting=9)
    assert not answers.relay_stands("agent", machine.now + RELAY_SECONDS_MAX)
    machine.answer(done=15, waiting=0)
    assert not answers.relay_stands("agent", machine.now + 600.0)
