"""Rows of the old server's blocks, passages and files as what the memory service takes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import datetime

from deploy.letta_migration.agents import CHANGED_HERE, embedding_config, fields_of
from deploy.letta_migration.histories import EncodedHistory, History
from deploy.letta_migration.messages import utc
from deploy.letta_migration.progress import BlockProgress, Progress
from deploy.letta_migration.report import Report
from deploy.letta_migration.source import PASSAGE_PAGE_ROWS, LettaDatabase, Row
from deploy.letta_migration.target_versions import NOT_ASKED, TargetVersions
from libs.agent_document.agent_fields import BLOCK_FIELDS
from libs.contracts.agent_file import FileChunk, FileText
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.blocks import BlockState, block_state
from libs.contracts.memory.archives import Embedding, PassageCreated
from libs.contracts.memory.blocks import BlockChanged, BlockCreated
from libs.contracts.state_size_limits import oversize_block
from libs.embeddings.vector_encoding import pack_vector
from services.memory.domain.block import LABEL_CHARS_MAX, LIMIT_CHARS_MAX

UNLABELLED = "block"
# A part of the text of a file that stands in one line.
TEXT_PART_CHARS = 256 << 10


class Blocks:
    """Takes over blocks with the edits that the old server kept."""

    def __init__(
        self,
        database: LettaDatabase,
        org: str,
        progress: Progress,
        report: Report,
        target_versions: TargetVersions,
    ) -> None:
        self.target_versions = target_versions
        self.database = database
        self.org = org
        self.progress = progress
        self.report = report

    def lines(self) -> Iterator[EncodedHistory]:
        """The histories of all blocks that are new or have changed."""
        for row in self.database.rows(
            "block", "organization_id = %s and not is_deleted", [self.org]
        ):
            known = self.progress.block(row["id"])
            history = History("memory", row["id"], known.version)
            too_large = oversize_block(block_state(block_of(row, [])))
            if too_large:
                self.report.leave("block", row["id"], too_large)
                continue
            if self.was_changed_here(row["id"], known, row):
                self.report.leave("block", row["id"], CHANGED_HERE)
                continue
            for at, block in self.versions(row, is_new=known.version == 0):
                fields = block.model_dump(mode="json")
                if history.version == 0:
                    history.add(BlockCreated, at, block=block)
                else:
                    changes = {
                        name: value
                        for name, value in fields.items()
                        if known.fields.get(name) != value
                    }
                    if changes:
                        history.add(BlockChanged, at, changes=changes)
                known.fields = fields
                if history.is_full():
                    yield from history.take(complete=False)
            if known.fields["limit"] != row["limit"] or known.fields["label"] != row["label"]:
                self.report.mend("A block with a value over its limit, or a label that none has")
            if history.version > known.version:
                self.report.count("block")
            yield from history.take(complete=True)
            known.version = history.version
            self.progress.keep_block(row["id"], known)

    def was_changed_here(self, block_id: str, known: BlockProgress, row: Row) -> bool:
        """Whether this server has changed a block since the last pass, where the old one has."""
        now = fitting_block(block_of(row, self.tags(block_id)))
        if known.version == 0 or now.model_dump(mode="json") == known.fields:
            return False
        return self.target_versions.block_version(block_id) not in (NOT_ASKED, known.version)

    def tags(self, block_id: str) -> list[str]:
        """The tags of a block."""
        return sorted(self.database.links("blocks_tags", "tag", block_id, of="block_id"))

    def versions(self, row: Row, *, is_new: bool) -> Iterator[tuple[datetime, BlockState]]:
        """The versions of a block, as far as the old server kept them, each with its time."""
        now = fitting_block(block_of(row, self.tags(row["id"])))
        created = utc(row["created_at"])
        edits = list[Row]()
        if is_new:
            entries = self.database.rows(
                "block_history",
                "block_id = %s and not is_deleted",
                [row["id"]],
                key=("sequence_number", "id"),
            )
            for entry in entries:
                self.report.count("block_history")
                was = {
                    "label": entry["label"],
                    "value": entry["value"],
                    "limit": entry["limit"],
                    "description": entry["description"],
                    "metadata": entry["metadata_"] or {},
                }
                at = utc(entry["created_at"]) if edits else created
                edits.append(entry)
                yield at, fitting_block(now.model_copy(update=was))
        yield (utc(row["updated_at"]) if edits or not is_new else created), now


def fitting_block(block: BlockState) -> BlockState:
    """A block with the limit that its value needs, and with a label that a block may have."""
    label = (block.label or UNLABELLED)[:LABEL_CHARS_MAX]
    limit = min(max(block.limit, len(block.value), 1), LIMIT_CHARS_MAX)
    return block.model_copy(update={"label": label, "limit": limit})


def block_of(row: Row, tags: list[str]) -> BlockState:
    """A block as clients read it."""
    return BlockState.model_validate({**fields_of(row, BLOCK_FIELDS), "tags": tags})


def embedding_of(row: Row) -> Embedding | None:
    """The vector of a passage, without the zeros that the old server fills it up with."""
    config = embedding_config(row["embedding_config"])
    if config is None or row["embedding"] is None:
        return None
    numbers = [float(number) for number in json.loads(str(row["embedding"]))]
    vector = numbers[: config.embedding_dim]
    length = math.sqrt(math.fsum(number * number for number in vector))
    if not vector or length == 0 or any(numbers[config.embedding_dim :]):
        return None
    return Embedding(
        model=config.handle or f"{config.embedding_endpoint_type}/{config.embedding_model}",
        dimensions=len(vector),
        vector=pack_vector([number / length for number in vector]),
    )


class Passages:
    """Takes over the passages of archives, with their vectors."""

    def __init__(
        self, database: LettaDatabase, org: str, progress: Progress, report: Report
    ) -> None:
        self.database = database
        self.org = org
        self.progress = progress
        self.report = report

    def lines(self) -> Iterator[EncodedHistory]:
        """The histories of the passages that are new."""
        for row in self.database.rows(
            "archival_passages",
            "organization_id = %s and not is_deleted",
            [self.org],
            page=PASSAGE_PAGE_ROWS,
        ):
            if not self.progress.is_new("passage", row["id"], ""):
                continue
            embedding = embedding_of(row)
            if embedding is None:
                reason = "it has no vector: insert its text again"
                self.report.leave("archival_passages", row["id"], reason)
                continue
            self.report.count("archival_passages")
            created = utc(row["created_at"])
            history = History("memory", row["id"])
            history.add(
                PassageCreated,
                utc(row["updated_at"] or row["created_at"]),
                archive_id=row["archive_id"],
                text=row["text"],
                tags=row["tags"],
                metadata=row["metadata_"] or {},
                created_at=created,
                created_by_id=row["_created_by_id"],
                embedding=embedding,
            )
            yield from history.take(complete=True)


class Files:
    """Takes over the files of folders: their texts, which are cut into chunks and embedded here."""

    def __init__(
        self, database: LettaDatabase, org: str, progress: Progress, report: Report
    ) -> None:
        self.database = database
        self.org = org
        self.progress = progress
        self.report = report

    def lines(self) -> Iterator[FileText]:
        """The texts of the files that are new."""
        for row in self.database.rows(
            "files", "organization_id = %s and not is_deleted", [self.org]
        ):
            if row["processing_status"] != "completed":
                reason = f"it is `{row['processing_status']}`: upload it again"
                self.report.leave("files", row["id"], reason)
                continue
            if self.progress.is_new("file", row["id"], ""):
                yield from self.text_of(row)

    def text_of(self, row: Row) -> Iterator[FileText]:
        """The text of a file, in so many parts as it takes."""
        kept = next(
            self.database.rows("file_contents", "file_id = %s", [row["id"]], key=("id",)), None
        )
        text = kept["text"] if kept else ""
        if not text:
            reason = "the old server has kept no text of it: upload it again"
            self.report.leave("files", row["id"], reason)
            return
        self.report.count("files")
        self.report.count("file_contents")
        parts = range(0, len(text), TEXT_PART_CHARS)
        for number, start in enumerate(parts):
            yield FileText(
                file_id=row["id"],
                folder_id=row["source_id"],
                number=number,
                value={} if number else file_fields(row, text, len(parts)),
                chunks=(FileChunk(text=text[start : start + TEXT_PART_CHARS]),),
            )


def file_fields(row: Row, text: str, parts: int) -> JsonObject:
    """The fields of a file besides its text, which is in so many parts."""
    return {
        "name": name_in_folder(row),
        "original_name": row["original_file_name"] or name_in_folder(row),
        "file_type": row["file_type"] or "text/plain",
        "file_size": row["file_size"] or len(text.encode()),
        "parts": parts,
    }


def name_in_folder(row: Row) -> str:
    """The name of a file, without that of its folder, which the old server puts before it."""
    name = str(row["file_name"] or row["original_file_name"] or row["id"])
    return name.partition("/")[2] or name
