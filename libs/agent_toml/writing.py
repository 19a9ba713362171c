"""Write a definition as TOML that people like to read, and that reads back as the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from libs.agent_toml.definition import AgentDefinition

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
LINE_CHARS_MAX = 100
# What the reader puts in from the file beside it.
_FROM_FILES = (("system_prompt_file", "system_prompt"), ("value_file", "value"), ("file", "source"))
# Tables of which there are several, and those of which there is one.
_ARRAYS = ("memory", "tool", "tool_rules", "mcp_servers", "schedules", "groups")
_TABLES = (
    *("model_settings", "response_format", "compaction", "limits", "permissions", "secrets"),
    "metadata",
)


def write(definition: AgentDefinition) -> str:
    """The text of a file: `read(write(definition))` has the same definition."""
    data = definition.model_dump(exclude_unset=False, exclude_none=True)
    said = _said(definition, data)
    own = {key: value for key, value in said.items() if key not in (*_ARRAYS, *_TABLES)}
    parts = [_pairs(own)]
    parts += [f"[{key}]\n{_pairs(said[key])}" for key in _TABLES if said.get(key)]
    parts += [f"[[{key}]]\n{_pairs(entry)}" for key in _ARRAYS for entry in said.get(key, ())]
    return "\n".join(part for part in parts if part)


def _said(definition: AgentDefinition, data: dict[str, Any]) -> dict[str, Any]:
    """The values to write: neither defaults nor what stands in other files."""
    said = _differing(type(definition), data)
    for key in ("memory", "tool", "mcp_servers", "schedules", "groups"):
        entries: Sequence[Any] = getattr(definition, key)
        if entries:
            said[key] = [
                _differing(type(entry), entry.model_dump(exclude_none=True)) for entry in entries
            ]
    for key in ("model_settings", "compaction", "limits", "permissions", "response_format"):
        table = getattr(definition, key)
        if table is not None:
            said[key] = table.model_dump(exclude_none=True)
    for capability in said.get("capabilities", ()):
        if capability.get("priority") == 0:
            del capability["priority"]
    return said


def _differing(table: type[BaseModel], data: dict[str, Any]) -> dict[str, Any]:
    """The values that differ from their defaults."""
    fields = table.model_fields
    found = {
        key: value
        for key, value in data.items()
        if value != fields[key].get_default(call_default_factory=True)
    }
    for file, text in _FROM_FILES:
        if file in found:
            found.pop(text, None)
    return found


def _pairs(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _basic(key)


def _value(value: Any, *, is_inline: bool = False) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case str():
            return _basic(value) if is_inline else _string(value)
        case datetime():
            return value.isoformat()
        case dict():
            pairs = (f"{_key(key)} = {_value(each, is_inline=True)}" for key, each in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case list() | tuple():
            return _list(value)
    raise TypeError(f"TOML has no {type(value).__name__}")


def _list(values: Sequence[Any]) -> str:
    texts = [_value(each, is_inline=True) for each in values]
    line = f"[{', '.join(texts)}]"
    if len(line) <= LINE_CHARS_MAX:
        return line
    return "[\n" + "".join(f"    {text},\n" for text in texts) + "]"


def _string(text: str) -> str:
    """A text as it is read best: one of several lines as such."""
    if "\n" not in text:
        return _basic(text)
    if "\\" in text and "'''" not in text and not text.endswith("'") and not _CONTROL.search(text):
        return f"'''\n{text}'''"
    escaped = text.replace("\\", "\\\\").replace('"""', '""\\"')
    if escaped.endswith('"'):
        escaped = f'{escaped[:-1]}\\"'
    return f'"""\n{_CONTROL.sub(_escape, escaped)}"""'


def _basic(text: str) -> str:
    """A text in one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t")
    return f'"{_CONTROL.sub(_escape, escaped)}"'


def _escape(match: re.Match[str]) -> str:
    return "\\r" if match[0] == "\r" else f"\\u{ord(match[0]):04x}"
