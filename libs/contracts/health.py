"""What one may ask of a service about itself: the way of every command, there and back."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts import agent, memory
from libs.contracts.message import COMMANDS, Command

CHECK = "health.check"


class CheckHealth(Command):
    """Write something, and say how far behind the service is. Who asks has an id of its own."""

    keeps_reply: ClassVar[bool] = False
    asker: str

    @property
    def target(self) -> str:
        return self.asker


class CheckAgentHealth(CheckHealth):
    """Say how the agent service is."""

    service: ClassVar[str] = agent.SERVICE
    topic: ClassVar[str] = CHECK


class CheckMemoryHealth(CheckHealth):
    """Say how the memory service is."""

    service: ClassVar[str] = memory.SERVICE
    topic: ClassVar[str] = CHECK


def health_command(service: str, asker: str) -> CheckHealth:
    """The question to a service."""
    kind = COMMANDS[f"{service}.{CHECK}"]
    assert issubclass(kind, CheckHealth), f"{kind} asks for something else"
    return kind(asker=asker)
