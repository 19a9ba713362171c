"""Histories are appended to by two processes, in every order in which that can happen.

Two commands change one account. Each may be delivered to either process, or to both at once; a
commit may be lost, or made and its answer lost; a process may die. What runs is the product:
`libs/bus/command_dispatcher.py`, `libs/eventstore/unit_of_work.py`, and the in-memory store, whose
contract Postgres keeps (`tests/contract/test_eventstore.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import pytest

from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.ports import IncomingCommand
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import StoreUnavailable
from libs.eventstore.unit_of_work import Repository
from tests.contract.ledger import SERVICE, Deposit, context, deposit, project
from tests.sim.mutants import planted
from tests.unit.model_checking.explorer import explore
from tests.unit.model_checking.stepping import LOST, UNANSWERED, Process, Steps

ACCOUNT = "account-1"
CENTS = {"one": 1, "two": 2}
FAULTS_MAX = 2
COPIES_MAX = 1  # deliveries of a command that has been answered, or is being worked on


class Handler(Process):
    """A process that answers commands."""

    def __init__(self, database: InMemoryDatabase, name: str) -> None:
        super().__init__()
        store = Steps(InMemoryEventStore(database, SERVICE, name), self, StoreUnavailable)
        self.repository = Repository(store, SERVICE, project)  # type: ignore[arg-type]
        self.dispatcher = CommandDispatcher(self.repository, {Deposit: deposit})

    @property
    def memory(self) -> Hashable:
        """What outlives a command."""
        cached = self.repository.cache.get(ACCOUNT)
        return cached.version if cached else 0, self.repository.distrustful > 0


class Commands:
    """Two processes and two commands."""

    def __init__(self) -> None:
        self.database = InMemoryDatabase(lambda: 0.0)
        self.schema = self.database.schema(SERVICE)
        self.processes = {name: Handler(self.database, name) for name in ("A", "B")}
        self.working_on = {"A": "", "B": ""}
        self.answers: set[tuple[str, str]] = set()
        self.faults = self.copies = 0

    async def answer(self, process: Handler, command: str) -> None:
        """A delivery of a command, and its reply to the sender."""
        deposit = Deposit(account_id=ACCOUNT, cents=CENTS[command])
        payload = deposit.model_dump_json().encode()
        incoming = IncomingCommand(f"{SERVICE}.money.deposit", payload, context(command))
        reply = await process.dispatcher.answer(incoming)
        self.answers.add((command, reply.model_dump_json()))

    def steps(self) -> Mapping[str, Callable[[], None]]:
        steps: dict[str, Callable[[], None]] = {}
        faults = {"commit": (LOST, UNANSWERED)} if self.faults < FAULTS_MAX else {}
        for name, process in self.processes.items():
            for step, how in process.steps(name, faults).items():
                steps[step] = lambda process=process, how=how: self.go_on(process, how)
            for command in CENTS if process.is_idle else ():
                if self.may_deliver(command):
                    step = f"{name} is given {command}"
                    steps[step] = lambda name=name, command=command: self.deliver(name, command)
            if not process.is_idle and self.faults < FAULTS_MAX:
                steps[f"{name} dies"] = lambda name=name: self.die(name)
        return steps

    def is_new(self, command: str) -> bool:
        """Whether nobody works on a command, and it has no answer."""
        busy = {self.working_on[name] for name, each in self.processes.items() if not each.is_idle}
        return command not in busy | {answered for answered, _ in self.answers}

    def may_deliver(self, command: str) -> bool:
        return self.is_new(command) or self.copies < COPIES_MAX

    def deliver(self, name: str, command: str) -> None:
        self.copies += not self.is_new(command)
        process = self.processes[name]
        self.working_on[name] = command
        process.begin(self.answer(process, command), command, process.memory)

    def go_on(self, process: Handler, how: str) -> None:
        self.faults += how in (LOST, UNANSWERED)
        process.go_on(how)

    def die(self, name: str) -> None:
        self.faults += 1
        self.processes[name] = Handler(self.database, name)

    @property
    def history(self) -> list[tuple[int, str]]:
        """The deposits: the version of each, and its command."""
        stream = self.schema.streams.get(ACCOUNT, [])
        return [(event.version, str(event.metadata["command_id"])) for event in stream]

    def state(self) -> Hashable:
        processes = frozenset(  # which of the two is which does not matter
            (each.call, tuple(each.seen), each.memory) for each in self.processes.values()
        )
        stored = (tuple(self.history), tuple(self.schema.inbox.items()))
        return stored, processes, frozenset(self.answers), self.faults, self.copies

    def broken(self) -> str:
        versions = [version for version, _ in self.history]
        deposits = [
            event.metadata["command_id"]
            for event in self.schema.streams.get(ACCOUNT, [])
            if event.topic == "money.deposited"
        ]
        if versions != [*range(1, len(versions) + 1)]:
            return "versions are 1, 2, 3 and so on, each once"
        if len(deposits) > len({*deposits}):
            return "a command takes effect once"
        if {command for command, _ in self.answers} - {*deposits}:
            return "what was answered is in the history"
        if len(self.answers) > len({command for command, _ in self.answers}):
            return "a command has one answer, however often it is delivered"
        return ""

    def has_ended_well(self) -> bool:
        idle = all(process.is_idle for process in self.processes.values())
        return idle and {command for command, _ in self.answers} == CENTS.keys()


def test_each_command_takes_effect_once_and_has_one_answer() -> None:
    explored = explore(Commands)
    assert not explored.broken, explored
    assert explored.states > 500


@pytest.mark.parametrize(
    ("bug", "broken", "shortest"),
    [
        ("no-version-check", "what was answered is in the history", 6),
        ("cache-after-failed-commit", "versions are 1, 2, 3 and so on, each once", 5),
        ("no-inbox", "a command takes effect once", 5),
        ("reply-not-stored", "a command has one answer, however often it is delivered", 5),
    ],
)
def test_a_planted_bug_is_found_with_the_shortest_way_to_it(
    bug: str, broken: str, shortest: int
) -> None:
    with planted(bug):
        explored = explore(Commands)
    assert explored.broken == broken, explored
    assert len(explored.trace) == shortest, explored.trace
