"""The files of a fleet: found, read with what stands beside them, and checked all together."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cli.agent_tests.found_files import SKIPPED_FOLDERS, has_scenario_table
from cli.exit_codes import CommandError, ExitCode
from cli.fleet.reading import desired_agent
from cli.fleet.settings import (
    FILE,
    FleetEnvironment,
    FleetName,
    FleetSettings,
    fleet_name,
    folder_with,
    read_settings,
)
from libs.agent_document.desired import UNSET, DesiredAgent, digest
from libs.agent_toml import (
    DEFAULT_RULES,
    Catalogue,
    CheckedFile,
    MissingVariable,
    Problem,
    RuleSet,
    read_file,
)
from libs.agent_toml.checked_file import FILE_CHARS_MAX
from libs.contracts.letta.request_size_limits import NAME_CHARS_MAX
from libs.contracts.outside_texts import decode_text

FILES_MAX = 10_000
BYTES_MAX = 4 * FILE_CHARS_MAX
MISSING_VARIABLE = "AGT214"
TEXT_CHARS_MAX = 2_000
NOT_AGENTS = frozenset({"pyproject.toml", "heeler.toml", "remotes.toml", FILE})


type FileState = tuple[int, int, int] | None


def state_of(path: Path) -> FileState:
    """Differs where a file was saved; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@dataclass(kw_only=True)
class AgentFile:
    """One file: what it wants, or what is wrong with it.

    Args:
        path: where it is.
        name: the path from the folder of the fleet.
        states: it and the files that it was put together from besides, as they were before they
            were read.
    """

    path: Path
    name: str
    desired: DesiredAgent | None = None
    problems: list[Problem] = field(default_factory=list)
    states: dict[Path, FileState] = field(default_factory=dict)
    fingerprint: str = ""

    def note(self, path: Path) -> None:
        """Note how a file is, just before it is read."""
        self.states[path] = state_of(path)

    def add_problem(self, code: str, message: str) -> None:
        """Note a problem of the file as a whole."""
        self.problems.append(Problem(file=self.name, code=code, message=message))

    def is_saved_since(self) -> bool:
        """Whether it, or a file beside it, is another than the one that was read."""
        return any(state_of(path) != state for path, state in self.states.items())

    @property
    def errors(self) -> list[Problem]:
        """The problems that keep it from being applied."""
        return [problem for problem in self.problems if problem.severity == "error"]


@dataclass(frozen=True)
class Fleet:
    """Files whose agents belong together.

    Args:
        fleet: which fleet they are of.
        root: the folder that the names of files are from.
        paths: the files and folders that were asked for.
        settings: what `heeler-fleet.toml` says, if there is one.
    """

    fleet: FleetName
    root: Path
    paths: tuple[Path, ...]
    settings: FleetSettings | None = None

    def name_of(self, path: Path) -> str:
        """The name of a file, the same on each machine that has the folder."""
        return path.relative_to(self.root).as_posix()

    def folders(self) -> list[str]:
        """The folders that were asked for, as names of files begin there."""
        names = [self.name_of(path) for path in self.paths if path.is_dir()]
        return ["" if name == "." else f"{name}/" for name in names]

    def refuse_others(self, files: Iterable[Path]) -> None:
        """Raise CommandError where files are below a `heeler-fleet.toml` of another fleet."""
        home = self.root if self.settings else None
        for folder in sorted({file.parent for file in files}):
            other = folder_with(FILE, folder)
            if other is not None and other != home:
                raise CommandError(
                    f"{other / FILE} says that the files there are a fleet of their own: apply"
                    " them by themselves",
                    ExitCode.USAGE,
                )

    def environment(self, name: str | None) -> FleetEnvironment:
        """Where it lives under a name. Raises CommandError where the fleet has others alone."""
        known = self.settings.environments if self.settings else {}
        if name and known and name not in known:
            words = f"{FILE} has no environment '{name}': use {', '.join(known)}"
            raise CommandError(words, ExitCode.USAGE)
        return known.get(name or "", FleetEnvironment())


def fleet_of(paths: Sequence[Path], name: str | None = None) -> Fleet:
    """The fleet of some files and folders. Raises CommandError for what is not there."""
    found = [path.resolve() for path in paths]
    for path, given in zip(found, paths, strict=True):
        if not path.exists():
            raise CommandError(f"There is no file or folder {given}", ExitCode.NOT_FOUND)
        if not path.is_file() and not path.is_dir():
            raise CommandError(f"{given} is neither a file nor a folder", ExitCode.USAGE)
    folders = [path if path.is_dir() else path.parent for path in found]
    shared = Path(os.path.commonpath(folders))
    home = folder_with(FILE, shared)
    settings = read_settings(home / FILE) if home is not None else None
    root = home or folder_with(".git", shared) or shared
    return Fleet(fleet_name(root, settings, name), root, tuple(found), settings)


def files_of(fleet: Fleet) -> list[Path]:
    """The files of agents, in order. Hidden ones, and TOML files of other programs, are none."""
    found = sorted({file for path in fleet.paths for file in _within(path)})
    if len(found) > FILES_MAX:
        raise CommandError(
            f"There are {len(found)} files, and at most {FILES_MAX} are applied at once: name"
            " folders of fewer",
            ExitCode.USAGE,
        )
    return found


def _within(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path, onerror=_refuse_unreadable):
        folders[:] = [name for name in folders if is_visible(name) and name not in SKIPPED_FOLDERS]
        files = (Path(folder, name) for name in names if is_agent_file(name))
        try:
            found = [file for file in files if file.is_file()]  # what is a pipe is read for ever
        except OSError as problem:
            _refuse_unreadable(problem)
            continue
        yield from (file for file in found if not has_scenario_table(file))


