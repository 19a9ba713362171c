"""Bugs that only two releases side by side show (ADR 18): a test of the contract finds each.

In the simulator's worlds all processes are of one release, so these are planted here: in the shell
around handlers and consumers, over every bus, and in the choice of a snapshot, over every store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from libs.bus import command_retries, event_consumer, retry_policy
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.ports import IncomingCommand
from libs.eventstore import postgres
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.ports import History
from tests.contract import test_log_and_history as history_tests
from tests.contract import test_older_processes as version_tests
from tests.contract.planted_bugs import without
from tests.contract.wires import Wires
from tests.contract.worlds import World


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, and the test that finds it."""

    sentence: str
    found_by: Callable[..., Awaitable[None]]
    patches: list[tuple[Any, str, Any]]


class NeverRaised(Exception):
    """What is caught in place of something else, which is then a bug like any other."""


real_answer = CommandDispatcher.answer
real_load = InMemoryEventStore.load


async def as_the_first_version(dispatcher: CommandDispatcher, incoming: IncomingCommand) -> Any:
    return await real_answer(dispatcher, replace(incoming, schema_version=1))


async def load_any_snapshot(
    store: InMemoryEventStore, aggregate_id: str, after: int = 0, *, state_version: str = ""
) -> History:
    kept = [form for of, form in store.schema.snapshots if of == aggregate_id]
    return await real_load(store, aggregate_id, after, state_version=next(iter(kept), ""))


ON_THE_BUS = {
    "unknown-command-is-poison": Planted(
        "A command that a process does not know is counted, and parked as a dead letter.",
        partial(
            version_tests.test_a_command_that_a_process_does_not_know_is_left_to_newer_ones,
            newer_by="name",
        ),
        [(command_retries, "NewerVersion", NeverRaised)],
    ),
    "unreadable-aggregate-is-poison": Planted(
        "A command about an aggregate with an unknown event is counted, and parked.",
        version_tests.test_what_no_process_can_read_is_given_up_in_time_and_not_parked,
        [(command_retries, "NewerVersion", NeverRaised)],
    ),
    "newer-command-is-guessed": Planted(
        "A command of a newer version is read as if it were of the version that is known.",
        partial(
            version_tests.test_a_command_that_a_process_does_not_know_is_left_to_newer_ones,
            newer_by="version",
        ),
        [(CommandDispatcher, "answer", as_the_first_version)],
    ),
    "unknown-event-is-poison": Planted(
        "A consumer parks an event of a version that it does not know, and goes on behind it.",
        version_tests.test_a_consumer_leaves_an_event_that_it_cannot_read_to_a_newer_one,
        [(event_consumer, "NewerVersion", NeverRaised)],
    ),
}
IN_THE_STORE = {
    "any-snapshot-is-read": Planted(
        "A snapshot is read whatever form the state had when it was taken.",
        history_tests.test_a_snapshot_of_another_form_is_not_read,
        [
            (InMemoryEventStore, "load", load_any_snapshot),
            (
                postgres,
                "HISTORIES",
                without(postgres.HISTORIES, "and s.state_version = wanted.state"),
            ),
        ],
    ),
    "form-is-not-looked-at": Planted(
        "What stands for the form of a state is its revision, which somebody forgot to raise.",
        history_tests.test_a_snapshot_of_another_form_is_not_read,
        [(history_tests.Account, "state_version", classmethod(lambda kind: "1"))],
    ),
}


def planted(bug: Planted, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """The bug is there; without it the test that finds it passes, in its own file."""
    for target, attribute, value in bug.patches:
        monkeypatch.setattr(target, attribute, value)
    return bug


@pytest.mark.parametrize("name", ON_THE_BUS)
async def test_the_contract_finds_the_bug_on_every_bus(
    name: str, wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_policy, "PAUSE_SECONDS", (0.05, 0.1, 0.15))
    bug = planted(ON_THE_BUS[name], monkeypatch)
    fixtures = {"monkeypatch": monkeypatch} if name == "unknown-event-is-poison" else {}
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await bug.found_by(wires=wires, **fixtures)


@pytest.mark.parametrize("name", IN_THE_STORE)
async def test_the_contract_finds_the_bug_in_every_store(
    name: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = planted(IN_THE_STORE[name], monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await bug.found_by(world=world)
