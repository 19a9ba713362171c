"""What one may ask of a service about the messages that it gave up."""

from __future__ import annotations

from libs.contracts.bus_messages import COMMANDS, Command
from libs.contracts.per_service_command_factory import command_of_each_service

REPLAY = "dead_letter.replay"
DISCARD = "dead_letter.discard"


class DeadLetterCommand(Command):
    """A command about one dead letter."""

    letter_id: str

    @property
    def target(self) -> str:
        return self.letter_id


command_of_each_service(
    DeadLetterCommand,
    "Replay{Service}DeadLetter",
    REPLAY,
    "Let a message that the {service} service gave up take effect after all.",
)
command_of_each_service(
    DeadLetterCommand,
    "Discard{Service}DeadLetter",
    DISCARD,
    "Forget a message that the {service} service gave up.",
)


def letter_command(service: str, topic: str) -> type[DeadLetterCommand]:
    """The command of a service about its dead letters."""
    kind = COMMANDS[f"{service}.{topic}"]
    assert issubclass(kind, DeadLetterCommand), f"{kind} is about something else"
    return kind
