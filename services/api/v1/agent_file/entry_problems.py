"""Problems of an agent file, entry by entry, and the entries that are left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

# How many errors are named of a file that has more.
ERRORS_MAX = 20

type Path = tuple[str | int, ...]


def entry_name(path: Path) -> str:
    """A place in a file as people write it, e.g. `agents[0].messages[3].role`."""
    name = ""
    for part in path:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name or "the file"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An entry of a file that is not taken over, or not as it is there, and why."""

    entry: str
    why: str


class AgentFileInvalid(Exception):
    """A file that cannot be read as an agent file; each error begins with the entry it is about."""

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(errors)
        super().__init__(self.errors)

    def __str__(self) -> str:
        return "; ".join(self.errors)


class EntryErrors:
    """The errors of a file, gathered until there are too many to go on."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def add(self, path: Path, why: str) -> None:
        """Note an error; raises `AgentFileInvalid` where there are too many."""
        self.errors.append(f"{entry_name(path)}: {why}")
        if len(self.errors) >= ERRORS_MAX:
            self.raise_any()

    def add_all(self, path: Path, invalid: ValidationError) -> None:
        """Note the errors of an entry that is no such entry."""
        for error in invalid.errors(include_url=False, include_context=False):
            self.add((*path, *named_parts(error["loc"])), error["msg"])

    def raise_any(self) -> None:
        """Raise `AgentFileInvalid` if there was an error."""
        if self.errors:
            raise AgentFileInvalid(self.errors)


def named_parts(location: tuple[str | int, ...]) -> Path:
    """Where an error is, without the names of the alternatives that a validator tried."""
    return tuple(
        part for part in location if isinstance(part, int) or part.replace("_", "").islower()
    )
