"""The environment of the tools service: how code runs, where workspaces are, who searches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from libs.contracts.environment_values import WrongSetting, whole_number
from libs.egress.address_guard import FETCH_HOSTS, AddressGuard

WORKSPACES, RUN_CODE = "HEELER_WORKSPACES", "HEELER_RUN_CODE_SECONDS"
SANDBOX = "HEELER_SANDBOX"
RUN_CODE_SECONDS, RUN_CODE_SECONDS_MAX = 30, 300


@dataclass(frozen=True, slots=True)
class ToolsSettings:
    """How code runs (`sandbox`), the folder for workspaces, how long `run_code` may take, and which
    private hosts `fetch_webpage` may ask."""

    sandbox: str = ""
    workspaces: str = ""
    run_code_seconds: int = RUN_CODE_SECONDS
    pages: AddressGuard = field(default_factory=AddressGuard)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ToolsSettings:
        """HEELER_SANDBOX, HEELER_WORKSPACES, HEELER_RUN_CODE_SECONDS, HEELER_FETCH_HOSTS. Raises
        WrongSetting."""
        return cls(
            environment.get(SANDBOX, ""),
            folder(environment, WORKSPACES),
            whole_number(environment, RUN_CODE, RUN_CODE_SECONDS, most=RUN_CODE_SECONDS_MAX),
            AddressGuard.from_environment(FETCH_HOSTS, environment),
        )


def folder(environment: Mapping[str, str], name: str) -> str:
    """A folder that a variable names; empty without one. Raises WrongSetting."""
    path = environment.get(name, "")
    if path and not os.path.isabs(path):
        raise WrongSetting(f"{name} is {path!r}: it must be the path from / on")
    return path.rstrip("/")
