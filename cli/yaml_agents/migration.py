"""YAML files to TOML files: what was written, what was left out, and what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cli.exit_codes import CommandError, ExitCode
from cli.yaml_agents.documents import agents_in, yaml_files
from cli.yaml_agents.translated_agent import Translation
from cli.yaml_agents.translation import translate
from libs.agent_toml import AgentDefinition, read, to_text, write


@dataclass(frozen=True)
class Migrated:
    """The result for one agent, or for a file that could not be read."""

    source: str  # fleet.yaml: agents[0]
    written: str | None  # the TOML file
    remarks: list[str]  # what was left out or changed
    problems: list[str]  # why it cannot be applied as it is

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` prints."""
        return asdict(self)


def migrate(paths: list[Path], folder: Path, *, overwrite: bool) -> Iterator[Migrated]:
    """Write the agents of YAML files into a folder, one after the other.

    Nothing that is there is overwritten, unless that is asked for. A file that cannot be read
    costs no other its place. Raises CommandError where there are no YAML files.
    """
    files = yaml_files(paths)
    if not files:
        raise CommandError("There are no .yaml or .yml files", ExitCode.NOT_FOUND)
    taken: set[str] = set()
    for file in files:
        try:
            agents = agents_in(file)
        except CommandError as problem:
            yield Migrated(str(file), None, [], [str(problem)])
            continue
        if not agents:
            yield Migrated(str(file), None, ["no agent was found in it"], [])
        for agent in agents:
            yield _written(translate(agent), folder, taken, overwrite=overwrite)


def _written(done: Translation, folder: Path, taken: set[str], *, overwrite: bool) -> Migrated:
    source = f"{done.agent.file}: {done.agent.place}".rstrip(": ")
    try:
        text = write(AgentDefinition.model_validate(done.data))
    except ValidationError as problem:
        problems = [
            ".".join(str(part) for part in error["loc"]) + f": {error['msg']}"
            for error in problem.errors(include_url=False)
        ]
        return Migrated(source, None, done.remarks, problems)
    target = folder / f"{_free_name(done.data['name'], taken)}.toml"
    siblings = {
        name: path.read_text(encoding="utf-8", errors="replace")
        for name, path in done.files.items()
    }
    for path, content in {target: text, **{folder / n: t for n, t in siblings.items()}}.items():
        if path.exists() and not overwrite and (path == target or not _has(path, content)):
            words = f"{path} is there already: --force overwrites it"
            return Migrated(source, None, done.remarks, [words])
    checked = read(text, file=str(target), read_sibling=siblings.__getitem__)
    for name, content in siblings.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return Migrated(source, str(target), done.remarks, [to_text(each) for each in checked.errors])


def _has(path: Path, content: str) -> bool:
    """Whether a file says just this, so that writing it changes nothing."""
    return path.is_file() and path.read_bytes() == content.encode()


def _free_name(name: str, taken: set[str]) -> str:
    """A file's name that no other agent of this call has."""
    plain = re.sub(r"[^\w\-]+", "-", name).strip("-").lower() or "agent"
    number, found = 1, plain
    while found in taken:
        number += 1
        found = f"{plain}-{number}"
    taken.add(found)
    return found
