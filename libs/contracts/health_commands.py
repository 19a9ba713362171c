"""What one may ask of a service about itself: the way of every command, there and back."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.bus_messages import COMMANDS, Command
from libs.contracts.per_service_command_factory import command_of_each_service

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
