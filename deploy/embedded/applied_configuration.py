"""Which configuration a server runs with, and what became of each attempt to load it anew.

The supervisor writes it into its home, for the api and for whoever asks `heeler config reload`. It
has names of keys and of variables, and no values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from deploy.embedded.state import write_private

RELOADS_KEPT = 20
FILE = "configuration.json"
CHECKING, APPLYING = "checking", "applying"
APPLIED, UNCHANGED, REFUSED, ROLLED_BACK = "applied", "unchanged", "refused", "rolled_back"
UNFINISHED = (CHECKING, APPLYING)


@dataclass(slots=True)
class Reload:
    """One attempt. `changed` and `needs_start` are names of keys: those with another value, and
    those that have it after the next start only; `replaced` are the parts that were started anew.
    """

    number: int
    status: str = CHECKING
    at: str = ""
    version: int = 0  # of the configuration that holds after it
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    needs_start: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)


@dataclass(slots=True)
class AppliedConfiguration:
    """The configuration that holds: its version, which counts up with each change, also over
    starts, and what tells it from another; and the attempts to change it, the latest last."""

    version: int = 0
    fingerprint: str = ""
    file: str | None = None
    applied_at: str = ""
    supervisor: int = 0
    reloads: list[Reload] = field(default_factory=list)

    def hold(self, fingerprints: Mapping[str, str], file: Path | None) -> None:
        """Note that a configuration is applied; one that is the same keeps its version."""
        joined = json.dumps(sorted(fingerprints.items())).encode()
        fingerprint = hashlib.blake2b(joined, digest_size=8).hexdigest()
        self.file = str(file) if file else None
        if fingerprint != self.fingerprint:
            self.version += 1
            self.fingerprint = fingerprint
            self.applied_at = now()

    def begin(self) -> Reload:
        """Begin and note a new attempt."""
        number = self.reloads[-1].number + 1 if self.reloads else 1
        attempt = Reload(number, at=now(), version=self.version)
        self.reloads = [*self.reloads[-RELOADS_KEPT + 1 :], attempt]
        return attempt

    def write(self, home: Path) -> None:
        """Replace the file in the home."""
        write_private(home / FILE, json.dumps(asdict(self), indent=2) + "\n")


def read_applied(home: Path) -> AppliedConfiguration:
    """The last supervisor's record; a new one where there is nothing that can be read. An attempt
    that it did not finish has ended with it."""
    try:
        document = json.loads((home / FILE).read_text())
        reloads = [Reload(**entry) for entry in document.pop("reloads")]
        found = AppliedConfiguration(**document, reloads=reloads)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return AppliedConfiguration()
    for attempt in reloads:
        if attempt.status in UNFINISHED:
            attempt.status, attempt.problems = REFUSED, ["the server was stopped meanwhile"]
    return found


def now() -> str:
    """The time, as it is written."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
