"""The language of the tools service about the settings of the sandbox that clients make: packages
that all tools of an organisation have, and environment variables, whose values are sealed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, Value
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.sealed_text import Sealed

SERVICE = "tools"
KIND, VARIABLE_KIND = "sandbox", "sandbox-env"  # the prefixes of the ids

type SandboxType = Literal["local"]

VARIABLES_MAX = 100
VARIABLES_BYTES_MAX = 256 << 10  # as they are sealed: each call of a custom tool reads them


def sandbox_config_id(org: str, kind: SandboxType = "local") -> str:
    """The id of the settings of an organisation: there is one of each type."""
    return derived_id(KIND, org, kind)


class Requirement(Value):
    """A package that tools import, and which version of it."""

    name: str
    version: str | None = None


class LocalSandboxConfig(Value):
    """A client's settings of the sandbox. Only with `use_venv` tools have its packages, as in V1; a
    folder and a name of an environment have no effect, for every program has its own folder."""

    sandbox_dir: str = "/tmp"
    use_venv: bool = False
    venv_name: str = "venv"
    pip_requirements: list[Requirement] = Field(default_factory=list)


class SandboxConfigCommand(Command, service=SERVICE):
    """A command about one sandbox configuration."""

    config_id: str

    @property
    def target(self) -> str:
        return self.config_id


class SetSandboxConfig(SandboxConfigCommand, topic="sandbox_config.set"):
    """Have these settings; where they are only a default, what is there stays as it is."""

    config: LocalSandboxConfig
    only_default: bool = False
    must_exist: bool = False


class DeleteSandboxConfig(SandboxConfigCommand, topic="sandbox_config.delete"):
    """Have no settings any more, and none of their variables."""


class RecreatePackages(SandboxConfigCommand, topic="sandbox_config.recreate_packages"):
    """Install all packages of the organisation's tools anew, instead of those that are there."""


class SetSandboxVariable(SandboxConfigCommand, topic="sandbox_config.set_variable"):
    """Have an environment variable; the one of its name is changed, and its id is the result."""

    variable_id: str
    key: str
    value: Sealed
    description: str | None = None


class UpdateSandboxVariable(SandboxConfigCommand, topic="sandbox_config.update_variable"):
    """Change what is given of an environment variable."""

    variable_id: str
    key: str | None = None
    value: Sealed | None = None
    description: str | None = None


class DeleteSandboxVariable(SandboxConfigCommand, topic="sandbox_config.delete_variable"):
    """Have an environment variable no more."""

    variable_id: str


class SandboxConfigChanged(Event, service=SERVICE, topic="sandbox_config.changed"):
    """The sandbox of an organisation has these settings from now on; `created`: it had none."""

    config: LocalSandboxConfig
    created: bool = False


class SandboxConfigDeleted(Event, service=SERVICE, topic="sandbox_config.deleted"):
    """The sandbox of an organisation has no settings and no variables any more."""


class PackagesRecreated(Event, service=SERVICE, topic="sandbox_config.packages_recreated"):
    """The organisation's installed packages are dropped, to be installed anew.

    `generation` counts how often that was wanted."""

    generation: int


class SandboxVariableSet(Event, service=SERVICE, topic="sandbox_config.variable_set"):
    """Custom tools of the organisation have an environment variable; its value is sealed."""

    variable_id: str
    key: str
    value: Sealed
    description: str | None = None
    created: bool = False


class SandboxVariableDeleted(Event, service=SERVICE, topic="sandbox_config.variable_deleted"):
    """Custom tools of the organisation have an environment variable no more."""

    variable_id: str
