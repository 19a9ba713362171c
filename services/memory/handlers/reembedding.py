"""Commands that embed an archive or a folder by another model: a few passages at a time, each time
durable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.memory.archives import Embedding
from libs.contracts.memory.reembedding import (
    ChangeArchiveEmbedding,
    ChunkVector,
    ReembedChunks,
    ReembedPassages,
)
from libs.embeddings.ports import EmbeddingFailed
from libs.embeddings.vector_encoding import pack_vector
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.domain.archive import Archive, missing_archive
from services.memory.domain.file import File
from services.memory.domain.folder import Folder, missing
from services.memory.domain.passage import Passage
from services.memory.domain.reembedding import change_embedding, embed_passage, end_reembedding
from services.memory.handlers.embedding_errors import answering, not_embedded
from services.memory.handlers.ports import HandlerPorts

PASSAGES_REEMBEDDED_AT_ONCE = 100


class ReembeddingHandlers:
    """The handlers of an archive's change to another model."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.clock = ports.clock
        self.archives = ports.archives
        self.folders = ports.folders
        self.embedders = ports.embedders
        self.locks = ports.locks

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            ChangeArchiveEmbedding: self.change_embedding,
            ReembedPassages: self.reembed_passages,
            ReembedChunks: self.reembed_chunks,
        }

    async def change_embedding(
        self, command: ChangeArchiveEmbedding, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Embed an archive by another model from now on, if that answers."""
        embedder = await answering(self.embedders, command.embedding_config, work.context.org)
        if isinstance(embedder, Rejected):
            return embedder
        archive = await work.load(Archive, command.archive_id)
        refused = change_embedding(
            archive,
            command.embedding_config,
            model=embedder.model,
            dimensions=embedder.dimensions,
            at=self.clock.now(),
            actor=work.context.actor,
        )
        return refused or Accepted()

    async def reembed_passages(
        self, command: ReembedPassages, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Embed the next passages that have another model's vector; none is left at the end."""
        org, archive_id = work.context.org, command.archive_id
        found = await self.archives.collections(org, [archive_id])
        if not found:
            return missing_archive(archive_id)
        config = found[0].embedding_config
        try:
            embedder = self.embedders.for_config(config, org, background=True)
            waiting = await self.archives.passages_to_embed(
                org, archive_id, embedder.model, embedder.dimensions, PASSAGES_REEMBEDDED_AT_ONCE
            )
            vectors = await embedder.embed([passage.text for passage in waiting]) if waiting else []
        except EmbeddingFailed as failed:
            return not_embedded(failed)
        archive, at = await work.load(Archive, archive_id), self.clock.now()
        if archive.state.embedding_config != config:
            return Accepted(result={"embedded": 0})  # the next turn knows by which model now
        if not waiting:
            end_reembedding(archive, at=at)
        for passage, vector in zip(waiting, vectors, strict=True):
            embedding = Embedding(
                model=embedder.model, dimensions=len(vector), vector=pack_vector(vector)
            )
            embed_passage(await work.load(Passage, passage.id), embedding, at=at)
        return Accepted(result={"embedded": len(waiting)})

    async def reembed_chunks(self, command: ReembedChunks, work: UnitOfWork) -> Accepted | Rejected:
        """Embed the next chunks that have another model's vector. It ends when none is left, and no
        file is on its way whose next chunks may be embedded by the old model yet."""
        org, folder_id = work.context.org, command.folder_id
        found = await self.archives.named_collections(org, [folder_id])
        if not found:
            return missing(folder_id)
        config = found[0].embedding_config
        # Asked first: what is completed meanwhile, by the old model, is found by the next turn.
        on_its_way = await self.folders.unfinished_files(org, folder_id)
        try:
            embedder = self.embedders.for_config(config, org, background=True)
            waiting = await self.archives.passages_to_embed(
                org, folder_id, embedder.model, embedder.dimensions, PASSAGES_REEMBEDDED_AT_ONCE
            )
            vectors = await embedder.embed([chunk.text for chunk in waiting]) if waiting else []
        except EmbeddingFailed as failed:
            return not_embedded(failed)
        folder = await work.load(Folder, folder_id)
        if folder.present is None or folder.present.embedding_config != config:
            return Accepted(result={"embedded": 0})  # the next turn knows by which model now
        at, of_file = self.clock.now(), defaultdict[str, list[ChunkVector]](list)
        for chunk, vector in zip(waiting, vectors, strict=True):
            of_file[chunk.file_id].append(ChunkVector(id=chunk.id, vector=pack_vector(vector)))
        for file_id, chunks in sorted(of_file.items()):
            await work.hold(self.locks.hold(file_id))
            file = await work.load(File, file_id)
            file.record_reembedded(
                chunks, model=embedder.model, dimensions=embedder.dimensions, at=at
            )
        if not waiting and not on_its_way:
            folder.end_reembedding(at=at)
        return Accepted(result={"embedded": len(waiting)})
