"""The agents of a YAML file, in whichever of the common forms they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.exit_codes import CommandError, ExitCode
from libs.contracts.outside_texts import decode_text

FILE_BYTES_MAX = 4 << 20
VALUES_MAX = 100_000
DEPTH_MAX = 64
KINDS_OF_AGENTS = ("agent", "agents", "assistant")
# What says that a table without a list of agents is one.
SIGNS = frozenset(
    {"system_prompt", "system", "instructions", "prompt", "backstory", "goal", "memory_blocks"}
    | {"llm_config", "system_message"}
)


@dataclass(frozen=True)
class YamlAgent:
    """An agent as a YAML file has it, and what the file says for all of its agents."""

    file: Path
    place: str  # agents[0]
    data: Mapping[str, Any]
    common: Mapping[str, Any] = field(default_factory=dict)  # shared_blocks, mcp_servers, ...

    def beside(self, name: str) -> Path:
        """The file of a path in the YAML file. Raises OSError where it is none, or where it leads
        out of the folder of the YAML file, which may be somebody else's."""
        root = self.common.get("root_path")
        folder = self.file.parent / root if isinstance(root, str) else self.file.parent
        path = (folder / name).resolve()
        if not path.is_relative_to(self.file.parent.resolve()):
            raise PermissionError(1, "it leads out of the folder of the YAML file: copy it there")
        if not path.is_file():
            raise FileNotFoundError(2, "there is no such file")
        return path


def yaml_files(paths: list[Path]) -> list[Path]:
    """The files among these paths, and the YAML files of folders. Raises CommandError."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml"))
        elif path.is_file():
            files.append(path)
        else:
            raise CommandError(f"There is no file or folder {path}", ExitCode.NOT_FOUND)
    return files


def agents_in(file: Path) -> list[YamlAgent]:
    """All agents of a file. Raises CommandError where it is no YAML, or too large."""
    return [
        agent
        for number, document in enumerate(_documents(file), 1)
        for agent in _agents(file, document, f"document {number}: " if number > 1 else "")
    ]


def _documents(file: Path) -> list[Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if file.stat().st_size > FILE_BYTES_MAX:
        raise CommandError(f"{file} has more than {FILE_BYTES_MAX} bytes", ExitCode.REFUSED)
    try:
        documents = list(YAML(typ="safe", pure=True).load_all(decode_text(file.read_bytes())))
    except (YAMLError, UnicodeDecodeError, ValueError, RecursionError) as problem:
        words = " ".join(str(problem).split())
        raise CommandError(f"{file} is no YAML: {words}", ExitCode.REFUSED) from problem
    for document in documents:
        _require_bounded(file, document)
    return documents


def _require_bounded(file: Path, document: Any) -> None:
    """Aliases may say the same a million times, or contain themselves."""
    words = f"{file} has more than {VALUES_MAX} values or {DEPTH_MAX} levels"
    waiting = [(document, 0)]
    for _ in range(VALUES_MAX):
        if not waiting:
            return
        value, depth = waiting.pop()
        if depth > DEPTH_MAX:
            break
        inner = value.values() if isinstance(value, dict) else value
        if isinstance(inner, Iterable) and not isinstance(inner, str | bytes):
            waiting += [(each, depth + 1) for each in inner]
    raise CommandError(words, ExitCode.REFUSED)


def _agents(file: Path, document: Any, place: str) -> Iterator[YamlAgent]:
    common = (
        {str(key): value for key, value in document.items()} if isinstance(document, dict) else {}
    )
    match document:
        case {"agents": list(agents)}:
            for number, agent in enumerate(agents):
                yield from _one(file, agent, f"{place}agents[{number}]", common)
        case {"agents": dict(agents)}:
            for name, agent in agents.items():
                yield from _one(file, _with_name(agent, name), f"{place}agents.{name}", common)
        case {"kind": str(kind), "spec": dict(spec)} if kind.lower() in KINDS_OF_AGENTS:
            labels = document.get("metadata") or {}
            about = {key: labels[key] for key in ("name", "description") if key in labels}
            kept = {"metadata": labels["labels"]} if labels.get("labels") else {}
            yield YamlAgent(file, f"{place}spec", {**about, **kept, **spec})
        case {"agent": dict(agent)}:
            yield YamlAgent(file, f"{place}agent", agent, common)
        case dict() if SIGNS & document.keys():
            yield YamlAgent(file, place.rstrip(": "), document)
        case list():
            for number, agent in enumerate(document):
                yield from _one(file, agent, f"{place}[{number}]", {})
        case dict():
            for name, agent in document.items():  # a table for each agent, under its name
                if isinstance(agent, dict) and SIGNS & agent.keys():
                    yield YamlAgent(file, f"{place}{name}", _with_name(agent, name))


def _one(file: Path, agent: Any, place: str, common: Mapping[str, Any]) -> Iterator[YamlAgent]:
    if isinstance(agent, dict):
        yield YamlAgent(file, place, agent, common)


def _with_name(agent: Any, name: Any) -> Any:
    return {"name": str(name), **agent} if isinstance(agent, dict) else agent
