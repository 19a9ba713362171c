"""Which fleet files are, and where it lives: `heeler-fleet.toml`, beside them and under version
control."""

from __future__ import annotations

import configparser
import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cli.exit_codes import CommandError, ExitCode
from libs.contracts.outside_texts import decode_text

FILE = "heeler-fleet.toml"
KEY_CHARS_MAX = 200
CREDENTIALS = re.compile(r"(?<=://)[^/@\s]{1,500}@")
# What to do where the files say nothing of their fleet.
NAMELESS = (
    "{option} needs to know which agents belong together: write a heeler-fleet.toml (`heeler fleet"
    " init`), or say --fleet NAME"
)

type Text = Annotated[str, Field(min_length=1, max_length=KEY_CHARS_MAX)]


class Part(BaseModel):
    """A table of the file; a key that is unknown is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FleetEnvironment(Part):
    """A server that the fleet lives on: its address or the name that `heeler remote` has for it,
    the values of variables that files name, whose security rules hold, and how many agents
    `--prune` may delete at once."""

    server: Text | None = None
    variables: dict[str, str] = Field(default_factory=dict)
    rules: Text | None = None
    prune_max: Annotated[int, Field(ge=0)] | None = None


class FleetSettings(Part):
    """The file's content: the servers' key for the fleet, its name, its environments."""

    id: Text
    name: Text
    environments: dict[str, FleetEnvironment] = Field(default_factory=dict)


@dataclass(frozen=True)
class FleetName:
    """Which fleet files are of.

    Args:
        key: what servers know it by.
        origin: where its files are, in words; empty where the file says which fleet it is.
        is_said: whether somebody said so; otherwise it follows from where the files are.
    """

    key: str
    name: str
    origin: str = ""
    is_said: bool = True

    def require(self, option: str) -> None:
        """Raise CommandError for an option that needs to know which agents belong together."""
        if not self.is_said:
            raise CommandError(NAMELESS.format(option=option), ExitCode.USAGE)


def folder_with(name: str, folder: Path) -> Path | None:
    """The nearest folder from here upwards that has something of that name."""
    return next((up for up in (folder, *folder.parents) if (up / name).exists()), None)


def read_settings(file: Path) -> FleetSettings:
    """The content of the file. Raises CommandError where it is wrong."""
    try:
        return FleetSettings.model_validate(tomllib.loads(decode_text(file.read_bytes())))
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise CommandError(f"{file}: {place}: {first['msg']}", ExitCode.USAGE) from None
    except (OSError, ValueError, RecursionError) as problem:
        raise CommandError(f"{file} cannot be read: {problem}", ExitCode.USAGE) from None


def fleet_name(root: Path, settings: FleetSettings | None, said: str | None) -> FleetName:
    """Which fleet the files below a folder are of."""
    if said is not None:
        return FleetName(said, said, origin_of(root))
    if settings is not None:
        return FleetName(settings.id, settings.name)
    origin = origin_of(root)
    return FleetName(f"files at {origin}"[:KEY_CHARS_MAX], root.name or "fleet", origin, False)


def origin_of(root: Path) -> str:
    """Where files are: the repository that they were cloned from, or this machine and folder."""
    repository = folder_with(".git", root)
    if repository is not None and (url := _remote_of(repository / ".git" / "config")):
        below = root.relative_to(repository).as_posix()
        return url if below == "." else f"{url} {below}"
    return f"{socket.gethostname()}:{root}"


def _remote_of(config: Path) -> str:
    """The address that a repository was cloned from, without what lets one in."""
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(decode_text(config.read_bytes()))
        url = parser.get('remote "origin"', "url", fallback="")
    except (OSError, ValueError, configparser.Error):
        return ""
    return CREDENTIALS.sub("", url)[:KEY_CHARS_MAX]


def values_of(environment: FleetEnvironment, process: Mapping[str, str]) -> Mapping[str, str]:
    """The values of variables: those of an environment, which may name others, before those that
    are set where the command runs. One that names what is not set is not set either."""
    from libs.agent_toml.tables import MissingVariable, with_values

    values = {**process}
    for name, text in environment.variables.items():
        try:
            values[name] = with_values(text, process)
        except MissingVariable:
            values.pop(name, None)
    return values
