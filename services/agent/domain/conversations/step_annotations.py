"""What clients say of steps."""

from __future__ import annotations

from datetime import datetime

from libs.contracts.agent.steps import AnnotateStep, StepAnnotated
from services.agent.domain.conversations.conversation import Conversation


def annotate_step(
    conversation: Conversation, command: AnnotateStep, *, run_id: str, at: datetime
) -> None:
    """Keep what a client says of a step of this run."""
    conversation.happened(
        StepAnnotated, at=at, run_id=run_id, step_id=command.step_id, changes=command.changes
    )
