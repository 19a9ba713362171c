"""Settings of sandboxes where nobody sets anything."""

from __future__ import annotations

from services.tools.adapters.sandbox_config_queries import NOTHING_SET, SandboxSettings


class NoSandboxConfigs:
    """Keeps the contract of `SandboxConfigQueries` where nobody sets anything."""

    async def of(self, org: str) -> SandboxSettings:
        """No settings for any organisation."""
        return NOTHING_SET
