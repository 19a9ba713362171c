"""What looks at everybody again and again, with nobody asking, is listed here (R43): a new look
has to say why it reads the same however much there is."""

from __future__ import annotations

import math
from importlib import import_module
from inspect import isabstract
from typing import Any

from libs.contracts.service_registry import names
from libs.work.reconciliation import Reconciliation

# All others look at suspects alone once their process has started.
LOOKS_BY_THE_CLOCK = {
    "OrphanedChunks": "asks the bus what it keeps, and Postgres for these runs by their keys",
    "UndoUnfinishedCreations": "reads the log behind its position",
    "ClearDeletedProjects": "reads projects that were deleted and are not cleared yet",
    "EndEmptyDeployments": "reads deployments that were undone",
    "ForgetImports": "reads imports of which nothing came, which are forgotten after a while",
    "EmptyDeletedArchives": "reads archives that were deleted and are not empty yet",
    "RemoveUnnamedTexts": "reads texts of the last hours",
    "WorkspaceCleanup": "lists folders, and asks Postgres if the log of agents went on",
    "EnableWantedSleeptime": "reads agents that want sleeptime, which few do",
}


def kinds(kind: type[Any]) -> set[type[Any]]:
    """All subclasses that there are."""
    return {found for child in kind.__subclasses__() for found in {child, *kinds(child)}}


def test_nobody_looks_at_everybody_by_the_clock_but_those_that_read_what_is_due() -> None:
    for name in names():
        import_module(f"services.{name}.app")
    ours = [each for each in kinds(Reconciliation) if each.__module__.startswith("services.")]
    assert len(ours) > 15
    looking = {each.__name__ for each in ours if math.isfinite(each.every_seconds)}
    assert looking == {*LOOKS_BY_THE_CLOCK}
    assert not any(isabstract(each) for each in ours if each.__name__ in looking)
