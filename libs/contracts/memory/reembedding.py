"""The language of re-embedding: an archive or a folder gets another model, and its passages their
vectors."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.bus_messages import Command, Event, Value
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.archives import ArchiveCommand, Embedding
from libs.contracts.memory.blocks import SERVICE


class ChangeArchiveEmbedding(ArchiveCommand, topic="archive.change_embedding"):
    """Embed an archive by another model from now on, and what is in it again; without a config by
    the server's default."""

    embedding_config: EmbeddingConfig | None = None


class ReembedPassages(Command, service=SERVICE, topic="passages.reembed"):
    """Embed the next passages of an archive that are not embedded by its model.

    The result says how many these were (`embedded`). Its target is not the archive: no command
    about that waits for a model.
    """

    archive_id: str

    @property
    def target(self) -> str:
        return self.archive_id.replace("archive", "reembedding", 1)


class ReembedChunks(Command, service=SERVICE, topic="chunks.reembed"):
    """Embed the next chunks of a folder's files that are not embedded by its model.

    The result says how many these were (`embedded`). Its target is not the folder, as with
    passages.
    """

    folder_id: str

    @property
    def target(self) -> str:
        return self.folder_id.replace("source", "reembedding", 1)


class ArchiveEmbeddingChanged(Event, service=SERVICE, topic="archive.embedding_changed"):
    """An archive is embedded by another model from now on; `model` and `dimensions` are those of
    the vectors that its passages are to get, and `previous_config` what embedded them."""

    embedding_config: EmbeddingConfig | None = None
    previous_config: EmbeddingConfig | None = None
    model: str
    dimensions: int
    changed_by_id: str | None = None


class ArchiveReembedded(Event, service=SERVICE, topic="archive.reembedded"):
    """Every passage of an archive is embedded by its model."""


class PassageEmbedded(Event, service=SERVICE, topic="passage.embedded"):
    """A passage has the vector of another model, and is found by that."""

    additive: ClassVar[bool] = True
    archive_id: str
    embedding: Embedding


class FolderEmbeddingChanged(Event, service=SERVICE, topic="folder.embedding_changed"):
    """The files of a folder are embedded by another model from now on; the fields are those of an
    archive's."""

    embedding_config: EmbeddingConfig
    previous_config: EmbeddingConfig | None = None
    model: str
    dimensions: int
    changed_by_id: str | None = None


class FolderReembedded(Event, service=SERVICE, topic="folder.reembedded"):
    """Every chunk of a folder's files is embedded by its model."""


class ChunkVector(Value):
    """The packed vector of a passage of a file."""

    id: str
    vector: str


class FileChunksReembedded(Event, service=SERVICE, topic="file.chunks_reembedded"):
    """Chunks of a file have the vectors of another model, and are found by these."""

    model: str
    dimensions: int
    chunks: list[ChunkVector]
