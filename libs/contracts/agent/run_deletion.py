"""The language of the agent service about ended runs that are not to be listed any more."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.agent.conversations import RunCommand, RunEvent


class DeleteRun(RunCommand):
    """Forget a run that has ended, with its steps; its messages stay in the history."""

    topic: ClassVar[str] = "run.delete"
    run_id: str


class RunDeleted(RunEvent):
    """A run is not to be found any more, nor are its steps."""

    topic: ClassVar[str] = "run.deleted"
    additive: ClassVar[bool] = True
