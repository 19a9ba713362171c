"""Which histories of blocks, archives and passages may come from outside, and what they
must amount to."""

from __future__ import annotations

from typing import Any

from libs.bus.appended_histories import Appendable
from libs.contracts.memory.archives import ArchiveChanged, ArchiveCreated, PassageCreated
from libs.contracts.memory.blocks import BlockChanged, BlockCreated
from libs.contracts.memory.reembedding import PassageEmbedded
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.domain.archive import Archive, unfit_name
from services.memory.domain.block import Block, unfit
from services.memory.domain.passage import Passage


async def check_block(block: Block, work: UnitOfWork) -> str | None:
    """What is wrong with a block that came from outside."""
    if block.present is None:
        return "it is no block in the end"
    problem = unfit(block.present)
    return problem.reason if problem else None


async def check_archive(archive: Archive, work: UnitOfWork) -> str | None:
    """What is wrong with an archive that came from outside."""
    if archive.state.reembedding:
        return "its passages are being embedded by another model"
    if archive.state.agent_ids:
        return "agents are attached to it when they are there"
    problem = unfit_name(archive.state.name)
    return problem.reason if problem else None


async def check_passage(passage: Passage, work: UnitOfWork) -> str | None:
    """What is wrong with a passage that came from outside: its archive is there."""
    archive = await work.load(Archive, passage.state.archive_id)
    return None if archive.present else f"archive {archive.id} is not there"


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
            check=check_passage,
            delete=lambda passage, at: passage.delete(at=at),
        ),
    )
