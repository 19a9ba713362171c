"""How the files of a new folder are embedded, by the models that there are."""

from __future__ import annotations

from libs.contracts.bus_messages import UNPROCESSABLE, Rejected
from libs.contracts.files import CreateFolder
from libs.contracts.letta.model_requests import EmbeddingConfig
from libs.embeddings.ports import Embedders, EmbeddingRefused
from services.memory.domain.folder_embedding import folder_config


class FolderEmbeddings:
    """Asks nothing of a model: only which one there is."""

    def __init__(self, embedders: Embedders) -> None:
        self.embedders = embedders

    def config(self, command: CreateFolder) -> EmbeddingConfig | Rejected:
        """The config of a new folder, or the refusal of a model that there is not."""
        try:
            embedder = self.embedders.for_config(command.embedding_config)
        except EmbeddingRefused as refused:
            return Rejected(code=UNPROCESSABLE, reason=f"`embedding`: {refused}")
        return folder_config(command, embedder.model, embedder.dimensions)
