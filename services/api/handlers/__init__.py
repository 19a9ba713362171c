"""Commands to the api, a module for each kind of thing that they are about. Requests over HTTP
reach the api's own aggregates as they reach those of other services: by commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Clock
from libs.contracts.bus_messages import Command


@dataclass(frozen=True, slots=True)
class Handlers:
    """The handlers of all commands to the api: none so far."""

    clock: Clock

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {}
