"""Commands to the memory service, a module for each kind of thing that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import Command
from services.memory.handlers.agent_folders import AgentFoldersHandlers
from services.memory.handlers.archives import ArchiveHandlers
from services.memory.handlers.blocks import BlockHandlers
from services.memory.handlers.dependencies import HandlerDependencies
from services.memory.handlers.files import FileHandlers
from services.memory.handlers.folders import FolderHandlers
from services.memory.handlers.passage_search import PassageSearchHandlers
from services.memory.handlers.passages import PassageHandlers
from services.memory.handlers.reembedding import ReembeddingHandlers
from services.memory.handlers.semantic_message_search import MessageSearchHandlers


@dataclass(slots=True)
class Handlers:
    """All of them."""

    ports: HandlerDependencies
    blocks: BlockHandlers = field(init=False)
    archives: ArchiveHandlers = field(init=False)
    passages: PassageHandlers = field(init=False)
    searches: PassageSearchHandlers = field(init=False)
    messages: MessageSearchHandlers = field(init=False)
    folders: FolderHandlers = field(init=False)
    files: FileHandlers = field(init=False)
    agent_folders: AgentFoldersHandlers = field(init=False)
    reembedding: ReembeddingHandlers = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = BlockHandlers(self.ports)
        self.archives = ArchiveHandlers(self.ports)
        self.passages = PassageHandlers(self.ports)
        self.searches = PassageSearchHandlers(self.ports)
        self.messages = MessageSearchHandlers(self.ports)
        self.reembedding = ReembeddingHandlers(self.ports)
        self.folders = FolderHandlers(self.ports)
        self.files = FileHandlers(self.ports)
        self.agent_folders = AgentFoldersHandlers(self.ports)

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        kinds = (
            *(self.blocks, self.archives, self.passages, self.searches, self.messages),
            *(self.reembedding, self.folders, self.files, self.agent_folders),
        )
        return {kind: handler for one in kinds for kind, handler in one.table().items()}
