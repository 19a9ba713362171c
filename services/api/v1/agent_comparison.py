"""Differences of an agent between two moments: its fields, its blocks line by line, its tools, and
what models are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.api.v1.block_blame import diff

LISTED_MAX = 100
# What is compared by itself, what changes without anybody changing it, and secrets.
NOT_CONFIGURATION = frozenset(
    {
        *("id", "blocks", "memory", "tools", "sources", "message_ids"),
        *("updated_at", "last_updated_by_id"),
        *("last_run_completion", "last_run_duration_ms", "last_stop_reason"),
        *("secrets", "tool_exec_environment_variables"),
        *("pending_approval", "managed_group", "multi_agent_group"),
    }
)
STAMPS = frozenset({"updated_at", "last_updated_by_id", "version"})
# What is compared line by line, of a block and of a tool.
TEXTS = {"value", "source_code"}

type Document = Mapping[str, Any]
type Names = tuple[str, str]


def compared_documents(before: Document, after: Document, names: Names) -> dict[str, Any]:
    """The differences between two documents of an agent."""
    return {
        "configuration": configuration_changes(before, after),
        "blocks": part_changes(before["blocks"], after["blocks"], names, label="label"),
        "tools": part_changes(before["tools"], after["tools"], names, label="name"),
        "folders": part_changes(before["sources"], after["sources"], names, label="name"),
        "context": context_changes(before["message_ids"], after["message_ids"]),
    }


def configuration_changes(before: Document, after: Document) -> dict[str, Any]:
    """The fields of the agent that differ, each with both values."""
    return field_changes(before, after, NOT_CONFIGURATION)


def field_changes(
    before: Document, after: Document, left_out: frozenset[str] | set[str]
) -> dict[str, Any]:
    """The fields that differ, each with both values."""
    return {
        name: {"before": before.get(name), "after": after.get(name)}
        for name in sorted((before.keys() | after.keys()) - left_out)
        if before.get(name) != after.get(name)
    }


def part_changes(
    before: Sequence[Document], after: Sequence[Document], names: Names, *, label: str
) -> dict[str, Any]:
    """Which parts (blocks, tools) came and went, and how the others changed: the fields that
    differ, long texts line by line. `names` are what the moments are called in these, `label` the
    field that people know a part by."""
    old, new = ({part["id"]: part for part in parts} for parts in (before, after))
    changed = [
        {"id": part_id, label: part.get(label), **changes}
        for part_id, part in new.items()
        if part_id in old and (changes := changes_of_part(old[part_id], part, names))
    ]
    return {
        "added": [shown_part(part, label) for name, part in new.items() if name not in old],
        "removed": [shown_part(part, label) for name, part in old.items() if name not in new],
        "changed": changed,
    }


def shown_part(part: Document, label: str) -> dict[str, Any]:
    """A part that came or went: of a block its value too."""
    shown = {"id": part["id"], label: part.get(label)}
    return {**shown, "value": part["value"]} if "value" in part else shown


def changes_of_part(before: Document, after: Document, names: Names) -> dict[str, Any]:
    """The changes of a part; empty for none."""
    fields = field_changes(before, after, STAMPS | TEXTS)
    texts = {
        f"{name}_diff": lines
        for name in sorted(TEXTS & before.keys() & after.keys())
        if (lines := diff(before[name] or "", after[name] or "", *names))
    }
    return {"fields": fields, **texts} if fields or texts else {}


def context_changes(before: Sequence[str], after: Sequence[str]) -> dict[str, Any]:
    """Which messages models are shown that they were not, and the other way round."""
    old, new = set(before), set(after)
    return {
        "before": len(before),
        "after": len(after),
        "added": bounded_list([name for name in after if name not in old]),
        "removed": bounded_list([name for name in before if name not in new]),
    }


def bounded_list(items: Sequence[Any], total: int | None = None) -> dict[str, Any]:
    """A list that is cut where it is long, and how many there are."""
    return {"total": len(items) if total is None else total, "items": [*items[:LISTED_MAX]]}
