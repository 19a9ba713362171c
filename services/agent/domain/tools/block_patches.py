"""Patches of memory blocks as models write them: a unified diff of one block, or sections for
several."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from libs.contracts.memory.blocks import ReplaceLines
from libs.contracts.outside_texts import lines_of

SECTIONS_MAX = 20
CHANGES_MAX = 200
LINES_MAX = 20_000

_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) Block:\s*(.*)")
_MOVE = re.compile(r"\*\*\* Move to:\s*(.*)")
_DESCRIPTION = "Description:"
_ENVELOPE = re.compile(r"\*\*\* (Begin|End) (Patch|of File)\s*")
_FILE_HEADER = re.compile(r"(---|\+\+\+)( .*|$)|diff |index ")


@dataclass(slots=True)
class BlockPatch:
    """The changes of a patch to one block: `new_label` is where an update moves it to."""

    kind: Literal["Add", "Update", "Delete"]
    label: str
    new_label: str | None = None
    value: str = ""
    description: str | None = None
    changes: list[ReplaceLines] = field(default_factory=list)


def block_patches(label: str, patch: str) -> list[BlockPatch] | str:
    """The patches of a text, in its order, or the reason why it cannot be read, written for the
    model. Without sections it is for the block `label`."""
    lines = lines_of(patch.replace("\x00", ""))
    if len(lines) > LINES_MAX:
        return f"The patch has {len(lines)} lines: at most {LINES_MAX} in one call."
    starts = [number for number, line in enumerate(lines) if _SECTION.match(line)]
    if len(starts) > SECTIONS_MAX:
        return f"The patch has {len(starts)} sections: at most {SECTIONS_MAX} in one call."
    if not starts:
        if not label:
            return "`label` says which block a plain diff is for: it is empty."
        found = BlockPatch("Update", label)
        problem = read_update(found, lines, 1)
        return problem or [found]
    patches = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        read = read_section(lines[start], lines[start + 1 : end], start + 2)
        if isinstance(read, str):
            return read
        patches.append(read)
    return patches


def read_section(head: str, body: list[str], number: int) -> BlockPatch | str:
    """One section, whose body begins in the line of this number."""
    match = _SECTION.match(head)
    assert match is not None
    while body and not body[-1]:
        body.pop()
    found = BlockPatch(match[1], match[2].strip())  # type: ignore[arg-type]
    if not found.label:
        return f"Line {number - 1} names no block."
    match found.kind:
        case "Update":
            return read_update(found, body, number) or found
        case "Add":
            if body and body[0].startswith(_DESCRIPTION):
                found.description = body.pop(0).removeprefix(_DESCRIPTION).strip()
            kept = [line for line in body if not _ENVELOPE.fullmatch(line)]
            wrong = next((line for line in kept if line and not line.startswith("+")), None)
            if wrong is not None:
                return f"The value of '{found.label}' has a line without '+' before it: {wrong!r}"
            found.value = "\n".join(line[1:] for line in kept)
    return found


def read_update(found: BlockPatch, lines: list[str], number: int) -> str | None:
    """Read the hunks of an update into it; returns why that cannot be done, if so."""
    hunks: list[tuple[list[str], list[str]]] = []
    current: tuple[list[str], list[str]] | None = None
    for place, line in enumerate(lines, start=number):
        moved = _MOVE.match(line)
        if moved:
            found.new_label = moved[1].strip() or None
        elif line.startswith("@@"):
            current = ([], [])
            hunks.append(current)
        elif _ENVELOPE.fullmatch(line) or (current is None and _FILE_HEADER.match(line)):
            continue
        elif not line.startswith("\\"):
            if current is None:
                current = ([], [])
                hunks.append(current)
            if line[:1] not in ("", " ", "+", "-"):
                return f"Line {place} begins with none of ' ', '+', '-' and '@@': {line!r}"
            if line[:1] != "+":
                current[0].append(line[1:])
            if line[:1] != "-":
                current[1].append(line[1:])
    changes = [ReplaceLines(old_lines=old, new_lines=new) for old, new in hunks if old != new]
    if not changes and found.new_label is None:
        return f"The patch changes nothing in the block '{found.label}'."
    if len(changes) > CHANGES_MAX:
        return f"The patch has {len(changes)} hunks: at most {CHANGES_MAX} in one call."
    found.changes = changes
    return None
