"""Make texts and searchable chunks of uploaded files: each file under a lease, step by step.

That a file is to be processed is durable before anybody begins. Its text is committed once, its
chunks a batch at a time; where the process dies, the lease runs out, and a sweeper has the file go
on after its last commit. What passes by itself is waited for; what does not ends as an error with
a reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from libs.bus.ports import Clock, Ids
from libs.bus.unknown_version_delays import log_once
from libs.contracts.bus_messages import Context, NewerVersion
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.agent_folders import agent_folders_id
from libs.contracts.memory.files import FileChunk, chunk_id, file_name_id
from libs.embeddings.ports import Embedders, EmbeddingRefused, EmbeddingUnavailable
from libs.embeddings.vector_encoding import packed
from libs.eventstore.ports import Fence, StaleLease, StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import Repository, UnitOfWork
from services.memory.adapters.agent_attachments import AgentAttachments, AttachedAgent
from services.memory.adapters.file_parsing.parser import Parser, Unparsable
from services.memory.adapters.file_processing_queries import FileProcessingQueries
from services.memory.adapters.file_texts import FileTexts
from services.memory.adapters.uploaded_files import UploadedFiles, UploadGone
from services.memory.domain.agent_folders import AgentFolders
from services.memory.domain.chunks import chunks_of, tokens_for
from services.memory.domain.document_kinds import kind_of
from services.memory.domain.file import File, FileProgress
from services.memory.domain.folder import Folder
from services.memory.domain.name_reservations import FileName
from services.memory.domain.text_segments import Segment, TextSegments

log = logging.getLogger(__name__)

# More wait for their turn; the sweeper begins them.
FILES_AT_ONCE_MAX = 4
FILES_OF_ORG_AT_ONCE_MAX = 2
# After so many batches a file lets others have its turn, and comes back.
BATCHES_OF_A_TURN = 32
BATCH_CHUNKS = 32
TEXT_CHARS_MAX = 10_000_000
CONFLICT_RETRIES_MAX = 20
# A file is opened by itself for so many agents; the others see its name, and open it if they want.
AGENTS_SHOWN_MAX = 1_000
AGENTS_SHOWN_AT_ONCE = 20
CLEANUP_SECONDS = 60.0
TEXTS_REMOVED_AT_ONCE = 100
ORPHANS_AT_ONCE = 50
OF_THE_STORE = (NewerVersion, StaleLease, VersionConflict, StoreUnavailable)
TOO_MUCH_TEXT = (
    f"It has more than {TEXT_CHARS_MAX:,} characters of text: split it, and upload the parts"
)
GONE = "{}: delete the file, and upload it again"
A_BUG = "It could not be processed, for a reason that the log of the server says"


class FileGone(Exception):
    """There is nothing left to do for a file."""


@dataclass(slots=True, kw_only=True)
class FileProcessingPorts:
    """What the processing of files needs. `committed` is called after each commit."""

    repository: Repository
    queries: FileProcessingQueries
    uploads: UploadedFiles
    texts: FileTexts
    parser: Parser
    embedders: Embedders
    locks: AggregateLocks
    attached: AgentAttachments
    clock: Clock
    ids: Ids
    committed: Callable[[], None]


class FileProcessing:
    """The files that this process works on."""

    def __init__(self, ports: FileProcessingPorts) -> None:
        self.ports = ports
        self.tasks: dict[str, asyncio.Task[bool]] = {}
        self.places = FairSemaphore(
            FILES_AT_ONCE_MAX,
            of_organisation_max=FILES_OF_ORG_AT_ONCE_MAX,
            users="files",
            thing="place",
        )
        self.stopping = False
        self.cleanup_at = 0.0
        self.beginning = asyncio.Lock()
        self.followers: set[asyncio.Task[None]] = set()

    def has_room(self, org: str) -> bool:
        """Whether one more file of an organisation can be begun now."""
        return not self.stopping and self.places.has_place(org)

    def file_added(self, file_id: str, work: UnitOfWork) -> None:
        """Have the commit take the lease of a new file, if there is room to begin at once."""
        org = work.context.org
        if self.has_room(org):
            work.take_lease = file_id
            work.after_commit.append(lambda epoch: self.begin(file_id, org, epoch))

    def deleted_somewhere(self) -> None:
        """A file or a folder was deleted: look soon for what is to be removed."""
        self.cleanup_at = 0.0

    def begin(self, file_id: str, org: str, epoch: int | None) -> None:
        """Process a file, with its lease."""
        if epoch is None or file_id in self.tasks:
            return
        task = asyncio.create_task(self.run(file_id, org, Fence(file_id, epoch)))
        self.tasks[file_id] = task
        task.add_done_callback(lambda ended: self.ended(file_id, ended))

    def ended(self, file_id: str, task: asyncio.Task[bool]) -> None:
        """A turn is over. If it took its file further, whoever waits for the place has it now, and
        not only when it is swept again."""
        del self.tasks[file_id]
        if not self.stopping and not task.cancelled() and task.result():
            follower = asyncio.create_task(self.begin_next())
            self.followers.add(follower)
            follower.add_done_callback(self.followers.discard)

    async def begin_next(self) -> None:
        """Begin what waits. What cannot be begun now, the sweeper begins."""
        with contextlib.suppress(StoreUnavailable):
            await self.begin_due()

    async def sweep(self) -> None:
        """Begin what is due and nobody does; remove the texts of files that are gone."""
        await self.clean_up()
        await self.begin_due()

    async def begin_due(self) -> None:
        """Begin what is due and nobody does, as far as there is room."""
        async with self.beginning:
            if self.stopping or not self.places.free:
                return
            limit = FILES_AT_ONCE_MAX * FILES_OF_ORG_AT_ONCE_MAX
            for due in await self.ports.queries.due_files(FILES_OF_ORG_AT_ONCE_MAX, limit):
                if due.id not in self.tasks and self.has_room(due.org):
                    epoch = await self.ports.repository.store.take_lease(due.id)
                    self.begin(due.id, due.org, epoch)
                    await asyncio.sleep(0)  # it takes its place before the next is looked at

    async def clean_up(self) -> None:
        """Remove files whose folders are gone, and texts that no file has, if it is time to look
        for them."""
        now = self.ports.clock.monotonic()
        if now < self.cleanup_at:
            return
        self.cleanup_at = now + CLEANUP_SECONDS
        while orphans := await self.ports.queries.orphans(ORPHANS_AT_ONCE):
            for file in orphans:
                with contextlib.suppress(VersionConflict):
                    await self.deleted(file.id, file.org, None)
        for text_id in await self.ports.texts.unnamed(TEXTS_REMOVED_AT_ONCE):
            await self.ports.texts.remove(text_id)

    async def run(self, file_id: str, org: str, fence: Fence) -> bool:
        """One turn of a file; returns whether that is recorded. A process edge: a bug is logged
        here, once, and the file waits. Where more have begun at the same time than there are
        places, this one waits for its own."""
        try:
            async with self.places.hold(org):
                await self.take_turn(file_id, org, fence)
            return True
        except NoPlace as full:
            log.info("the processing of %s begins later: %s", file_id, full)
        except NewerVersion as unknown:
            log_once(unknown)
        except (StaleLease, VersionConflict):
            log.info("the processing of %s goes on elsewhere", file_id)
        except StoreUnavailable as outage:
            log.warning("the processing of %s is not recorded: %s", file_id, outage)
        finally:
            with contextlib.suppress(StoreUnavailable):
                await self.ports.repository.store.release_lease(fence)
        return False

    async def take_turn(self, file_id: str, org: str, fence: Fence) -> None:
        """Take a file further; one that is gone needs no lease any more."""
        try:
            await self.processed_or_not(file_id, org, fence)
        except FileGone:
            await self.work(org).commit(fence=fence, release_lease=True)

    async def processed_or_not(self, file_id: str, org: str, fence: Fence) -> None:
        """Take a file further, or record why that cannot be done. Raises FileGone."""
        clock = self.ports.clock
        try:
            await self.processed(file_id, org, fence)
        except (Unparsable, EmbeddingRefused) as refused:
            words = str(refused)
            await self.decide(file_id, org, fence, lambda file: file.fail(words, at=clock.now()))
        except UploadGone as gone:
            words = GONE.format(gone)
            await self.decide(file_id, org, fence, lambda file: file.fail(words, at=clock.now()))
        except EmbeddingUnavailable as outage:
            words = str(outage)
            await self.decide(file_id, org, fence, lambda file: file.delay(words, at=clock.now()))
        except (FileGone, *OF_THE_STORE):
            raise
        except Exception:
            log.exception("%s cannot be processed", file_id)
            await self.decide(file_id, org, fence, lambda file: file.delay(A_BUG, at=clock.now()))

    async def processed(self, file_id: str, org: str, fence: Fence) -> None:
        """Take a file further: all the way, or as far as a turn goes. Raises FileGone."""
        work = self.work(org)
        file = (await work.load(File, file_id)).unfinished
        if file is None:
            raise FileGone(file_id)
        folder = (await work.load(Folder, file.folder_id)).present
        if folder is None:
            await self.deleted(file_id, org, fence)
            return
        config = folder.embedding_config
        chunk_size = config.embedding_chunk_size if config else None
        tokens_max = file.chunk_tokens or tokens_for(chunk_size)
        if not file.text_id:
            file = await self.parsed(file_id, org, fence, file, tokens_max)
        if not file.shown and file.status != "completed":
            await self.show(file_id, org, fence, file.folder_id)
        for _ in range(BATCHES_OF_A_TURN):
            if file.status == "completed":
                return
            file = await self.embedded(file_id, org, fence, file, tokens_max)

    async def parsed(
        self, file_id: str, org: str, fence: Fence, file: FileProgress, tokens_max: int
    ) -> FileProgress:
        """Keep the text of a file; a text that is not committed is removed later."""
        text_id = derived_id("text", file_id, str(fence.epoch))
        segments, total = TextSegments(), 0
        uploaded = await self.ports.uploads.opened(org, file_id, file.file_size, file.sha256)

        async def keep(segment: Segment) -> int:
            if segments.chars > TEXT_CHARS_MAX:
                raise Unparsable(TOO_MUCH_TEXT)
            chunks = len(chunks_of(segment, tokens_max))
            if not await self.ports.texts.write(org, file_id, text_id, segment, total, chunks):
                raise FileGone(file_id)
            return chunks

        kind = kind_of(file.original_name, file.file_type)
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
            known.parsed(
                text_id,
                lines=segments.lines,
                chars=segments.chars,
                total_chunks=total,
                chunk_tokens=tokens_max,
                at=at,
            )
            if not total:
                known.complete(at=at)

        return await self.decide(file_id, org, fence, decision)

    async def show(self, file_id: str, org: str, fence: Fence, folder_id: str) -> None:
        """Have the agents that see the folder of a file have it open, a few in each commit."""
        agents = await self.ports.attached.agents_with_folder(org, folder_id, AGENTS_SHOWN_MAX)
        for begin in range(0, len(agents), AGENTS_SHOWN_AT_ONCE):
            some = agents[begin : begin + AGENTS_SHOWN_AT_ONCE]
            shown = begin + len(some)
            await self.shown(file_id, org, fence, some, shown if shown == len(agents) else None)

    async def shown(
        self, file_id: str, org: str, fence: Fence, agents: list[AttachedAgent], total: int | None
    ) -> None:
        """Commit that some agents have a file open, and with the `total` that these are all."""
        for _ in range(CONFLICT_RETRIES_MAX):
            async with self.ports.locks.hold(file_id):
                work, at = self.work(org), self.ports.clock.now()
                file = await work.load(File, file_id)
                if file.unfinished is None:
                    raise FileGone(file_id)
                folder_id = file.state.folder_id
                for one in agents:
                    agent = await work.load(AgentFolders, agent_folders_id(one.agent_id))
                    agent.show(one.agent_id, folder_id, [file_id], files_max=one.files_max, at=at)
                if total is not None:
                    file.show(total, at=at)
                try:
                    await work.commit(fence=fence)
                except VersionConflict:
                    continue
            self.ports.committed()
            return
        raise VersionConflict(file_id)

    async def embedded(
        self,
        file_id: str,
        org: str,
        fence: Fence,
        file: FileProgress,
        tokens_max: int,
    ) -> FileProgress:
        """Embed the next chunks of a file, as its folder is embedded now, and complete it with the
        last of them."""
        folder = (await self.work(org).load(Folder, file.folder_id)).present
        if folder is None:
            await self.deleted(file_id, org, fence)
            raise FileGone(file_id)
        first = file.chunks_embedded
        segment, segment_first = await self.ports.texts.with_chunk(org, file.text_id, first)
        start = first - segment_first
        batch = chunks_of(segment, tokens_max)[start : start + BATCH_CHUNKS]
        embedder = self.ports.embedders.for_config(folder.embedding_config, org, background=True)
        vectors = await embedder.embed([chunk.text for chunk in batch])
        now = (await self.work(org).load(Folder, file.folder_id)).present
        if now is None or now.embedding_config != folder.embedding_config:
            return file  # is embedded by another model now: once more
        chunks = [
            FileChunk(
                id=chunk_id(file_id, number),
                text=chunk.text,
                line=chunk.line,
                vector=packed(vector),
            )
            for number, (chunk, vector) in enumerate(zip(batch, vectors, strict=True), start=first)
        ]

        def decision(known: File) -> None:
            at = self.ports.clock.now()
            if known.state.chunks_embedded != first:
                raise StaleLease(file_id)  # it stood still, and somebody else went on
            known.embedded(chunks, model=embedder.model, dimensions=embedder.dimensions, at=at)
            if known.state.chunks_embedded == known.state.total_chunks:
                known.complete(at=at)

        return await self.decide(file_id, org, fence, decision)

    async def decide(
        self, file_id: str, org: str, fence: Fence, decision: Callable[[File], None]
    ) -> FileProgress:
        """Commit a decision about a file that is there and unfinished; returns what it is then.
        Raises FileGone."""
        for _ in range(CONFLICT_RETRIES_MAX):
            async with self.ports.locks.hold(file_id):
                work = self.work(org)
                file = await work.load(File, file_id)
                if file.unfinished is None:
                    raise FileGone(file_id)
                decision(file)
                after = file.state.model_copy()
                try:
                    await work.commit(fence=fence, release_lease=file.unfinished is None)
                except VersionConflict:
                    continue
            self.ports.committed()
            return after
        raise VersionConflict(file_id)

    async def deleted(self, file_id: str, org: str, fence: Fence | None) -> None:
        """Remove a file whose folder is gone."""
        async with self.ports.locks.hold(file_id):
            work = self.work(org)
            file, at = await work.load(File, file_id), self.ports.clock.now()
            gone = file.present
            if gone is None:
                return
            guard = await work.load(FileName, file_name_id(org, gone.folder_id, gone.name))
            guard.free(gone.name, file_id, at=at)
            file.delete(gone.folder_id, at=at)
            await work.commit(fence=fence, release_lease=fence is not None)
        self.ports.committed()

    def work(self, org: str) -> UnitOfWork:
        """A new decision of this engine."""
        return self.ports.repository.work(Context(self.ports.ids.new("processing"), org=org))

    async def drain(self) -> None:
        """Give all up: another process goes on with them."""
        self.stopping = True
        for followers in (self.followers, self.tasks.values()):
            ending = [*followers]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
