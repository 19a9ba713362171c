"""The environment variables of a call: opened here, right before the sandbox is given them."""

from __future__ import annotations

from collections.abc import Mapping

from libs.contracts.tool_runs import RunTool
from libs.encryption.sealer import CannotOpen, Sealer


class Variables:
    """Opens what a call's client has set."""

    def __init__(self, sealer: Sealer) -> None:
        self.sealer = sealer

    async def of(self, command: RunTool, org: str) -> Mapping[str, str] | str:
        """The variables of a call, or why it cannot have them."""
        return self.opened(command.environment)

    def opened(self, sealed: Mapping[str, str]) -> dict[str, str] | str:
        """These variables in plain, or which of them cannot be opened."""
        found: dict[str, str] = {}
        for name, value in sealed.items():
            try:
                found[name] = self.sealer.open(value)
            except CannotOpen as why:
                return f"The environment variable {name} cannot be read: {why}"
        return found
