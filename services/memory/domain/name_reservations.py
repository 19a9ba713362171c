"""The names of folders in an organisation, and of files in a folder."""

from __future__ import annotations

from libs.contracts.memory.files import FileNameFreed, FileNameTaken
from libs.contracts.memory.folders import FolderNameFreed, FolderNameTaken
from libs.contracts.unique_names import UniqueName


class FolderName(UniqueName):
    """The name of a folder: one folder of an organisation has it at a time."""

    taken, freed, owner_field = FolderNameTaken, FolderNameFreed, "folder_id"


class FileName(UniqueName):
    """The name of a file: one file of a folder has it at a time."""

    taken, freed, owner_field = FileNameTaken, FileNameFreed, "file_id"
