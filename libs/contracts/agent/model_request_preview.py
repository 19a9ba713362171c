"""The language of the agent service about looking at what a model would be asked."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.agent.conversations import Message, RunCommand
from libs.contracts.letta.runs import RunConfig


class PreviewModelRequest(RunCommand):
    """Say what the model would be asked for these messages; nothing changes."""

    topic: ClassVar[str] = "model_request.preview"
    keeps_reply: ClassVar[bool] = False
    run: RunConfig
    messages: list[Message]
