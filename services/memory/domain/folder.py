"""A folder, which V1 also calls a source: files that are embedded in the same way."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ValidationError

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    UNPROCESSABLE,
    Event,
    JsonObject,
    Rejected,
)
from libs.contracts.letta.folders import FolderState
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.folders import FolderChanged, FolderCreated, FolderDeleted
from libs.contracts.memory.reembedding import FolderEmbeddingChanged, FolderReembedded
from libs.embeddings.bundled_model_config import bundled_config

FOLDERS_MAX = 10_000  # of an organisation
# What embeds its files changes as a decision of its own.
UNCHANGEABLE = {"id", "organization_id", "created_by_id", "embedding_config"}


class KnownFolderState(BaseModel):
    """The state of a folder."""

    folder: FolderState | None = None
    reembedding: bool = False
    deleted: bool = False


class Folder(Aggregate[KnownFolderState]):
    """One folder."""

    State = KnownFolderState

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    @property
    def present(self) -> FolderState | None:
        """The folder, unless it is gone or was never there."""
        return None if self.state.deleted else self.state.folder

    def create(self, folder: FolderState, *, at: datetime) -> Rejected | None:
        """Create the folder, unless it exists."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"Folder {folder.id} exists already")
        problem = unfit(folder)
        if problem is None:
            self.record(FolderCreated, at=at, folder=folder)
        return problem

    def with_changes(self, changes: JsonObject) -> FolderState | Rejected:
        """The folder as it would be with these fields, or the refusal of them."""
        folder = self.present
        if folder is None:
            return missing(self.id)
        fields = {name: value for name, value in changes.items() if name not in UNCHANGEABLE}
        try:
            after = FolderState.model_validate({**folder.model_dump(), **fields})
        except ValidationError as invalid:
            return Rejected(code=INVALID, reason=f"Folder {self.id}: {invalid.errors()[0]['msg']}")
        return unfit(after) or after

    def become(self, after: FolderState, *, at: datetime) -> None:
        """Have these fields; changing nothing is not an event."""
        before = self.present
        assert before is not None, "only what is there changes"
        old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
        changes = {name: value for name, value in new.items() if old[name] != value}
        if changes.keys() - {"last_updated_by_id"}:
            self.record(FolderChanged, at=at, changes=changes)

    def change_embedding(
        self, config: EmbeddingConfig, *, model: str, dimensions: int, actor: str, at: datetime
    ) -> None:
        """Have files embedded by another model from now on; by the same one is not an event."""
        before = self.present
        assert before is not None, "only what is there changes"
        if before.embedding_config != config:
            self.record(
                FolderEmbeddingChanged,
                at=at,
                embedding_config=config,
                previous_config=before.embedding_config,
                model=model,
                dimensions=dimensions,
                changed_by_id=actor,
            )

    def end_reembedding(self, *, at: datetime) -> None:
        """Every chunk has its vector; said once."""
        if self.present and self.state.reembedding:
            self.record(FolderReembedded, at=at)

    def delete(self, *, at: datetime) -> Rejected | None:
        """Delete the folder, if it exists."""
        if self.present is None:
            return missing(self.id)
        self.record(FolderDeleted, at=at)
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case FolderCreated():
                self.state.folder = event.folder
            case FolderChanged():
                assert self.state.folder is not None, "a folder is created before it changes"
                fields = {**self.state.folder.model_dump(), **event.changes}
                self.state.folder = FolderState.model_validate(fields)
            case FolderEmbeddingChanged():
                assert self.state.folder is not None, "a folder is created before it changes"
                changed = {
                    "embedding_config": event.embedding_config,
                    "last_updated_by_id": event.changed_by_id,
                }
                self.state.folder = self.state.folder.model_copy(update=changed)
                self.state.reembedding = True
            case FolderReembedded():
                self.state.reembedding = False
            case FolderDeleted():
                self.state.deleted = True


def unfit(folder: FolderState) -> Rejected | None:
    """Why a folder cannot be as it is, if so."""
    if not folder.name.strip():
        reason = "`name` must not be empty: give the folder one"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return None


def missing(folder_id: str) -> Rejected:
    """The refusal for a folder that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Folder with ID {folder_id} not found")


def refuse_name(name: str) -> Rejected:
    """The refusal of a name that another folder has."""
    reason = f"A folder with the name '{name}' exists already: choose another `name`"
    return Rejected(code=CONFLICT, reason=reason)


def no_room_for_folder(folders: int) -> Rejected | None:
    """The refusal of one folder too many."""
    if folders < FOLDERS_MAX:
        return None
    reason = f"There are {folders} folders, and at most {FOLDERS_MAX}: delete some first"
    return Rejected(code=CONFLICT, reason=reason)


def folder_config(
    wanted: EmbeddingConfig | None, chunk_size: int | None, model: str, dimensions: int
) -> EmbeddingConfig:
    """The config that a folder has: what is wanted, else that of the server's own model; with what
    is true of the model that embeds."""
    config = wanted or bundled_config(model)
    changes = {"embedding_dim": dimensions}
    if chunk_size is not None:
        changes["embedding_chunk_size"] = chunk_size
    return config.model_copy(update=changes)
