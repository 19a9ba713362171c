"""The environment variables of a call: opened here, right before the sandbox is given them."""

from __future__ import annotations

from collections.abc import Mapping

from libs.contracts.tools.tool_runs import RunTool
from libs.encryption.sealer import CannotOpen, Sealer
from services.tools.adapters.sandbox_config_queries import SandboxConfigQueries, SandboxSettings


class Variables:
    """Opens what clients have set: for all tools of an organisation, and for this call. What goes
    with the call (the secrets of its agent) counts where both have a name."""

    def __init__(self, sealer: Sealer, settings: SandboxConfigQueries) -> None:
        self.sealer = sealer
        self.settings = settings

    async def of(self, command: RunTool, org: str) -> Mapping[str, str] | str:
        """The variables of a call, or why it cannot have them."""
        return self.merge(command, await self.settings.of(org))

    def merge(self, command: RunTool, settings: SandboxSettings) -> dict[str, str] | str:
        """The variables of a call, given the settings of its organisation; or why one cannot be
        read."""
        return self.open_sealed({**settings.variables, **command.environment})

    def open_sealed(self, sealed: Mapping[str, str]) -> dict[str, str] | str:
        """These variables decrypted, or a sentence that names one that cannot be."""
        found: dict[str, str] = {}
        for name, value in sealed.items():
            try:
                found[name] = self.sealer.open(value)
            except CannotOpen as why:
                return f"The environment variable {name} cannot be read: {why}"
        return found