def _refuse_unreadable(problem: OSError) -> None:
    """Raise CommandError for a folder whose files cannot be seen: its agents would seem to have
    none."""
    if not isinstance(problem, FileNotFoundError):  # that one has just been deleted
        words = f"{problem.filename} cannot be read: {problem.strerror}"
        raise CommandError(words, ExitCode.USAGE) from problem


def is_visible(name: str) -> bool:
    """Whether a file or folder is looked at: no hidden one, no temporary one of an editor."""
    return not name.startswith((".", "#", "~")) and not name.endswith("~")


def is_agent_file(name: str) -> bool:
    """Whether a file of that name in a folder is an agent's."""
    is_test = name.endswith((".test.toml", "_test.toml"))
    return name.endswith(".toml") and is_visible(name) and name not in NOT_AGENTS and not is_test


class UnsetVariables(dict[str, str]):
    """The values of variables; what is not set is unknown, and no mistake."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return UNSET


@dataclass(frozen=True, kw_only=True)
class Checks:
    """The checks of files, and the source of their secrets.

    Args:
        environment: the values of the variables that files name.
        catalogue: what the server has; None: that is not checked.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    rules: RuleSet = DEFAULT_RULES
    catalogue: Catalogue | None = None


def agents_in_all_files(fleet: Fleet) -> dict[str, str]:
    """The names of the agents of all files of a fleet, whether or not they were asked for, by their
    keys; empty where a file does not say it."""
    everything = replace(fleet, paths=(fleet.root,))
    return dict(key_and_name(file, fleet.name_of(file)) for file in files_of(everything))


def key_and_name(path: Path, name: str) -> tuple[str, str]:
    """The fleet's key for the agent of a file, and the agent's name, as far as the file can be
    read."""
    try:
        said = tomllib.loads(decode_text(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return name, ""
    key, agent = (text_of(said.get(field)) for field in ("key", "name"))
    return key or name, agent


def text_of(value: Any) -> str:
    """The value if it may be a name; else an empty text."""
    return value if isinstance(value, str) and len(value) <= NAME_CHARS_MAX else ""


def read_agents(
    fleet: Fleet, paths: Iterable[Path], checks: Checks | None = None
) -> list[AgentFile]:
    """The files, each with what it wants or its problems. Raises CommandError where two of them
    have the same name: then nothing is sent."""
    files = [read_agent(fleet, path, checks) for path in paths]
    refuse_duplicates(files)
    return files


def read_checked(
    path: Path,
    name: str,
    rules: RuleSet = DEFAULT_RULES,
    catalogue: Catalogue | None = None,
    note: Callable[[Path], None] = lambda path: None,
) -> CheckedFile:
    """A file's content, with its problems. `note` is called before each file is read."""

    def read_bytes() -> bytes:
        note(path)
        with path.open("rb") as opened:
            return opened.read(BYTES_MAX + 1)

    def read_sibling(beside: str) -> str:
        file = path.parent / beside
        note(file)
        if not file.resolve().is_relative_to(path.parent.resolve()):
            raise PermissionError(1, "it leads out of the folder of this file")
        if file.exists() and not file.is_file():
            raise OSError(1, "it is no file")
        with file.open("rb") as opened:
            return decode_text(opened.read(BYTES_MAX + 1))

    return read_file(
        read_bytes, file=name, read_sibling=read_sibling, rules=rules, catalogue=catalogue
    )


def read_agent(fleet: Fleet, path: Path, checks: Checks | None = None) -> AgentFile:
    """One file with what it wants, or its problems."""
    checks = checks or Checks()
    file = AgentFile(path=path, name=fleet.name_of(path))
    checked = read_checked(path, file.name, checks.rules, checks.catalogue, file.note)
    file.problems = [*checked.problems]
    if checked.definition is not None:
        try:
            warnings = [problem_document(problem) for problem in checked.problems]
            file.desired = desired_agent(
                checked.definition, file.name, checks.environment, warnings=warnings
            )
            file.fingerprint = file.desired.fingerprint
        except MissingVariable as missing:
            file.add_problem(MISSING_VARIABLE, str(missing))
    if file.desired is None:
        file.fingerprint = digest([_content(path), [problem.message for problem in file.problems]])
    return file


def _content(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            return opened.read(BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


def problem_document(problem: Problem) -> dict[str, Any]:
    """A problem as the server keeps it."""
    return {
        "file": problem.file,
        "line": problem.line or None,
        "column": problem.column or None,
        "code": problem.code,
        "message": problem.message[:TEXT_CHARS_MAX],
        "expected": problem.expected[:TEXT_CHARS_MAX] or None,
        "suggestion": problem.suggestion[:TEXT_CHARS_MAX] or None,
        "severity": problem.severity,
    }


def refuse_duplicates(files: Iterable[AgentFile]) -> None:
    """Raise CommandError where two files name the same agent."""
    problems = [
        f"{' and '.join(names)} both describe the agent '{name}': nothing was sent; give one of"
        " them another name"
        for name, names in find_duplicates(files).items()
    ]
    if problems:
        raise CommandError("\n".join(problems), ExitCode.REFUSED)


def find_duplicates(files: Iterable[AgentFile]) -> dict[str, list[str]]:
    """The names of agents that several files describe, with those files."""
    by_name: dict[str, list[str]] = {}
    for file in files:
        if file.desired is not None:
            by_name.setdefault(file.desired.name, []).append(file.name)
    return {name: names for name, names in by_name.items() if len(names) > 1}
