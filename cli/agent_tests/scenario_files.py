"""Scenario files: where they are, and what one says."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from cli.agent_tests.scenarios import Scenario

FILES_MAX = 10_000
FILE_BYTES_MAX = 4 << 20
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
MARK = re.compile(r"^\s*\[\s*scenario\s*\]", re.MULTILINE)


@dataclass(frozen=True)
class ScenarioFile:
    """A scenario, and the file that it is from."""

    path: Path
    text: str
    scenario: Scenario

    @property
    def agent_file(self) -> Path:
        """The file of the agent that it tests."""
        return (self.path.parent / self.scenario.scenario.agent).resolve()

    def line_of(self, path: Sequence[str | int]) -> int | None:
        """The line of a key."""
        return None


class WrongScenario(Exception):
    """A file that is no scenario; the words say where and why."""


def found_in(paths: Sequence[Path]) -> Iterator[Path]:
    """The scenario files among these files and in these folders, sorted, each once."""
    seen: set[Path] = set()
    for path in paths:
        for file in [path] if path.is_file() else sorted(_files_of(path)):
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _files_of(folder: Path) -> Iterator[Path]:
    for parent, folders, names in folder.walk():
        folders[:] = sorted(
            name for name in folders if name[0] != "." and name not in SKIPPED_FOLDERS
        )
        for name in names:
            file = parent / name
            if file.suffix == ".toml" and is_scenario(file):
                yield file


def is_scenario(file: Path) -> bool:
    """Whether a TOML file has the table `[scenario]`."""
    try:
        return file.stat().st_size <= FILE_BYTES_MAX and bool(MARK.search(file.read_text()))
    except (OSError, UnicodeDecodeError):
        return False


def read(path: Path) -> ScenarioFile:
    """The scenario of a file. Raises WrongScenario."""
    try:
        text = path.read_text()
        return ScenarioFile(path, text, Scenario.model_validate(tomllib.loads(text)))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as problem:
        raise WrongScenario(f"{path}: {problem}") from problem
