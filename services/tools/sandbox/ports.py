"""Port to sandboxes, which run programs apart from the services, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from libs.contracts.bus_messages import Json, JsonObject

type Status = Literal["success", "error", "timeout", "killed"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one program. Output is counted for each of stdout and stderr; `file_bytes` for
    each file; `processes` with threads."""

    seconds: float = 60.0
    cpu_seconds: int = 60
    memory_bytes: int = 512 << 20
    processes: int = 64
    output_bytes: int = 128 << 10
    file_bytes: int = 32 << 20


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder that an agent's programs share, and the user whose it is; None: the server's."""

    path: str
    uid: int | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """Code, and what of it is called with which arguments.

    Without a `function` the source runs from its first line to its last; `last_value` gives back
    what its last line says, as an interactive interpreter shows it. Shell finds its arguments as
    JSON in the variable ARGUMENTS. `org` and `agent_id` say whose places it takes, and
    `in_workspace` that it begins in the folder of the agent. A `prelude` is Python
    whose `names()` are there before the first line. `packages` is a folder that it imports from.
    The arguments of a function in Python become what its annotations say, and those of a `schema`
    objects of the classes that this describes.
    """

    language: str
    source: str
    function: str = ""
    arguments: JsonObject = field(default_factory=dict)
    schema: JsonObject = field(default_factory=dict)
    last_value: bool = False
    prelude: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    packages: str = ""
    limits: Limits = Limits()
    org: str = ""
    agent_id: str = ""
    in_workspace: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a program. `reason` says why it did not succeed; for an exception that the code
    raised it is the traceback. Where `started` is false nothing of it ran."""

    status: Status
    value: Json = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_bytes_max: int = 0
    processes_max: int = 0
    output_bytes: int = 0
    reason: str = ""
    started: bool = True


class Sandbox(Protocol):
    """Runs programs that nobody trusts."""

    def refusal_of(self, program: Program) -> str:
        """Why a program cannot run here; empty if it can."""
        ...

    async def run(self, program: Program) -> Outcome:
        """The outcome of a program. Cancelling it kills the program."""
