"""The examples in the docstrings of libs/work do what is said there, as they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import dedent, indent
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import Accepted
from libs.eventstore.unit_of_work import Repository, UnitOfWork
from libs.work import leased_work, progress, reconciliation
from libs.work.leased_work import LeasedWork
from libs.work.reconciliation import Reconciliation, send_correction
from libs.work.work_lease import DueWork, WorkLease
from tests.clock_and_ids import CountingIds, ManualClock, StandingClock
from tests.contract.ledger import Account, Deposit, context, project
from tests.contract.worlds import MemoryWorld
from tests.leased_work import finish, sweep

WORK = DueWork("export-1", "org-1")


def examples(module: ModuleType) -> list[str]:
    """The indented parts of a module's docstring."""
    parts = re.split(r"^(?=\S)", module.__doc__ or "", flags=re.MULTILINE)
    blocks = [part.partition("\n")[2] for part in parts]
    return [dedent(block) for block in blocks if block.strip()]


def defined(example: str, name: str, **names: Any) -> Any:
    """What an example defines by a name, with these names known to it."""
    scope: dict[str, Any] = {"UnitOfWork": UnitOfWork, "Sequence": Sequence, **names}
    exec(example, scope)
    return scope[name]


class Export(Account):
    """An archive that somebody wants, and one that is made."""

    def complete(self, archive: bytes, *, at: object) -> None:
        """Be made; an account has a deposit then."""
        self.deposit(len(archive))

    def fail(self, reason: str, *, at: object) -> None:
        """Not be made."""
        self.deposit(-len(reason))


@dataclass(slots=True, kw_only=True)
class ExportPorts(ProcessPorts):
    queries: Any
    archives: Any


class Archives:
    """Which exports are due, and what is in them."""

    def __init__(self, world: MemoryWorld) -> None:
        self.world = world

    async def due_exports(self) -> Sequence[DueWork]:
        return [] if await self.world.rows() else [WORK]

    async def made(self, org: str, export_id: str) -> bytes:
        return f"{org} {export_id}".encode()


@pytest.mark.parametrize("is_begun_at_once", [True, False])
async def test_an_export_is_made_by_the_example_of_leased_work(is_begun_at_once: bool) -> None:
    [example] = examples(leased_work)
    kind = defined(
        example,
        "Exports",
        LeasedWork=LeasedWork,
        DueWork=DueWork,
        WorkLease=WorkLease,
        FairSemaphore=FairSemaphore,
        ExportPorts=ExportPorts,
        Export=Export,
    )
    world = MemoryWorld()
    archives = Archives(world)
    ports = ExportPorts(
        repository=Repository(world.store(), "ledger", project),
        bus=InMemoryBus(InMemoryNetwork()),
        clock=ManualClock(),
        ids=CountingIds(),
        committed=lambda: None,
        queries=archives,
        archives=archives,
    )
    exports: LeasedWork[DueWork] = kind(ports)
    service: Any = SimpleNamespace(sweepers=[], lease_watchers=[])
    exports.join(service)
    if is_begun_at_once:
        unit = ports.repository.work(context("want"))
        exports.begin_after_commit(WORK, unit)
        await unit.commit()
        await finish(exports)
    else:
        await sweep(exports)
    await exports.drain()

    assert [row["fields"]["last"] for row in await world.rows()] == [len("org-1 export-1")]
    assert (service.sweepers, service.lease_watchers) == ([exports.sweep], [exports.leases_held])


async def test_a_block_is_detached_by_the_example_of_reconciliation() -> None:
    [example] = examples(reconciliation)
    kind = defined(
        example,
        "DetachDeletedBlocks",
        Reconciliation=Reconciliation,
        send_correction=send_correction,
        LostBlock=object,
        DetachBlock=lambda agent_id, block_id: Deposit(account_id=agent_id, cents=block_id),
    )
    detached: list[str] = []

    class Blocks:
        async def lost_blocks(self, keys: list[str] | None, limit: int) -> list[Any]:
            assert keys is None
            return [SimpleNamespace(agent_id="agent-1", block_id=5, org="org-1")][:limit]

    class Bus:
        async def request(self, command: Deposit, *_: Any, **__: Any) -> Accepted:
            detached.append(command.account_id)
            return Accepted()

    policy = kind(ManualClock())
    policy.bus, policy.ids, policy.queries = Bus(), CountingIds(), Blocks()
    await policy.sweep()

    assert detached == ["agent-1"]


async def test_an_end_is_heard_by_the_examples_of_progress() -> None:
    works, follows = (
        f"async def example():\n{indent(example, '    ')}\n    return locals()"
        for example in examples(progress)
    )
    bus = InMemoryBus(InMemoryNetwork())
    known = {"bus": bus, "subject": "tools.delta.tool_run.progress.org-1.run-1", **vars(progress)}

    async def work() -> int:
        return 7

    async def look() -> None:
        raise AssertionError("the end is heard")

    at_work = defined(works, "example", **known, clock=StandingClock(), work=work)
    asker = SimpleNamespace(request=lambda *_: at_work(), subscribe_deltas=bus.subscribe_deltas)
    known["bus"] = asker
    followed = await defined(follows, "example", **known, command=None, context=None, look=look)()

    assert followed["end"] == {"result": 7}
