"""The language of the agent service about runs that are answered otherwise than their agent is set
up."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.agent.conversations import RunEvent, StartRun
from libs.contracts.agent.run_options import RunOptions


class StartRunWithOptions(StartRun):
    """Answer these messages by its `options`."""

    topic: ClassVar[str] = "run.start_with_options"


class RunOptionsSet(RunEvent):
    """A run that was accepted goes by these options."""

    topic: ClassVar[str] = "run.options_set"
    options: RunOptions
