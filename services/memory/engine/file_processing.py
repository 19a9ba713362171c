"""Make texts and searchable chunks of uploaded files: each file under a lease, step by step.

That a file is to be processed is durable before anybody begins. Its text is committed once, its
chunks a batch at a time; where the process dies, the lease runs out, and a sweeper has the file go
on after its last commit. What passes by itself is waited for; what does not ends as an error with
a reason.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.process_ports import ProcessPorts
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.folders import FolderState
from libs.contracts.memory.agent_folders import agent_folders_id
from libs.contracts.memory.files import FileChunk, chunk_id
from libs.embeddings.ports import Embedders, EmbeddingRefused, EmbeddingUnavailable
from libs.embeddings.vector_encoding import pack_vector
from libs.eventstore.ports import StaleLease
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import HANDLED_BY_ENGINE, DueWork, WorkLease
from services.memory.adapters.agent_attachments import AgentAttachments, AttachedAgent
from services.memory.adapters.file_parsing.parser import ProcessParser, Unparsable
from services.memory.adapters.file_processing_queries import FileProcessingQueries
from services.memory.adapters.file_texts import FileTexts
from services.memory.adapters.uploaded_files import UploadedFiles, UploadGone
from services.memory.domain.agent_folders import AgentFolders
from services.memory.domain.chunks import chunks_of, tokens_for
from services.memory.domain.file import File, FileProgress, kind_of
from services.memory.domain.folder import Folder
from services.memory.domain.text_segments import Segment, TextSegments
from services.memory.policies.deleted_files import delete_file

log = logging.getLogger(__name__)

# More wait for their turn; the sweeper begins them.
FILES_AT_ONCE_MAX = 4
FILES_OF_ORG_AT_ONCE_MAX = 2
# After so many batches a file lets others have its turn, and comes back.
BATCHES_OF_A_TURN = 32
BATCH_CHUNKS = 32
TEXT_CHARS_MAX = 10_000_000
# A file is opened by itself for so many agents; the others see its name, and open it if they want.
AGENTS_SHOWN_MAX = 1_000
AGENTS_SHOWN_AT_ONCE = 20
ENDED = ("completed", "error")
TOO_MUCH_TEXT = (
    f"It has more than {TEXT_CHARS_MAX:,} characters of text: split it, and upload the parts"
)
GONE = "{}: delete the file, and upload it again"
A_BUG = "It could not be processed, for a reason that the log of the server says"


class FileGone(Exception):
    """There is nothing left to do for a file."""


@dataclass(slots=True, kw_only=True)
class FileProcessingPorts(ProcessPorts):
    """The ports of file processing."""

    queries: FileProcessingQueries
    uploads: UploadedFiles
    texts: FileTexts
    parser: ProcessParser
    embedders: Embedders
    attached: AgentAttachments


class FileProcessing(LeasedWork[DueWork]):
    """The files that this process works on."""

    name = "file"
    ports: FileProcessingPorts

    def __init__(self, ports: FileProcessingPorts) -> None:
        places = FairSemaphore(
            FILES_AT_ONCE_MAX,
            of_organisation_max=FILES_OF_ORG_AT_ONCE_MAX,
            users="files",
            thing="place",
        )
        super().__init__(ports, places)

    def file_added(self, file_id: str, work: UnitOfWork) -> None:
        """Have the commit take the lease of a new file, if there is room to begin at once."""
        self.begin_after_commit(DueWork(file_id, work.context.org), work)

    async def due(self) -> Sequence[DueWork]:
        """The files that are to be processed now, and that nobody processes."""
        limit = FILES_AT_ONCE_MAX * FILES_OF_ORG_AT_ONCE_MAX
        return await self.ports.queries.due_files(FILES_OF_ORG_AT_ONCE_MAX, limit)

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Take a file further; one that is gone needs no lease any more."""
        try:
            await self.process_or_fail(lease)
        except FileGone:
            if not lease.is_released:
                await lease.record(decide_nothing)

    async def process_or_fail(self, lease: WorkLease[DueWork]) -> None:
        """Take a file further, or record why that cannot be done. Raises FileGone."""
        try:
            await self.process(lease)
        except (Unparsable, EmbeddingRefused) as refused:
            await self.fail(lease, str(refused))
        except UploadGone as gone:
            await self.fail(lease, GONE.format(gone))
        except EmbeddingUnavailable as outage:
            await self.delay(lease, str(outage))
        except (FileGone, *HANDLED_BY_ENGINE):
            raise
        except Exception:
            log.exception("%s cannot be processed", lease.work.id)
            await self.delay(lease, A_BUG)

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that a file cannot be processed."""
        (await unit.load(File, work.id)).fail(reason, at=self.ports.clock.now())

    async def fail(self, lease: WorkLease[DueWork], words: str) -> None:
        """Record that a file cannot be processed, and why."""
        await self.decide(lease, lambda file: file.fail(words, at=self.ports.clock.now()))

    async def delay(self, lease: WorkLease[DueWork], words: str) -> None:
        """Record that a file has to wait, and why."""
        await self.decide(lease, lambda file: file.delay(words, at=self.ports.clock.now()))

    async def process(self, lease: WorkLease[DueWork]) -> None:
        """Take a file further: all the way, or as far as a turn goes. Raises FileGone."""
        file = (await lease.unit().load(File, lease.work.id)).unfinished_file
        if file is None:
            raise FileGone(lease.work.id)
        folder = await self.folder_of(lease, file)
        config = folder.embedding_config
        chunk_size = config.embedding_chunk_size if config else None
        tokens_max = file.chunk_tokens or tokens_for(chunk_size)
        if not file.text_id:
            file = await self.parse(lease, file, tokens_max)
        if not file.shown and file.status != "completed":
            await self.show(lease, file.folder_id)
        for _ in range(BATCHES_OF_A_TURN):
            if file.status == "completed":
                return
            file = await self.embed(lease, file, tokens_max)

    async def folder_of(self, lease: WorkLease[DueWork], file: FileProgress) -> FolderState:
        """The folder of a file as of now. A file whose folder is gone is removed: raises
        FileGone."""
        folder = (await lease.unit().load(Folder, file.folder_id)).present
        if folder is None:
            await lease.record(partial(delete_file, lease.work.id, at=self.ports.clock.now()))
            raise FileGone(lease.work.id)
        return folder

    async def parse(
        self, lease: WorkLease[DueWork], file: FileProgress, tokens_max: int
    ) -> FileProgress:
        """Keep the text of a file; a text that is not committed is removed later."""
        file_id, org = lease.work.id, lease.work.org
        text_id = derived_id("text", file_id, str(lease.fence.epoch))
        segments, total = TextSegments(), 0
        uploaded = await self.ports.uploads.open(org, file_id, file.file_size, file.sha256)

        async def keep(segment: Segment) -> int:
            if segments.chars > TEXT_CHARS_MAX:
                raise Unparsable(TOO_MUCH_TEXT)
            chunks = len(chunks_of(segment, tokens_max))
            if not await self.ports.texts.write(org, file_id, text_id, segment, total, chunks):
                raise FileGone(file_id)
            return chunks

        kind = kind_of(file)
        with contextlib.closing(uploaded):
            async with contextlib.aclosing(self.ports.parser.parse(kind, uploaded)) as texts:
                async for text in texts:
                    for segment in segments.feed(text):
                        total += await keep(segment)
            for segment in segments.end():
                total += await keep(segment)

        def decision(known: File) -> None:
            at = self.ports.clock.now()
            if known.state.text_id:
                raise StaleLease(file_id)  # it stood still, and somebody else went on
            known.record_parsed(
                text_id,
                lines=segments.lines,
                chars=segments.chars,
                total_chunks=total,
                chunk_tokens=tokens_max,
                at=at,
            )
            if not total:
                known.complete(at=at)

        return await self.decide(lease, decision, advances=True)

    async def show(self, lease: WorkLease[DueWork], folder_id: str) -> None:
        """Have the agents that see the folder of a file have it open, a few in each commit."""
        org = lease.work.org
        agents = await self.ports.attached.agents_with_folder(org, folder_id, AGENTS_SHOWN_MAX)
        for begin in range(0, len(agents), AGENTS_SHOWN_AT_ONCE):
            some = agents[begin : begin + AGENTS_SHOWN_AT_ONCE]
            count = begin + len(some)
            await self.show_to(lease, some, count if count == len(agents) else None)

    async def show_to(
        self, lease: WorkLease[DueWork], agents: list[AttachedAgent], total: int | None
    ) -> None:
        """Record that some agents have a file open, and with the `total` that these are all."""
        file_id, at = lease.work.id, self.ports.clock.now()

        async def decide(unit: UnitOfWork) -> None:
            file = await load_unfinished(unit, file_id)
            folder_id = file.state.folder_id
            for attached in agents:
                agent = await unit.load(AgentFolders, agent_folders_id(attached.agent_id))
                files_max = attached.files_max
                agent.show(attached.agent_id, folder_id, [file_id], files_max=files_max, at=at)
            if total is not None:
                file.show(total, at=at)

        await lease.record(decide, release=False)

    async def embed(
        self, lease: WorkLease[DueWork], file: FileProgress, tokens_max: int
    ) -> FileProgress:
        """Embed the next chunks of a file, as its folder is embedded now, and complete it with the
        last of them."""
        file_id, org, first = lease.work.id, lease.work.org, file.chunks_embedded
        folder = await self.folder_of(lease, file)
        segment, segment_first = await self.ports.texts.with_chunk(org, file.text_id, first)
        start = first - segment_first
        batch = chunks_of(segment, tokens_max)[start : start + BATCH_CHUNKS]
        embedder = self.ports.embedders.for_config(folder.embedding_config, org, background=True)
        vectors = await embedder.embed([chunk.text for chunk in batch])
        now = (await lease.unit().load(Folder, file.folder_id)).present
        if now is None or now.embedding_config != folder.embedding_config:
            return file  # is embedded by another model now: once more
        chunks = [
            FileChunk(
                id=chunk_id(file_id, number),
                text=chunk.text,
                line=chunk.line,
                vector=pack_vector(vector),
            )
            for number, (chunk, vector) in enumerate(zip(batch, vectors, strict=True), start=first)
        ]

        def decision(known: File) -> None:
            at = self.ports.clock.now()
            if known.state.chunks_embedded != first:
                raise StaleLease(file_id)  # it stood still, and somebody else went on
            known.record_embedded(
                chunks, model=embedder.model, dimensions=embedder.dimensions, at=at
            )
            if known.state.chunks_embedded == known.state.total_chunks:
                known.complete(at=at)

        return await self.decide(lease, decision, advances=True)

    async def decide(
        self,
        lease: WorkLease[DueWork],
        decision: Callable[[File], None],
        *,
        advances: bool = False,
    ) -> FileProgress:
        """Record a decision about a file that is there and unfinished; returns what it is then.
        Raises FileGone."""

        async def decide(unit: UnitOfWork) -> FileProgress:
            file = await load_unfinished(unit, lease.work.id)
            decision(file)
            return file.state.model_copy()

        return await lease.record(
            decide, release=lambda file: file.status in ENDED, advances=advances
        )


async def load_unfinished(unit: UnitOfWork, file_id: str) -> File:
    """A file as of now, for which there is something to do. Raises FileGone."""
    file = await unit.load(File, file_id)
    if file.unfinished_file is None:
        raise FileGone(file_id)
    return file


async def decide_nothing(_: UnitOfWork) -> None:
    """Have the lease given back, and nothing else."""
