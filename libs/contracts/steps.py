"""The language of the agent service about steps and runs that are over: what clients say of them,
and that they are not to be listed any more."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.bus_messages import JsonObject
from libs.contracts.conversation import RunCommand, RunEvent


class AnnotateStep(RunCommand):
    """Keep what a client says of a step: `feedback`, `tags` or `tid`, those that `changes` has."""

    topic: ClassVar[str] = "step.annotate"
    step_id: str
    changes: JsonObject


class DeleteRun(RunCommand):
    """Forget a run that has ended, with its steps; its messages stay in the history."""

    topic: ClassVar[str] = "run.delete"
    run_id: str


class StepAnnotated(RunEvent):
    """A client has said something of a step."""

    topic: ClassVar[str] = "step.annotated"
    additive: ClassVar[bool] = True
    step_id: str
    changes: JsonObject


class RunDeleted(RunEvent):
    """A run is not to be found any more, nor are its steps."""

    topic: ClassVar[str] = "run.deleted"
    additive: ClassVar[bool] = True
