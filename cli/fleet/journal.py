"""What a run was about to do, on this machine: where it is killed, the next one reports the rest.

Agents themselves need no journal: what differs is found by comparing. The report of a file to the
server is the last request of its agent, and nothing that is compared shows whether it was sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cli.fleet.desired import digest
from cli.output import warn
from cli.user_folders import state_folder


def journal_of(server: str, root: Path, environment: Mapping[str, str] = os.environ) -> Journal:
    """The journal of a folder against a server."""
    return Journal(state_folder(environment) / f"apply-{digest([server, str(root)])}.json")


@dataclass(frozen=True)
class Journal:
    """The names of files of which the server may not know that they are applied: their report was
    not sent, or it said that they are rejected."""

    path: Path | None = None

    def read(self) -> frozenset[str]:
        """The names that earlier runs left."""
        try:
            names = json.loads(self.path.read_text()) if self.path else []
        except (OSError, ValueError):
            return frozenset()
        return frozenset(map(str, names)) if isinstance(names, list) else frozenset()

    def add(self, names: Iterable[str]) -> None:
        """Note files that are applied now, or are rejected."""
        self._write(self.read().union(names))

    def remove(self, names: Iterable[str]) -> None:
        """Forget files that were reported as applied."""
        self._write(self.read().difference(names))

    def _write(self, names: frozenset[str]) -> None:
        """Keep these names, where that can be: what is applied does not depend on them."""
        if self.path is None or names == self.read():
            return
        try:
            _replace(self.path, names)
        except OSError as problem:
            warn(
                f"{self.path} cannot be written ({problem.strerror}): if this run is killed, the "
                "next one does not tell the server which of its files are applied"
            )


def _replace(path: Path, names: frozenset[str]) -> None:
    if not names:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(sorted(names)))
    beside.replace(path)
