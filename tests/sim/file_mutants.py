"""Planted bugs about uploads and files."""

from __future__ import annotations

from typing import Any

from services.memory.domain.file import File
from services.memory.engine.file_processing import FileProcessing
from services.memory.policies.deleted_files import DeleteFilesOfDeletedFolders, RemoveUnnamedTexts
from tests.sim.file_rows import FileRows, UploadRow
from tests.sim.mutants import Patch, mutant


@mutant("Nobody goes on with a file whose process died.")
def lost_files_stay() -> list[Patch]:
    async def sweep(processing: Any) -> None:
        """Look for nothing."""

    return [(FileProcessing, "sweep", sweep)]


@mutant("Files of folders that are gone, and texts of files that are, are not removed.")
def nothing_cleaned_up() -> list[Patch]:
    async def sweep(_: Any) -> None:
        """Look for nothing."""

    return [(kind, "sweep", sweep) for kind in (DeleteFilesOfDeletedFolders, RemoveUnnamedTexts)]


@mutant("The text of a file that was just deleted is written on.")
def text_of_deleted_file() -> list[Patch]:
    return [(FileRows, "wants_text", lambda rows, file_id: True)]


@mutant("An upload that was given up goes on.")
def given_up_upload_goes_on() -> list[Patch]:
    def alive(rows: FileRows, file_id: str) -> UploadRow:
        return rows.uploads.get(file_id) or UploadRow("")

    return [(FileRows, "alive", alive)]


@mutant("A try of an upload that its client gave up replaces what its retry put there.")
def late_try_replaces() -> list[Patch]:
    return [(File, "begun_after", lambda file, command: False)]
