"""Ports that the engine, the handlers and the policies of one process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.ports import Bus, Clock, Ids
from libs.bus.suspect_quarantine import Quarantine
from libs.eventstore.unit_of_work import Repository


@dataclass(slots=True, kw_only=True)
class ProcessPorts:
    """The ports that each service process has. A room that needs more extends them.

    `committed` wakes the relay: call it after each commit. `locks` are those that a
    command holds on its aggregate: other code of this process that decides about one holds it too.
    All suspects of a process share its `quarantine`.
    """

    repository: Repository
    bus: Bus
    clock: Clock
    ids: Ids
    committed: Callable[[], None]
    locks: AggregateLocks = field(default_factory=AggregateLocks)
    quarantine: Quarantine = field(default_factory=Quarantine)


class PortArguments(TypedDict):
    """The same as arguments: `EnginePorts(**runtime.port_arguments, models=models)`."""

    repository: Repository
    bus: Bus
    clock: Clock
    ids: Ids
    committed: Callable[[], None]
    locks: NotRequired[AggregateLocks]
    quarantine: NotRequired[Quarantine]
