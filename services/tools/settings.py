"""The environment of the tools service: how code runs, where workspaces are, who searches."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from libs.contracts.environment_parsing import WrongSetting, one_of, whole_number
from libs.egress.address_guard import FETCH_HOSTS, AddressGuard

WORKSPACES, RUN_CODE = "HEELER_WORKSPACES", "HEELER_RUN_CODE_SECONDS"
SANDBOX, SANDBOX_IMAGE = "HEELER_SANDBOX", "HEELER_SANDBOX_IMAGE"
SANDBOX_NETWORK = "HEELER_SANDBOX_NETWORK"
PROCESS, UNCONFINED, CONTAINER, OFF = "process", "process-unconfined", "container", "off"
SANDBOXES = (PROCESS, UNCONFINED, CONTAINER, OFF)
IMAGE, NO_NETWORK = "python:3.12-slim", "none"
NAME_OF_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
NAME_OF_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
RUN_CODE_SECONDS, RUN_CODE_SECONDS_MAX = 30, 300
SAMPLING_TOKENS = "HEELER_MCP_SAMPLING_TOKENS_MAX"
SAMPLING_TOKENS_DEFAULT, SAMPLING_TOKENS_MOST = 4_096, 1_000_000


@dataclass(frozen=True, slots=True)
class ToolsSettings:
    """The way code runs (`sandbox`; where that is in containers, of which image and in which
    network), the folder for workspaces, how long `run_code` may take, which private hosts
    `fetch_webpage` may ask, and how many tokens an answer may have that an MCP server gets of a
    model."""

    sandbox: str = PROCESS
    image: str = IMAGE
    network: str = NO_NETWORK
    workspaces: str = ""
    run_code_seconds: int = RUN_CODE_SECONDS
    pages: AddressGuard = field(default_factory=AddressGuard)
    sampling_tokens: int = SAMPLING_TOKENS_DEFAULT

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ToolsSettings:
        """HEELER_SANDBOX and all that begin so, HEELER_WORKSPACES, HEELER_RUN_CODE_SECONDS,
        HEELER_FETCH_HOSTS, HEELER_MCP_SAMPLING_TOKENS_MAX. Raises WrongSetting."""
        return cls(
            one_of(environment, SANDBOX, SANDBOXES, PROCESS),
            container_name(environment, SANDBOX_IMAGE, IMAGE, NAME_OF_IMAGE),
            container_name(environment, SANDBOX_NETWORK, NO_NETWORK, NAME_OF_NETWORK),
            folder(environment, WORKSPACES),
            whole_number(environment, RUN_CODE, RUN_CODE_SECONDS, most=RUN_CODE_SECONDS_MAX),
            AddressGuard.from_environment(FETCH_HOSTS, environment),
            whole_number(
                environment, SAMPLING_TOKENS, SAMPLING_TOKENS_DEFAULT, most=SAMPLING_TOKENS_MOST
            ),
        )


def container_name(
    environment: Mapping[str, str], variable: str, default: str, form: re.Pattern[str]
) -> str:
    """The name in a variable, for the container engine; `default` if unset. Raises WrongSetting."""
    name = environment.get(variable) or default
    if not form.fullmatch(name):
        raise WrongSetting(f"{variable} is {name!r}: it must be a name, as {default}")
    return name


def folder(environment: Mapping[str, str], name: str) -> str:
    """A folder that a variable names; empty without one. Raises WrongSetting."""
    path = environment.get(name, "")
    if path and not os.path.isabs(path):
        raise WrongSetting(f"{name} is {path!r}: it must be the path from / on")
    return path.rstrip("/")
