"""The language of the agent service about what clients say of steps: feedback and tags."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.agent.conversations import RunCommand, RunEvent
from libs.contracts.bus_messages import JsonObject


class AnnotateStep(RunCommand):
    """Keep what a client says of a step: `feedback`, `tags` or `tid`, those that `changes` has."""

    topic: ClassVar[str] = "step.annotate"
    step_id: str
    changes: JsonObject


class StepAnnotated(RunEvent):
    """A client has said something of a step."""

    topic: ClassVar[str] = "step.annotated"
    additive: ClassVar[bool] = True
    step_id: str
    changes: JsonObject
