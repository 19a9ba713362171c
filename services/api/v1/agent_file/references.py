"""Whether everything that an agent file refers to is in it, once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from services.api.v1.agent_file.agent_file import AgentFile
from services.api.v1.agent_file.entry_models import AgentEntry
from services.api.v1.agent_file.entry_problems import EntryErrors, Path

AGENT_BLOCKS_MAX = 500


class Identified(Protocol):
    """An entry with an id of the file."""

    @property
    def id(self) -> str: ...


def check_references(file: AgentFile, errors: EntryErrors) -> None:
    """Note each id that stands twice, and each that leads nowhere."""
    for kind in ("agents", "groups", "blocks", "files", "sources", "tools", "mcp_servers"):
        check_unique(file, kind, getattr(file, kind), errors)
    known = {
        kind: {entry.id for entry in getattr(file, kind)}
        for kind in ("agents", "blocks", "files", "sources", "tools", "groups")
    }
    for index, agent in enumerate(file.agents):
        place = file.agent_place(index)
        check_agent(place, agent, known, errors)
        check_labels(place, agent, file, errors)
        ids = file.messages[index].places
        check_named((*place, "in_context_message_ids"), agent.in_context_message_ids, ids, errors)
        check_repeated((*place, "in_context_message_ids"), agent.in_context_message_ids, errors)
    for index, entry in enumerate(file.files):
        check_named(("files", index, "source_id"), [entry.source_id], known["sources"], errors)
    for index, group in enumerate(file.groups):
        check_named(("groups", index, "agent_ids"), group.agent_ids, known["agents"], errors)
        shared = group.shared_block_ids
        check_named(("groups", index, "shared_block_ids"), shared, known["blocks"], errors)
        manager = group.manager_config.manager_agent_id
        if manager is not None:
            place = ("groups", index, "manager_config", "manager_agent_id")
            check_named(place, [manager], known["agents"], errors)


def check_unique(
    file: AgentFile, kind: str, entries: Sequence[Identified], errors: EntryErrors
) -> None:
    """Note ids that several entries of a list have."""
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if entry.id in seen:
            errors.add(file.place(kind, index), f"'{entry.id}' is the id of another entry")
        seen.add(entry.id)


def check_agent(
    place: Path, agent: AgentEntry, known: dict[str, set[str]], errors: EntryErrors
) -> None:
    """Note what an agent refers to that is not in the file."""
    for name, kind in (
        ("tool_ids", "tools"),
        ("block_ids", "blocks"),
        ("source_ids", "sources"),
        ("folder_ids", "sources"),
    ):
        check_named((*place, name), getattr(agent, name), known[kind], errors)
    for number, opened in enumerate(agent.files_agents):
        entry = (*place, "files_agents", number)
        check_named((*entry, "file_id"), [opened.file_id], known["files"], errors)
        check_named((*entry, "source_id"), [opened.source_id], known["sources"], errors)


def check_named(place: Path, ids: Sequence[str], known: Iterable[str], errors: EntryErrors) -> None:
    """Note ids that lead nowhere."""
    found = known if isinstance(known, dict | set) else set(known)
    for number, name in enumerate(ids):
        if name not in found:
            where = place if place[-1] not in LISTS else (*place, number)
            errors.add(where, f"there is no '{name[:100]}' in the file")


LISTS = {
    "agent_ids", "block_ids", "folder_ids", "in_context_message_ids", "shared_block_ids",
    "source_ids", "tool_ids",
}  # fmt: skip


def check_repeated(place: Path, ids: Sequence[str], errors: EntryErrors) -> None:
    """Note ids that stand in a list twice."""
    seen: set[str] = set()
    for number, name in enumerate(ids):
        if name in seen:
            errors.add((*place, number), f"'{name[:100]}' stands in the list twice")
        seen.add(name)


def check_labels(place: Path, agent: AgentEntry, file: AgentFile, errors: EntryErrors) -> None:
    """Note blocks of an agent that have the same label: an agent names its blocks by it."""
    by_id = {block.id: block.label for block in file.blocks}
    seen: dict[str, str] = {}
    for number, (name, label) in enumerate(labels_of(agent, by_id)):
        if label in seen:
            why = f"'{name}' and '{seen[label]}' both have the label '{label}'"
            errors.add((*place, "block_ids", number), why)
        seen[label] = name
    if len(seen) > AGENT_BLOCKS_MAX:
        errors.add((*place, "block_ids"), f"an agent has at most {AGENT_BLOCKS_MAX} blocks")


def labels_of(agent: AgentEntry, by_id: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The blocks of an agent, each with its label."""
    for name in dict.fromkeys(agent.block_ids):
        if name in by_id:
            yield name, by_id[name]
    for number, block in enumerate(agent.memory_blocks):
        yield f"memory_blocks[{number}]", block.label
