"""A passage: a text in an archive, found by its meaning and its words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    NOT_FOUND,
    UNPROCESSABLE,
    Event,
    Rejected,
)
from libs.contracts.memory.archives import (
    PASSAGES_INSERTED_MAX,
    Embedding,
    NewPassage,
    PassageCreated,
    PassageDeleted,
)
from libs.contracts.memory.blocks import Cause

PASSAGE_CHARS_MAX = 100_000
TAGS_MAX = 100
TAG_CHARS_MAX = 500


class PassageState(BaseModel):
    """The state of a passage: its archive. Its text is in the read model."""

    archive_id: str = ""
    deleted: bool = False


class Passage(Aggregate[PassageState]):
    """One passage."""

    State = PassageState
    begins_with = (PassageCreated,)

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    @property
    def present(self) -> bool:
        """Whether the passage exists and is not deleted."""
        return self.exists and not self.state.deleted

    def create(
        self,
        wanted: NewPassage,
        archive_id: str,
        embedding: Embedding,
        *,
        at: datetime,
        actor: str,
        cause: Cause | None,
    ) -> Rejected | None:
        """Begin to exist in an archive."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"Passage {self.id} exists already")
        self.record(
            PassageCreated,
            at=at,
            archive_id=archive_id,
            text=wanted.text,
            tags=unlike(wanted.tags),
            metadata=wanted.metadata,
            created_at=wanted.created_at,
            created_by_id=actor,
            embedding=embedding,
            cause=cause,
        )
        return None

    def delete(self, *, at: datetime) -> Rejected | None:
        """Delete the passage, if it exists."""
        if not self.present:
            return missing_passage(self.id)
        self.record(PassageDeleted, at=at, archive_id=self.state.archive_id)
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case PassageCreated():
                self.state.archive_id = event.archive_id
            case PassageDeleted():
                self.state.deleted = True


def unlike(tags: list[str] | None) -> list[str] | None:
    """The tags, each once, in the order in which they came."""
    return None if tags is None else list(dict.fromkeys(tags))


def missing_passage(passage_id: str) -> Rejected:
    """The refusal for a passage that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Passage with id '{passage_id}' not found")


def unfit_passages(passages: Sequence[NewPassage]) -> Rejected | None:
    """Why these cannot be put into an archive together, if so; names the first at fault."""
    if len(passages) > PASSAGES_INSERTED_MAX:
        reason = (
            f"`passages` may have at most {PASSAGES_INSERTED_MAX} items, and has {len(passages)}:"
            " send them in several requests"
        )
        return Rejected(code=UNPROCESSABLE, reason=reason)
    for number, passage in enumerate(passages):
        problem = unfit(passage)
        if problem:
            place = f"`passages[{number}]`: " if len(passages) > 1 else ""
            return Rejected(code=UNPROCESSABLE, reason=place + problem)
    return None


def unfit(passage: NewPassage) -> str | None:
    """Why a text cannot be put into an archive, if so."""
    if not passage.text.strip():
        return "`text` must not be empty: give the words to remember"
    if len(passage.text) > PASSAGE_CHARS_MAX:
        return (
            f"`text` has {len(passage.text)} characters, and a passage may have at most"
            f" {PASSAGE_CHARS_MAX}: split it into several"
        )
    tags = passage.tags or []
    if len(tags) > TAGS_MAX:
        return f"`tags` has {len(tags)} items, and a passage may have at most {TAGS_MAX}"
    if any(not tag.strip() or len(tag) > TAG_CHARS_MAX for tag in tags):
        return f"`tags`: each tag must have 1 to {TAG_CHARS_MAX} characters"
    return None
