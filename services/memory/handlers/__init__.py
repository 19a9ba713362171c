"""Commands to the memory service, a module for each kind of thing that they are about."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.appended_histories import HistoryHandlers
from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import Command
from services.memory.handlers.agent_folders import AgentFoldersHandlers
from services.memory.handlers.appended_histories import appendable
from services.memory.handlers.archives import ArchiveHandlers
from services.memory.handlers.blocks import BlockHandlers
from services.memory.handlers.files import FileHandlers
from services.memory.handlers.folders import FolderHandlers
from services.memory.handlers.passage_search import PassageSearchHandlers
from services.memory.handlers.passages import PassageHandlers
from services.memory.handlers.ports import HandlerPorts
from services.memory.handlers.reembedding import ReembeddingHandlers
from services.memory.handlers.semantic_message_search import MessageSearchHandlers


class Handlers:
    """The handlers of all commands to this service."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.blocks = BlockHandlers(ports)
        self.archives = ArchiveHandlers(ports)
        self.passages = PassageHandlers(ports)
        self.searches = PassageSearchHandlers(ports)
        self.messages = MessageSearchHandlers(ports)
        self.reembedding = ReembeddingHandlers(ports)
        self.folders = FolderHandlers(ports)
        self.files = FileHandlers(ports)
        self.agent_folders = AgentFoldersHandlers(ports)
        self.histories = HistoryHandlers("memory", appendable(), ports.clock)

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            kind: handle
            for handlers in vars(self).values()
            for kind, handle in handlers.table().items()
        }
