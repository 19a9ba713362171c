"""What the handlers of the memory service need."""

from __future__ import annotations

from dataclasses import dataclass, field

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.ports import Clock
from libs.embeddings.ports import Embedders
from services.memory.adapters.archive_queries import ArchiveQueries
from services.memory.adapters.attached_agents import AttachedAgents
from services.memory.adapters.block_history import BlockHistory
from services.memory.adapters.passage_counts import PassageCounts
from services.memory.adapters.passage_search import PassageSearch


@dataclass(slots=True)
class HandlerPorts:
    """What a handler may use."""

    clock: Clock
    attached: AttachedAgents
    history: BlockHistory
    archives: ArchiveQueries
    passages: PassageSearch
    embedders: Embedders
    locks: AggregateLocks
    counts: PassageCounts = field(init=False)

    def __post_init__(self) -> None:
        self.counts = PassageCounts(self.archives, self.clock)
