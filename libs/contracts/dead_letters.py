"""What one may ask of a service about the messages that it gave up."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts import agent, memory
from libs.contracts.message import COMMANDS, Command

REPLAY = "dead_letter.replay"
DISCARD = "dead_letter.discard"


class LetterCommand(Command):
    """A command about one dead letter."""

    letter_id: str

    @property
    def target(self) -> str:
        return self.letter_id


class ReplayAgentLetter(LetterCommand):
    """Let a message that the agent service gave up take effect after all."""

    service: ClassVar[str] = agent.SERVICE
    topic: ClassVar[str] = REPLAY


class DiscardAgentLetter(LetterCommand):
    """Forget a message that the agent service gave up."""

    service: ClassVar[str] = agent.SERVICE
    topic: ClassVar[str] = DISCARD


class ReplayMemoryLetter(LetterCommand):
    """Let a message that the memory service gave up take effect after all."""

    service: ClassVar[str] = memory.SERVICE
    topic: ClassVar[str] = REPLAY


class DiscardMemoryLetter(LetterCommand):
    """Forget a message that the memory service gave up."""

    service: ClassVar[str] = memory.SERVICE
    topic: ClassVar[str] = DISCARD


def letter_command(service: str, topic: str) -> type[LetterCommand]:
    """The command of a service about its dead letters."""
    kind = COMMANDS[f"{service}.{topic}"]
    assert issubclass(kind, LetterCommand), f"{kind} is about something else"
    return kind
