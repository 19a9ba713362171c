"""The contracts about imports hold for a service that is added, and nobody lists it there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from deploy.embedded.settings import CHECKOUT
from tests.integration.copied_project import project_with_counter

WRONG = (
    "import psycopg\nimport services.agent.domain.agents.agent\nfrom services.counter import app\n"
)
BROKEN = (
    "services.counter.domain -> psycopg",
    "services.counter.domain -> services.agent.domain.agents.agent",
    "services.counter.domain -> services.counter.app",
)


def lint(project: Path) -> subprocess.CompletedProcess[str]:
    """What import-linter says of a copy of the project."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_an_added_service_keeps_them_or_is_named(tmp_path: Path) -> None:
    copy = project_with_counter(tmp_path)
    shutil.copy(CHECKOUT / "pyproject.toml", copy)
    right = lint(copy)
    domain = copy / "services" / "counter" / "domain.py"
    domain.write_text(WRONG + domain.read_text())
    wrong = lint(copy)

    assert right.returncode == 0, right.stdout
    assert wrong.returncode == 1
    for line in BROKEN:
        assert line in wrong.stdout
