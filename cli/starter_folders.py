"""Starters: folders with agents that `heeler create --template` copies and makes."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.exit_codes import CommandError, ExitCode
from libs.contracts.outside_texts import decode_text

ABOUT = "template.toml"  # what a starter says of itself
AGENT = "agent.toml"  # the file of an agent in it
KEYS = ("version", "description", "author", "usage", "tags")
REQUIRED = KEYS[:4]
VERSION = re.compile(r"\d+\.\d+\.\d+")
DIRTY = ("__pycache__", "*.pyc", ABOUT)  # what is not copied


@dataclass(frozen=True)
class Starter:
    """A folder with one agent or several, their tools and tests, and what it says of itself."""

    name: str
    folder: Path
    about: dict[str, Any]

    @property
    def agent_files(self) -> list[Path]:
        """The files of its agents."""
        return sorted(self.folder.rglob(AGENT))

    def as_json(self) -> dict[str, Any]:
        """The starter's description of itself, and its place."""
        agents = [str(path.relative_to(self.folder)) for path in self.agent_files]
        return {"name": self.name, **self.about, "agents": agents, "folder": str(self.folder)}


def folders(own: Path | None) -> list[Path]:
    """Where starters are: a folder of one's own first, then those that come with the command."""
    from deploy.embedded.settings import CHECKOUT, IS_CHECKOUT

    bundled = CHECKOUT / "examples" if IS_CHECKOUT else Path(__file__).parent / "starters"
    if own is not None and not own.is_dir():
        raise CommandError(f"There is no folder {own}", ExitCode.NOT_FOUND)
    return [own, bundled] if own else [bundled]


def starters(own: Path | None = None) -> Iterator[Starter]:
    """All starters; of one name the first counts. Raises CommandError."""
    seen = set[str]()
    for folder in folders(own):
        for about in sorted(folder.glob(f"*/{ABOUT}")):
            if about.parent.name not in seen:
                seen.add(about.parent.name)
                yield starter_in(about.parent)


def starter_in(folder: Path) -> Starter:
    """The starter of a folder. Raises CommandError where it is none."""
    try:
        about = tomllib.loads(decode_text((folder / ABOUT).read_bytes()))
    except OSError as problem:
        words = f"{folder} has no {ABOUT}, which says what it is"
        raise CommandError(words, ExitCode.NOT_FOUND) from problem
    except ValueError as problem:
        raise CommandError(f"{folder / ABOUT}: {problem}", ExitCode.REFUSED) from problem
    return Starter(folder.name, folder, about)


def starter(name: str, own: Path | None = None) -> Starter:
    """The starter of that name. Raises CommandError where there is none."""
    import difflib

    found = {each.name: each for each in starters(own)}
    if name in found:
        return found[name]
    close = difflib.get_close_matches(name, found, n=1)
    hint = f": did you mean '{close[0]}'?" if close else f" (there are: {', '.join(found)})"
    raise CommandError(f"There is no template '{name}'{hint}", ExitCode.NOT_FOUND)


def copy(found: Starter, target: Path, *, name: str | None, model: str | None) -> list[Path]:
    """Write a starter into a folder that is not there yet; returns the files of its agents.

    Args:
        name: what its agent is called instead; a starter of several agents refuses it.
        model: the model that its agents have instead.
    """
    if target.exists():
        raise CommandError(f"{target} is there already: say another folder with --to")
    if name and len(found.agent_files) > 1:
        words = f"'{found.name}' has {len(found.agent_files)} agents: leave out --name"
        raise CommandError(words, ExitCode.USAGE)
    shutil.copytree(found.folder, target, ignore=shutil.ignore_patterns(*DIRTY))
    files = sorted(target.rglob(AGENT))
    for file in files:
        _set(file, {"name": name, "model": model})
    return files


def _set(file: Path, values: dict[str, str | None]) -> None:
    """Set plain keys of a file, keeping the rest to the byte, comments and all."""
    import tomlkit

    document = tomlkit.parse(decode_text(file.read_bytes()))
    added = tomlkit.document()
    for key, value in values.items():
        if value:
            (document if key in document else added)[key] = value
    file.write_text(tomlkit.dumps(added) + tomlkit.dumps(document), encoding="utf-8")


def problems_of(found: Starter) -> list[str]:
    """The problems that keep others from using a folder as a starter; nothing is run."""
    import difflib

    from cli.agent_tests.agent_files import reading_of
    from cli.agent_tests.found_files import found_in
    from cli.agent_tests.scenario_files import WrongScenario, read
    from libs.agent_toml import to_text

    problems = [f"{ABOUT}: `{key}` is missing" for key in REQUIRED if not found.about.get(key)]
    for key in found.about.keys() - {*KEYS}:
        close = difflib.get_close_matches(key, KEYS, n=1)
        hint = f": did you mean `{close[0]}`?" if close else ""
        problems.append(f"{ABOUT}: there is no `{key}`{hint}")
    version = found.about.get("version")
    if version and not VERSION.fullmatch(str(version)):
        problems.append(f"{ABOUT}: `version` is '{version}': write it as 1.0.0")
    if not found.agent_files:
        problems.append(f"there is no {AGENT} in it")
    for file in found.agent_files:
        problems += [to_text(problem) for problem in reading_of(file).errors]
    scenarios = list(found_in([found.folder]))
    if not scenarios:
        problems.append("there are no scenarios: see docs/testing-agents.md")
    for path in scenarios:
        try:
            read(path)
        except WrongScenario as problem:
            problems += [to_text(each) for each in problem.problems]
    return problems
