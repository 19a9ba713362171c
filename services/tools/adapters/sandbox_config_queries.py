"""Clients' settings for the sandbox of an organisation, as a call of its tools needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from libs.contracts.tools.sandbox_configs import LocalSandboxConfig, sandbox_config_id
from libs.eventstore.connection_pool import Database

SETTINGS = """
select c.config, c.generation,
       (select jsonb_object_agg(v.key, v.value) from tools.sandbox_variables v
         where v.config_id = %(id)s and v.org = %(org)s)
from tools.sandbox_configs c where c.id = %(id)s and c.org = %(org)s"""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """Variables with sealed values, packages that all tools have, and how often these were wanted
    anew."""

    variables: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[tuple[str, str | None], ...] = ()
    generation: int = 0


NOTHING_SET = SandboxSettings()


class SandboxConfigQueries(Protocol):
    """The queries of calls about the settings."""

    async def of(self, org: str) -> SandboxSettings:
        """The settings of an organisation."""


class PostgresSandboxConfigQueries:
    """Keeps the contract of `SandboxConfigQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def of(self, org: str) -> SandboxSettings:
        row = await self.database.fetch_one(SETTINGS, {"id": sandbox_config_id(org), "org": org})
        if row is None:
            return NOTHING_SET
        config = LocalSandboxConfig.model_validate(row[0])
        wanted = config.pip_requirements if config.use_venv else []
        return SandboxSettings(row[2] or {}, tuple((r.name, r.version) for r in wanted), row[1])
