"""The language of the files of folders: what is uploaded, and what becomes of it.

A file is uploaded in parts, which never travel on the bus: the api keeps them as rows, and the
memory service reads them from the view `api.upload_part_view`. Its text is rows of the memory
service (`memory.file_text_view`), which the event names; its chunks travel in events with their
vectors, so that a rebuild embeds nothing.
"""

from __future__ import annotations

from datetime import datetime
from operator import not_

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, Value
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.folders import DuplicateHandling

SERVICE = "memory"


def file_name_id(org: str, folder_id: str, name: str) -> str:
    """The id of the aggregate that guards the name of a file in a folder."""
    return derived_id("file_name", org, folder_id, name)


def chunk_id(file_id: str, number: int) -> str:
    """The id of the passage that is a chunk of a file; its first chunk is number 0."""
    return derived_id("passage", file_id, str(number))


class AddFile(Command, service=SERVICE, topic="file.add"):
    """Put an uploaded file into a folder.

    Its parts are kept already, as those of `file_id`. `duplicates` says what becomes of it where
    the folder has a file of that name: it gets a suffix, is not added, is refused, or takes the
    place of the other, unless the upload of that one began later than this one at `begun_at`. The
    result has the `file_id` that the folder has now, and whether the upload was `skipped`. Where it
    `is_text`, its parts are the text of the file, whatever its name and its type say.
    """

    file_id: str
    folder_id: str
    name: str
    file_type: str
    file_size: int
    sha256: str
    duplicates: DuplicateHandling = "suffix"
    begun_at: datetime | None = None
    is_text: bool = Field(default=False, exclude_if=not_)

    @property
    def target(self) -> str:
        return self.folder_id


class DeleteFile(Command, service=SERVICE, topic="file.delete"):
    """Remove a file from a folder, with its text and its chunks."""

    file_id: str
    folder_id: str

    @property
    def target(self) -> str:
        return self.folder_id


class FileNameTaken(Event, service=SERVICE, topic="file_name.taken"):
    """A file of a folder has this name, and no other one may have it."""

    name: str = ""  # as it was before the log kept none
    file_id: str

    @property
    def about(self) -> str:
        return self.file_id


class FileNameFreed(Event, service=SERVICE, topic="file_name.freed"):
    """No file of the folder has this name any more."""

    name: str = ""  # as it was before the log kept none
    file_id: str

    @property
    def about(self) -> str:
        return self.file_id


class FileAdded(Event, service=SERVICE, topic="file.added"):
    """A folder has a file, which is to be parsed and embedded.

    `name` is the one it has there, `original_name` the one it was uploaded by; `folder_name` is
    what the folder was called. Its upload began at `begun_at`, by the clock of the database.
    """

    folder_id: str
    folder_name: str
    name: str
    original_name: str
    file_type: str
    file_size: int
    sha256: str
    begun_at: datetime | None = None
    is_text: bool = Field(default=False, exclude_if=not_)


class FileParsed(Event, service=SERVICE, topic="file.parsed"):
    """The text of a file is kept as rows under `text_id`: so many lines, characters and chunks,
    which have `chunk_tokens` at most."""

    text_id: str
    lines: int
    chars: int
    total_chunks: int
    chunk_tokens: int | None = None


class FileShown(Event, service=SERVICE, topic="file.shown"):
    """The agents that see the folder of a file have it open, as soon as it has a text."""

    agents: int


class FileChunk(Value):
    """A passage of a file: its id, its text, the line that it begins in, and its packed vector."""

    id: str
    text: str
    line: int
    vector: str


class FileChunksEmbedded(Event, service=SERVICE, topic="file.chunks_embedded"):
    """The next chunks of a file are embedded by a model: the first of them is number `first`."""

    folder_id: str
    file_name: str
    first: int
    chunks: list[FileChunk]
    model: str
    dimensions: int


class FileCompleted(Event, service=SERVICE, topic="file.completed"):
    """All chunks of a file can be searched."""


class FileDelayed(Event, service=SERVICE, topic="file.delayed"):
    """A file cannot be processed just now, and is tried again from `due_at` on; `attempts` is how
    often it was tried in vain."""

    attempts: int
    reason: str
    due_at: datetime


class FileFailed(Event, service=SERVICE, topic="file.failed"):
    """A file cannot be used; the reason says what to do about it."""

    reason: str


class FileDeleted(Event, service=SERVICE, topic="file.deleted"):
    """A file is gone, with its text and its chunks."""
