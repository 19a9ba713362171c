"""The folder in which a migration keeps where it is: what was taken over, and the file of the pass
that is under way.

A pass is made in three steps, and each may die at any moment: the file is written, with what will
have been taken over by it; it is sent; and then what was taken over counts. A pass whose file was
written is sent again until its import has ended, under the same id, so that nothing comes twice.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from deploy.letta_migration.progress import Progress
from deploy.letta_migration.report import Report

TAKEN, NEXT = "taken.sqlite", "next.sqlite"
LINES = "pass.ndjson.gz"
DRAFT = ".draft"
EMPTY_LINES = 2


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of one database into one server."""

    folder: Path

    @classmethod
    def of(cls, root: Path, source: str, organisation: str) -> Passes:
        """Those of a database that is named without its password."""
        name = sha256(f"{source}\0{organisation}".encode()).hexdigest()[:16]
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return cls(folder)

    @property
    def lines(self) -> Path:
        """The file of the pass that is under way."""
        return self.folder / LINES

    @property
    def is_under_way(self) -> bool:
        """Whether a pass was written and has not ended."""
        return self.lines.exists() and (self.folder / NEXT).exists()

    def draft(self) -> Progress:
        """The progress so far, in a copy for the next pass."""
        taken, draft = self.folder / TAKEN, self.folder / (NEXT + DRAFT)
        for left in (*self.folder.glob(f"*{DRAFT}*"), self.lines, self.folder / NEXT):
            left.unlink(missing_ok=True)
        if taken.exists():
            shutil.copyfile(taken, draft)
        return Progress(draft)

    def copy(self) -> Progress:
        """The progress so far, in a copy in memory that nobody keeps."""
        progress = Progress()
        if (self.folder / TAKEN).exists():
            with closing(sqlite3.connect(self.folder / TAKEN)) as taken:
                taken.backup(progress.connection)
        return progress

    def write(self, progress: Progress, report: Report, lines: Iterable[bytes]) -> str:
        """Write the file of a pass, which is under way from then on, with what it reports; returns
        its digest."""
        draft = self.folder / (LINES + DRAFT)
        digest, count = sha256(), 0
        with draft.open("wb") as file:
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0, compresslevel=3) as packed:
                for line in lines:
                    digest.update(line)
                    packed.write(line)
                    count += 1
            file.flush()
            os.fsync(file.fileno())
        progress.keep("pass", "sha256", digest.hexdigest())
        progress.keep("pass", "lines", str(count))
        progress.keep("pass", "report", json.dumps(report.as_json()))
        progress.close()
        (self.folder / (NEXT + DRAFT)).replace(self.folder / NEXT)
        draft.replace(self.lines)
        return digest.hexdigest()

    def digest(self) -> str:
        """The digest of the lines of the pass that is under way."""
        return self.value("sha256")

    def report(self) -> dict[str, Any]:
        """The report of the pass that is under way, in the form of `Report.as_json`."""
        found: dict[str, Any] = json.loads(self.value("report"))
        return found

    @property
    def is_empty(self) -> bool:
        """Whether the pass that is under way has nothing but a header and a footer."""
        return int(self.value("lines")) <= EMPTY_LINES

    def value(self, name: str) -> str:
        """Something that was kept of the pass that is under way."""
        progress = Progress(self.folder / NEXT)
        found = progress.value("pass", name)
        progress.close()
        assert found is not None, "a pass is written with all that is kept of it"
        return found

    def end(self) -> None:
        """The pass that is under way has been imported: what it took over counts."""
        (self.folder / NEXT).replace(self.folder / TAKEN)
        self.lines.unlink()

    def give_up(self) -> None:
        """The pass that is under way was refused: nothing of it counts."""
        self.lines.unlink(missing_ok=True)
        (self.folder / NEXT).unlink(missing_ok=True)
