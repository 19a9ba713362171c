"""Which histories of blocks, passages and an agent's folders may come from outside, and what they
must amount to."""

from __future__ import annotations

from typing import Any

from libs.bus.appended_histories import Appendable
from libs.contracts.memory.archives import PassageCreated
from libs.contracts.memory.blocks import BlockChanged, BlockCreated
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.domain.archive import Archive
from services.memory.domain.block import Block, unfit
from services.memory.domain.passage import Passage


async def check_block(block: Block, work: UnitOfWork) -> str | None:
    """What is wrong with a block that came from outside."""
    if block.present is None:
        return "it is no block in the end"
    problem = unfit(block.present)
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
            kind=Passage,
            begins_with=(PassageCreated,),
            events=(PassageCreated,),
            check=check_passage,
            delete=lambda passage, at: passage.delete(at=at),
        ),
    )
