"""The tables that clients and other services read."""

from __future__ import annotations

from libs.eventstore.read_model_rows import Table

BLOCKS = Table("blocks")
PASSAGES = Table("passages", aggregate="owner_id")
ARCHIVES = Table("archives")
ARCHIVE_AGENTS = Table("archive_agents", aggregate="archive_id")
ARCHIVE_REMOVALS = Table("archive_removals")
ARCHIVE_REEMBEDDINGS = Table("archive_reembeddings")
FOLDERS = Table("folders")
FOLDER_REEMBEDDINGS = Table("folder_reembeddings")
FILES = Table("files")
AGENT_FOLDERS = Table("agent_folders", aggregate="owner_id")
OPEN_FILES = Table("open_files", aggregate="owner_id")
READ_MODELS = (
    *(BLOCKS, PASSAGES, ARCHIVES, ARCHIVE_AGENTS, ARCHIVE_REMOVALS, ARCHIVE_REEMBEDDINGS),
    *(FOLDERS, FOLDER_REEMBEDDINGS, FILES, AGENT_FOLDERS, OPEN_FILES),
)
