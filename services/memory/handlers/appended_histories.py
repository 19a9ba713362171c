"""Which histories of blocks, archives and passages may come from outside, and what they
must amount to."""

from __future__ import annotations

from math import isfinite
from typing import Any

from libs.bus.appended_histories import Appendable
from libs.contracts.bus_messages import Event
from libs.contracts.memory.archives import (
    ArchiveChanged,
    ArchiveCreated,
    NewPassage,
    PassageCreated,
)
from libs.contracts.memory.blocks import BlockChanged, BlockCreated
from libs.contracts.memory.reembedding import PassageEmbedded
from libs.embeddings.vector_encoding import unpack_vector
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.domain.archive import Archive, unfit_name
from services.memory.domain.block import Block, unfit
from services.memory.domain.passage import Passage
from services.memory.domain.passage import unfit as unfit_text

DIMENSIONS_MAX = 16_000  # what a vector of Postgres can have


async def check_block(block: Block, work: UnitOfWork) -> str | None:
    """The problem with an imported block, if any."""
    if block.present is None:
        return "it is no block in the end"
    problem = unfit(block.present)
    return problem.reason if problem else None


async def check_archive(archive: Archive, work: UnitOfWork) -> str | None:
    """The problem with an imported archive, if any."""
    if archive.state.reembedding:
        return "its passages are being embedded by another model"
    if archive.state.agent_ids:
        return "agents are attached to it when they are there"
    problem = unfit_name(archive.state.name)
    return problem.reason if problem else None


async def check_passage(passage: Passage, work: UnitOfWork) -> str | None:
    """The problem with an imported passage whose archive is not there."""
    archive = await work.load(Archive, passage.state.archive_id)
    return None if archive.present else f"archive {archive.id} is not there"


def with_sound_embedding(event: Event) -> Event:
    """An event of a passage whose text and vector can be kept. Raises ValueError for another."""
    if isinstance(event, PassageCreated):
        problem = unfit_text(NewPassage(id=event.originator_id, text=event.text, tags=event.tags))
        if problem:
            raise ValueError(problem)
    if isinstance(event, PassageCreated | PassageEmbedded):
        numbers = unpack_vector(event.embedding.vector)
        if len(numbers) != event.embedding.dimensions or len(numbers) > DIMENSIONS_MAX:
            raise ValueError(f"`embedding.vector` has {len(numbers)} numbers")
        if not all(map(isfinite, numbers)):
            raise ValueError("`embedding.vector` has what is no number")
    return event


def appendable() -> tuple[Appendable[Any], ...]:
    """The kinds of this service."""
    return (
        Appendable(
            kind=Block,
            begins_with=(BlockCreated,),
            events=(BlockCreated, BlockChanged),
            check=check_block,
            delete=lambda block, at: block.delete(at=at),
        ),
        Appendable(
            kind=Archive,
            begins_with=(ArchiveCreated,),
            events=(ArchiveCreated, ArchiveChanged),
            check=check_archive,
            delete=lambda archive, at: archive.delete(at=at),
        ),
        Appendable(
            kind=Passage,
            begins_with=(PassageCreated,),
            events=(PassageCreated, PassageEmbedded),
            as_recorded=with_sound_embedding,
            check=check_passage,
            delete=lambda passage, at: passage.delete(at=at),
        ),
    )
