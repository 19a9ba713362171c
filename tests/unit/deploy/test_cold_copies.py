"""The commands of docs/operations.md for a copy while nothing runs, where the database is in a
folder that no name of the home tells."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.operations_page import blocks

COPY, RESTORE = (block for block in blocks("sh") if "backups/heeler" in block and "cp -a" in block)
MAKE = '#!/bin/sh\nif [ "$1" = wipe ]; then rm -rf .heeler "$ELSEWHERE"; fi\n'


def run(block: str, checkout: Path, elsewhere: Path) -> None:
    path = f"{checkout.parent / 'bin'}:{os.environ['PATH']}"
    environment = {"PATH": path, "ELSEWHERE": str(elsewhere)}
    subprocess.run(["sh", "-euc", block], cwd=checkout, env=environment, check=True)


def test_a_cold_copy_has_the_database_wherever_it_is_and_puts_it_back_there(tmp_path: Path) -> None:
    checkout, elsewhere = tmp_path / "checkout", tmp_path / "var lib" / "heeler-0123456789ab"
    make = tmp_path / "bin" / "make"
    for folder in (checkout / ".heeler", checkout / "backups", elsewhere / "postgres", make.parent):
        folder.mkdir(parents=True)
    make.write_text(MAKE)
    make.chmod(0o755)
    (checkout / ".heeler" / "postgres-data-is-in").write_text(f"{elsewhere / 'postgres'}\n")
    version = elsewhere / "postgres" / "PG_VERSION"
    version.write_text("as it was copied")

    run(COPY, checkout, elsewhere)
    version.write_text("as it was later")
    run(RESTORE, checkout, elsewhere)

    assert version.read_text() == "as it was copied"
    assert sorted(path.name for path in elsewhere.iterdir()) == ["postgres"]
