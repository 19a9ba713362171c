"""The language of folders, which V1 also calls sources. Their files are in `files`."""

from __future__ import annotations

from libs.contracts.bus_messages import Command, Event, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.folders import FolderState
from libs.contracts.letta.model_configs import EmbeddingConfig

SERVICE = "memory"


def folder_name_id(org: str, name: str) -> str:
    """The id of the aggregate that guards the name of a folder in an organisation."""
    return derived_id("folder_name", org, name)


class FolderCommand(Command, service=SERVICE):
    """A command about one folder."""

    folder_id: str

    @property
    def target(self) -> str:
        return self.folder_id


class CreateFolder(FolderCommand, topic="folder.create"):
    """Make a folder; a name that another folder of the organisation has is refused.

    Its files are embedded as the config says, else by the server's own model.
    """

    name: str
    description: str | None = None
    instructions: str | None = None
    metadata: JsonObject | None = None
    embedding_chunk_size: int | None = None
    embedding_config: EmbeddingConfig | None = None


class UpdateFolder(FolderCommand, topic="folder.update"):
    """Change the given fields of a folder."""

    changes: JsonObject


class DeleteFolder(FolderCommand, topic="folder.delete"):
    """Remove a folder, and with it all of its files."""


class FolderCreated(Event, service=SERVICE, topic="folder.created"):
    """A folder exists."""

    folder: FolderState


class FolderChanged(Event, service=SERVICE, topic="folder.changed"):
    """Fields of a folder have new values."""

    changes: JsonObject


class FolderDeleted(Event, service=SERVICE, topic="folder.deleted"):
    """A folder is gone; its files follow."""


class FolderNameTaken(Event, service=SERVICE, topic="folder_name.taken"):
    """A folder of an organisation has this name, and no other one may have it."""

    name: str = ""  # as it was before the log kept none
    folder_id: str

    @property
    def about(self) -> str:
        return self.folder_id


class FolderNameFreed(Event, service=SERVICE, topic="folder_name.freed"):
    """No folder has this name any more."""

    name: str = ""  # as it was before the log kept none
    folder_id: str

    @property
    def about(self) -> str:
        return self.folder_id
