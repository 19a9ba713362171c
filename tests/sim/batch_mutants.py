"""Planted bugs about batches."""

from __future__ import annotations

from typing import Any

from libs.contracts.agent.batches import BatchItem
from services.agent.domain.batches.batch import Batch
from services.agent.engine.batches import Batches
from tests.sim.mutants import Patch, mutant


@mutant("The run of an item has another id each time it is tried.")
def batch_item_runs_again() -> list[Patch]:
    real = Batches.start_run

    async def start_run(batches: Batches, batch: Batch, item: BatchItem) -> Any:
        fresh = item.run.model_copy(update={"id": batches.ports.ids.new("run")})
        return await real(batches, batch, item.model_copy(update={"run": fresh}))

    return [(Batches, "start_run", start_run)]


@mutant("Nobody carries on with a batch whose process has died.")
def batch_left_behind() -> list[Patch]:
    async def due(_: Batches) -> list[Any]:
        return []

    return [(Batches, "due", due)]


@mutant("The conversation that was made for an item stays.")
def batch_leaves_conversations() -> list[Patch]:
    async def remove_conversations(*_: Any) -> None:
        """Remove nothing."""

    return [(Batches, "remove_conversations", remove_conversations)]
