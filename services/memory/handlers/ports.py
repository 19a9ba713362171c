"""Ports of the memory service's handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.ports import Clock
from libs.embeddings.ports import Embedders
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.adapters.agent_attachments import AgentAttachments
from services.memory.adapters.archive_queries import ArchiveQueries, PassageCounts
from services.memory.adapters.folder_queries import FolderQueries
from services.memory.adapters.message_vectors import MessageScope, MessageVectors
from services.memory.adapters.passage_search import PassageSearch
from services.memory.adapters.past_block_versions import PastBlockVersions


@dataclass(slots=True, kw_only=True)
class HandlerPorts:
    """The ports that a handler may use. `file_added` has a file processed after the commit;
    `embed_messages` embeds the new messages of a scope, as far as that is quick."""

    clock: Clock
    attached: AgentAttachments
    past_block_versions: PastBlockVersions
    archives: ArchiveQueries
    passages: PassageSearch
    embedders: Embedders
    locks: AggregateLocks
    folders: FolderQueries
    file_added: Callable[[str, UnitOfWork], None]
    message_vectors: MessageVectors
    embed_messages: Callable[[MessageScope], Awaitable[None]]
    counts: PassageCounts = field(init=False)

    def __post_init__(self) -> None:
        self.counts = PassageCounts(self.archives, self.clock)
