"""A copy of this project that a test may change."""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy.embedded.settings import CHECKOUT

ADDED = Path(__file__).resolve().parent / "added_service"
DECLARATION = '    Service(name="counter"),\n'
LAST_DECLARATION = '    Service(\n        name="api",\n'


def copied_project(folder: Path) -> Path:
    """A copy of the project with the folder of one more service, `counter`."""
    copy = folder / "project"
    for name in ("cli", "libs", "services", "deploy"):
        ignored = shutil.ignore_patterns(".venv")
        shutil.copytree(CHECKOUT / name, copy / name, ignore=ignored)
    (copy / ".venv").symlink_to(CHECKOUT / ".venv")
    shutil.copytree(ADDED, copy / "services" / "counter")
    messages = copy / "libs" / "contracts" / "counter"
    messages.mkdir()
    (messages / "__init__.py").touch()
    shutil.move(copy / "services" / "counter" / "messages.py", messages)
    return copy


def project_with_counter(folder: Path) -> Path:
    """The project with one more service: a folder, and a declaration."""
    copy = copied_project(folder)
    registry = copy / "libs" / "contracts" / "service_registry.py"
    text = registry.read_text()
    assert text.count(LAST_DECLARATION) == 1
    registry.write_text(text.replace(LAST_DECLARATION, DECLARATION + LAST_DECLARATION))
    return copy
