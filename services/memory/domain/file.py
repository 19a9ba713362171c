"""A file of a folder, from its upload to the moment that all of its chunks can be searched."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Event, Rejected
from libs.contracts.letta.folders import FileStatus, FolderState
from libs.contracts.memory.files import (
    AddFile,
    FileAdded,
    FileChunk,
    FileChunksEmbedded,
    FileCompleted,
    FileDelayed,
    FileDeleted,
    FileFailed,
    FileParsed,
    FileShown,
)
from libs.contracts.memory.reembedding import ChunkVector, FileChunksReembedded

FILES_MAX = 10_000  # of a folder
SAME_NAME_MAX = 1_000
# What passes by itself is waited for so long altogether; then the file has failed.
ATTEMPTS_MAX = 40
DELAY_SECONDS = 5.0
DELAY_SECONDS_MAX = 600.0
REASON_CHARS_MAX = 2_000
# Events with chunks are large: a snapshot spares reading them again.
SNAPSHOT_EVERY_CHUNK_EVENTS = 20


KIND_OF_ENDING = {
    "pdf": "pdf",
    "html": "html",
    "htm": "html",
    "docx": "docx",
    "xlsx": "xlsx",
    "pptx": "pptx",
}
KIND_OF_TYPE = {
    "application/pdf": "pdf",
    "text/html": "html",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
}


class FileProgress(BaseModel):
    """The state of a file, without its text and its chunks."""

    folder_id: str = ""
    folder_name: str = ""
    name: str = ""
    original_name: str = ""
    file_type: str = ""
    file_size: int = 0
    sha256: str = ""
    begun_at: datetime | None = None
    is_text: bool = False
    status: FileStatus = "pending"
    text_id: str = ""
    shown: bool = False
    total_chunks: int = 0
    chunk_tokens: int | None = None  # those of the folder when it was parsed
    chunks_embedded: int = 0
    attempts: int = 0
    deleted: bool = False


class File(Aggregate[FileProgress]):
    """One file."""

    State = FileProgress

    @property
    def snapshot_every_events(self) -> int:
        """After how many events a snapshot is worth its cost."""
        return SNAPSHOT_EVERY_CHUNK_EVENTS

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    @property
    def present(self) -> FileProgress | None:
        """The file, unless it is gone or was never there."""
        return self.state if self.exists and not self.state.deleted else None

    @property
    def unfinished_file(self) -> FileProgress | None:
        """The file, if it is still to be parsed or embedded."""
        file = self.present
        return None if file is None or file.status in ("completed", "error") else file

    def begun_after(self, command: AddFile) -> bool:
        """Whether its upload began later than another one, as far as both are known."""
        mine, other = self.state.begun_at, command.begun_at
        return mine is not None and other is not None and mine > other

    def add(
        self, command: AddFile, folder: FolderState, name: str, *, at: datetime
    ) -> Rejected | None:
        """Begin to exist, under a name that the folder has no other file of."""
        if self.exists:
            return added_already(self.id)
        self.record(
            FileAdded,
            at=at,
            folder_id=folder.id,
            folder_name=folder.name,
            name=name,
            original_name=command.name,
            file_type=command.file_type,
            file_size=command.file_size,
            sha256=command.sha256,
            begun_at=command.begun_at,
            is_text=command.is_text,
        )
        return None

    def record_parsed(
        self,
        text_id: str,
        *,
        lines: int,
        chars: int,
        total_chunks: int,
        chunk_tokens: int,
        at: datetime,
    ) -> None:
        """Record the parsed text, in `total_chunks` chunks of up to `chunk_tokens` tokens."""
        assert not self.state.text_id, "a file is parsed once"
        self.record(
            FileParsed,
            at=at,
            text_id=text_id,
            lines=lines,
            chars=chars,
            total_chunks=total_chunks,
            chunk_tokens=chunk_tokens,
        )

    def show(self, agents: int, *, at: datetime) -> None:
        """Record that the file was opened for this number of agents. Safe to repeat."""
        assert self.state.text_id, "a file is parsed before it is shown"
        if not self.state.shown:
            self.record(FileShown, at=at, agents=agents)

    def record_embedded(
        self, chunks: list[FileChunk], *, model: str, dimensions: int, at: datetime
    ) -> None:
        """Record the next chunks with the vectors that a model gave them."""
        assert self.state.text_id, "a file is parsed before it is embedded"
        self.record(
            FileChunksEmbedded,
            at=at,
            folder_id=self.state.folder_id,
            file_name=f"{self.state.folder_name}/{self.state.name}",
            first=self.state.chunks_embedded,
            chunks=chunks,
            model=model,
            dimensions=dimensions,
        )

    def record_reembedded(
        self, chunks: list[ChunkVector], *, model: str, dimensions: int, at: datetime
    ) -> None:
        """Record the vectors of another model for some chunks, unless the file was deleted."""
        if self.present:
            self.record(
                FileChunksReembedded, at=at, model=model, dimensions=dimensions, chunks=chunks
            )

    def complete(self, *, at: datetime) -> None:
        """Be searchable as a whole."""
        assert self.unfinished_file, "only what is being processed is completed"
        assert self.state.chunks_embedded == self.state.total_chunks, "all chunks are embedded"
        self.record(FileCompleted, at=at)

    def delay(self, reason: str, *, at: datetime) -> None:
        """Wait for what passes by itself, the longer the more often that was in vain; in the end,
        fail."""
        if self.unfinished_file is None:
            return
        attempts = self.state.attempts + 1
        if attempts >= ATTEMPTS_MAX:
            words = f"{reason} (tried {attempts} times): delete the file and upload it again"
            return self.fail(words, at=at)
        seconds = min(DELAY_SECONDS * 2 ** min(attempts - 1, 20), DELAY_SECONDS_MAX)
        due_at = at + timedelta(seconds=seconds)
        reason = reason[:REASON_CHARS_MAX]
        self.record(FileDelayed, at=at, attempts=attempts, reason=reason, due_at=due_at)
        return None

    def fail(self, reason: str, *, at: datetime) -> None:
        """Be of no use; the reason says what to do about it."""
        if self.unfinished_file is not None:
            self.record(FileFailed, at=at, reason=reason[:REASON_CHARS_MAX])

    def delete(self, folder_id: str, *, at: datetime) -> Rejected | None:
        """Delete the file, if it exists."""
        file = self.present
        if file is None or file.folder_id != folder_id:
            return missing(self.id, folder_id)
        self.record(FileDeleted, at=at)
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case FileAdded():
                state.folder_id, state.folder_name = event.folder_id, event.folder_name
                state.name, state.original_name = event.name, event.original_name
                state.file_type, state.file_size = event.file_type, event.file_size
                state.sha256, state.begun_at = event.sha256, event.begun_at
                state.is_text = event.is_text
                state.status = "parsing"
            case FileParsed():
                state.text_id, state.total_chunks = event.text_id, event.total_chunks
                state.chunk_tokens = event.chunk_tokens
                state.status, state.attempts = "embedding", 0
            case FileShown():
                state.shown = True
            case FileChunksEmbedded():
                state.chunks_embedded = event.first + len(event.chunks)
                state.status, state.attempts = "embedding", 0
            case FileChunksReembedded():
                pass  # as many as before
            case FileDelayed():
                state.status, state.attempts = "pending", event.attempts
            case FileCompleted():
                state.status = "completed"
            case FileFailed():
                state.status = "error"
            case FileDeleted():
                state.deleted = True


def missing(file_id: str, folder_id: str) -> Rejected:
    """The refusal for a file that is not in a folder."""
    reason = f"File with ID {file_id} not found in folder {folder_id}"
    return Rejected(code=NOT_FOUND, reason=reason)


def added_already(file_id: str) -> Rejected:
    """The refusal of a file that was added before."""
    return Rejected(code=CONFLICT, reason=f"File {file_id} exists already")


def present_already(name: str, folder_name: str) -> Rejected:
    """The refusal of a file whose name another one has."""
    reason = (
        f"File '{name}' already exists in folder '{folder_name}': give it another `name`, or say"
        " `duplicate_handling` suffix, skip or replace"
    )
    return Rejected(code=CONFLICT, reason=reason)


def no_room_for_file(files: int, folder_name: str) -> Rejected | None:
    """The refusal of one file too many."""
    if files < FILES_MAX:
        return None
    reason = (
        f"Folder '{folder_name}' has {files} files, and at most {FILES_MAX}:"
        " delete some first, or use another folder"
    )
    return Rejected(code=CONFLICT, reason=reason)


def with_suffix(name: str, number: int) -> str:
    """The name of a file with a number before its ending."""
    base, dot, ending = name.rpartition(".")
    return f"{base}_({number}).{ending}" if dot and base else f"{name}_({number})"


def kind_of(file: FileProgress) -> str:
    """The kind of a file: one of `file_parsing`, mostly text."""
    if file.is_text:
        return "text"
    ending = file.original_name.rpartition(".")[2].lower()
    return KIND_OF_TYPE.get(file.file_type) or KIND_OF_ENDING.get(ending, "text")
