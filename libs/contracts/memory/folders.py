"""The language of folders, which V1 also calls sources. Their files are in `files`."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.bus_messages import Command, Event, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.folders import FolderState
from libs.contracts.letta.model_configs import EmbeddingConfig

SERVICE = "memory"


def folder_name_id(org: str, name: str) -> str:
    """The id of the aggregate that guards the name of a folder in an organisation."""
    return derived_id("folder_name", org, name)


class CreateFolder(Command):
    """Make a folder; a name that another folder of the organisation has is refused.

    Its files are embedded as the config says, else by the server's own model.
    """

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "folder.create"
    folder_id: str
    name: str
    description: str | None = None
    instructions: str | None = None
    metadata: JsonObject | None = None
    embedding_chunk_size: int | None = None
    embedding_config: EmbeddingConfig | None = None

    @property
    def target(self) -> str:
        return self.folder_id


class UpdateFolder(Command):
    """Change the given fields of a folder."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "folder.update"
    folder_id: str
    changes: JsonObject

    @property
    def target(self) -> str:
        return self.folder_id


class DeleteFolder(Command):
    """Remove a folder, and with it all of its files."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "folder.delete"
    folder_id: str

    @property
    def target(self) -> str:
        return self.folder_id


class FolderCreated(Event):
    """A folder exists."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "folder.created"
    folder: FolderState


class FolderChanged(Event):
    """Fields of a folder have new values."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "folder.changed"
    changes: JsonObject


class FolderDeleted(Event):
    """A folder is gone; its files follow."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "folder.deleted"


class FolderNameTaken(Event):
    """A folder of an organisation has this name, and no other one may have it."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "folder_name.taken"
    name: str = ""  # as it was before the log kept none
    folder_id: str

    @property
    def about(self) -> str:
        return self.folder_id


class FolderNameFreed(Event):
    """No folder has this name any more."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "folder_name.freed"
    name: str = ""  # as it was before the log kept none
    folder_id: str

    @property
    def about(self) -> str:
        return self.folder_id
