"""The bytes and the texts of files in the simulated world: what the SQL of the services does to
rows that are no read models, statement by statement."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from libs.eventstore.in_memory_database import InMemoryDatabase
from services.api.adapters.memory import uploaded_file_store
from services.memory.adapters import file_processing_queries, file_texts, uploaded_files
from tests.unit.given import NOW

Row = tuple[Any, ...]


@dataclass(slots=True)
class UploadRow:
    """A row of `api.uploads`; `seen_at` is None for one that was given up."""

    org: str
    bytes: int = 0
    complete: bool = False
    seen_at: float | None = 0.0


@dataclass(slots=True)
class FileRows:
    """All rows."""

    database: InMemoryDatabase
    uploads: dict[str, UploadRow] = field(default_factory=dict)
    parts: dict[tuple[str, int], bytes] = field(default_factory=dict)
    texts: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)

    @property
    def now(self) -> float:
        return self.database.clock()

    def file(self, file_id: str) -> Any:
        """The row of a file, if it is there."""
        return self.database.schema("memory").tables.get("files", {}).get((file_id,))

    # Uploads

    def begin(self, asked: Any) -> list[Row]:
        file_id, org = asked
        if file_id in self.uploads:
            return []
        self.uploads[file_id] = UploadRow(org, seen_at=self.now)
        return [(NOW + timedelta(seconds=self.now),)]

    def used(self, asked: Any) -> list[Row]:
        return [(0,)]

    def alive(self, file_id: str) -> UploadRow | None:
        """An upload to which something may be added."""
        row = self.uploads.get(file_id)
        return row if row and row.seen_at is not None else None

    def add_part(self, asked: Any) -> list[Row]:
        row = self.alive(asked["file"])
        if row is None:
            return []
        row.seen_at, row.bytes = self.now, asked["bytes"]
        self.parts[asked["file"], asked["number"]] = bytes(asked["data"])
        return [(asked["number"],)]

    def complete(self, asked: Any) -> list[Row]:
        row = self.alive(asked[0])
        if row is None:
            return []
        row.seen_at, row.complete = self.now, True
        return [(asked[0],)]

    def give_up(self, asked: Any) -> list[Row]:
        if asked[0] in self.uploads:
            self.uploads[asked[0]].seen_at, self.uploads[asked[0]].complete = None, False
        return []

    def done(self, asked: Any) -> list[Row]:
        found = [upload for upload in self.uploads if self.is_done(upload, asked)]
        return [(file_id,) for file_id in found[: asked["limit"]]]

    def is_done(self, file_id: str, asked: Any) -> bool:
        """Whether nobody adds to an upload, or reads it, any more."""
        row, file = self.uploads[file_id], self.file(file_id)
        age = float("inf") if row.seen_at is None else self.now - row.seen_at
        waits = file is not None and file["text_id"] is None
        if not row.complete:
            return age > asked["seconds"]
        return age > asked["added"] and not (waits and file["status"] not in ("completed", "error"))

    def delete_parts(self, asked: Any) -> list[Row]:
        keys = [key for key in self.parts if key[0] == asked["file"]][: asked["limit"]]
        for key in keys:
            del self.parts[key]
        return [(number,) for _, number in keys]

    def delete(self, asked: Any) -> list[Row]:
        self.uploads.pop(asked[0], None)
        return []

    def read_part(self, asked: Any) -> list[Row]:
        data = self.parts.get((asked["file"], asked["number"]))
        return [] if data is None else [(data,)]

    # Texts

    def wants_text(self, file_id: str) -> bool:
        """Whether a file is there, and has no text yet."""
        file = self.file(file_id)
        return file is not None and file["text_id"] is None

    def insert_text(self, asked: Any) -> list[Row]:
        if not self.wants_text(asked["file"]):
            return []
        key = asked["text"], asked["number"]
        assert key not in self.texts, "a segment is written once"
        self.texts[key] = {**asked, "written_at": self.now}
        return [(asked["number"],)]

    def with_chunk(self, asked: Any) -> list[Row]:
        text, chunk = asked["text"], asked["chunk"]
        found = [
            row
            for row in self.texts.values()
            if row["text"] == text and row["chunks"] and row["first_chunk"] <= chunk
        ]
        row = max(found, key=lambda row: row["first_chunk"])
        names = ("number", "first_line", "last_line", "words", "first_chunk")
        return [tuple(row[name] for name in names)]

    def unnamed_texts(self, asked: Any) -> list[Row]:
        found = [
            row["text"]
            for row in self.texts.values()
            if row["number"] == 0 and self.is_unnamed(row, asked["seconds"])
        ]
        return [(text_id,) for text_id in found[: asked["limit"]]]

    def is_unnamed(self, row: dict[str, Any], seconds: float) -> bool:
        """Whether nobody has a text, or will."""
        file = self.file(row["file"])
        if file is None:
            return True
        return file["text_id"] != row["text"] and self.now - row["written_at"] > seconds

    def delete_text(self, asked: Any) -> list[Row]:
        keys = sorted((key for key in self.texts if key[0] == asked["text"]), reverse=True)
        for key in keys[: asked["limit"]]:
            del self.texts[key]
        return [(number,) for _, number in keys[: asked["limit"]]]

    # Files

    def due_files(self, asked: Any) -> list[Row]:
        memory = self.database.schema("memory")
        now = NOW + timedelta(seconds=self.now)
        latest = now + timedelta(seconds=asked["seconds_max"])
        rows: list[Any] = [
            row
            for row in memory.rows("files")
            if row["status"] not in ("completed", "error")
            and not now < datetime.fromisoformat(str(row["due_at"])) <= latest
            and not ((lease := memory.leases.get(str(row["id"]))) and lease.expires_at > self.now)
        ]
        rows.sort(key=lambda row: (row["due_at"], row["id"]))
        return [(row["id"], row["org"]) for row in rows[: asked["of_org"]]][: asked["limit"]]

    def orphans(self, asked: Any) -> list[Row]:
        memory = self.database.schema("memory")
        folders = {row["id"] for row in memory.rows("folders")}
        rows = [row for row in memory.rows("files") if row["folder_id"] not in folders]
        return [(row["id"], row["org"]) for row in rows[: asked["limit"]]]


# Which method does what a statement does.
READS: dict[str, str] = {
    uploaded_file_store.USED: "used",
    uploaded_file_store.DONE: "done",
    uploaded_files.PART: "read_part",
    file_texts.WITH_CHUNK: "with_chunk",
    file_texts.UNNAMED: "unnamed_texts",
    file_texts.RECENTLY_UNNAMED: "unnamed_texts",
    file_processing_queries.DUE_FILES: "due_files",
    file_processing_queries.ORPHANS: "orphans",
}
WRITES: dict[str, str] = {
    uploaded_file_store.BEGIN: "begin",
    uploaded_file_store.PART: "add_part",
    uploaded_file_store.COMPLETE: "complete",
    uploaded_file_store.GIVE_UP: "give_up",
    uploaded_file_store.DELETE_PARTS: "delete_parts",
    uploaded_file_store.DELETE: "delete",
    file_texts.INSERT: "insert_text",
    file_texts.DELETE: "delete_text",
}
