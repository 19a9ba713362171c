"""An agent of a YAML file while it becomes a definition: what it is by now, and remarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.yaml_agents.documents import YamlAgent
from libs.contracts.outside_texts import decode_text


@dataclass
class Translation:
    """A translated agent: data of a definition, files to write beside it, and remarks."""

    agent: YamlAgent
    data: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)  # name beside the TOML: where it is
    remarks: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def remark(self, key: str, words: str) -> None:
        """Something that a person should know of a field."""
        self.remarks.append(f"{key}: {words}")

    def take(self, keys: tuple[str, ...], table: Mapping[str, Any] | None = None) -> Any:
        """The value of the first of these keys that there is; all count as looked at."""
        source = self.agent.data if table is None else table
        found = [key for key in keys if source.get(key) is not None]
        if table is None:
            self.seen |= {*keys}
            for other in found[1:]:
                self.remark(other, f"left out: `{found[0]}` says the same")
        return source[found[0]] if found else None


def text_of(done: Translation, key: str, value: Any) -> str | None:
    """A text, or that of the file that it names."""
    match value:
        case str():
            return value
        case {"value": str(text)} | {"content": str(text)} | {"text": str(text)}:
            return text
        case {"from_file": str(name)} | {"file": str(name)} | {"path": str(name)}:
            try:
                return decode_text(done.agent.beside(name).read_bytes())
            except (OSError, UnicodeDecodeError) as problem:
                done.remark(key, f"left out: {name} cannot be read ({problem})")
        case None:
            pass
        case _:
            done.remark(key, "left out: it is neither a text nor the name of a file")
    return None
