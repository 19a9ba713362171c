"""Commands that every service takes: one class for each, made from the registry of services. They
ask about its health, and about the messages that it gave up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import new_class
from typing import ClassVar

from libs.contracts.bus_messages import COMMANDS, Command
from libs.contracts.service_registry import names


def command_of_each_service(
    base: type[Command],
    class_name: str,
    topic: str,
    about: str,
    services: Sequence[str] | None = None,
) -> None:
    """Register a command like `base` for each of these services, or for all. `class_name` has
    `{Service}` in it, and `about`, its docstring, `{service}`."""
    for service in services or names():
        fields = {"__module__": base.__module__, "__doc__": about.format(service=service)}
        names_on_bus = {"service": service, "topic": topic}
        class_of_service = class_name.format(Service=service.capitalize())
        new_class(class_of_service, (base,), names_on_bus, partial(dict.update, **fields))


CHECK = "health.check"


class CheckHealth(Command):
    """Write something, and say how far behind the service is. Who asks has an id of its own."""

    keeps_reply: ClassVar[bool] = False
    asker: str

    @property
    def target(self) -> str:
        return self.asker


command_of_each_service(
    CheckHealth, "Check{Service}Health", CHECK, "Say how the {service} service is."
)


def health_command(service: str, asker: str) -> CheckHealth:
    """The question to a service."""
    kind = COMMANDS[f"{service}.{CHECK}"]
    assert issubclass(kind, CheckHealth), f"{kind} asks for something else"
    return kind(asker=asker)


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
