"""A memory block: a labelled text with a limit, whose every edit is an event."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ValidationError

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    UNPROCESSABLE,
    Event,
    JsonObject,
    Rejected,
)
from libs.contracts.letta.blocks import BlockState, block_state
from libs.contracts.memory.blocks import (
    BlockChanged,
    BlockCreated,
    BlockDeleted,
    Cause,
    Edit,
    InsertText,
    RenameBlock,
    ReplaceLines,
    ReplaceText,
    RestoreBlock,
)
from libs.contracts.prompt_escaping import unescape_tags
from libs.contracts.state_size_limits import oversize_block, size

LABEL_CHARS_MAX = 200
LIMIT_CHARS_MAX = 2**31 - 1
# Of a text that stands in a block more than once.
LINES_NAMED_MAX, PLACES_COUNTED_MAX = 20, 10
UNCHANGEABLE = {"id", "created_by_id"}


@dataclass(frozen=True, slots=True)
class SameLabel:
    """A block that has the label which another block of the same agent is to get."""

    agent_id: str
    block_id: str


class MemoryBlockState(BaseModel):
    """The state of a block."""

    block: BlockState | None = None
    deleted: bool = False


class Block(Aggregate[MemoryBlockState]):
    """One memory block."""

    State = MemoryBlockState
    begins_with = (BlockCreated,)

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    @property
    def present(self) -> BlockState | None:
        """The block, unless it is gone or was never there."""
        return None if self.state.deleted else self.state.block

    def create(
        self, block: BlockState, *, at: datetime, agent_id: str = "", conversation_id: str = ""
    ) -> Rejected | None:
        """Begin to exist, for an agent, for a conversation or for none."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"Block {block.id} exists already")
        problem = unfit(block)
        if problem:
            return problem
        self.record(
            BlockCreated,
            at=at,
            block=block,
            agent_id=agent_id,
            conversation_id=conversation_id,
        )
        return None

    def renames(self, changes: JsonObject) -> str | None:
        """The label that these changes give the block, if it has another one now."""
        label = changes.get("label")
        block = self.present
        return label if block and isinstance(label, str) and label != block.label else None

    def update(
        self, changes: JsonObject, *, at: datetime, cause: Cause | None = None
    ) -> Rejected | None:
        """Change fields; changing nothing is not an event."""
        block = self.present
        if block is None:
            return missing(self.id)
        changed = {
            name: value
            for name, value in changes.items()
            if name not in UNCHANGEABLE and name in BlockState.model_fields
        }
        try:
            after = BlockState.model_validate({**block.model_dump(), **changed})
        except ValidationError as invalid:
            return Rejected(code=INVALID, reason=f"Block {self.id}: {why(invalid)}")
        if after == block:
            return None
        problem = unfit(after, before=block)
        if problem:
            return problem
        plain = after.model_dump(mode="json")
        changes = {name: plain[name] for name in changed}
        self.record(BlockChanged, at=at, changes=changes, cause=cause)
        return None

    def restore(
        self, fields: JsonObject, command: RestoreBlock, *, at: datetime
    ) -> Rejected | None:
        """Have the fields of an earlier version again; what is the same now is not an event."""
        block = self.present
        if block is None:
            return missing(self.id)
        if command.if_version not in (None, self.version):
            reason = (
                f"Block {self.id} is at version {self.version} and not at `if_version`"
                f" {command.if_version}: look at what was changed since"
            )
            return Rejected(code=CONFLICT, reason=reason)
        plain = block.model_dump(mode="json")
        changes: JsonObject = {
            name: value
            for name, value in fields.items()
            if name in plain and name not in UNCHANGEABLE and plain[name] != value
        }
        if not changes:
            return None
        problem = unfit(BlockState.model_validate({**plain, **changes}), before=block)
        if problem:
            return problem
        self.record(BlockChanged, at=at, changes=changes, restored_version=command.version)
        return None

    def edit(self, edit: Edit, cause: Cause, *, at: datetime) -> Rejected | None:
        """Edit the value as a tool call asks; the refusal is written for the model."""
        block = self.writable()
        if isinstance(block, Rejected):
            return block
        value = value_after(block, edit)
        return value if isinstance(value, Rejected) else self.rewrite(value, cause, at=at)

    def patch(self, changes: list[ReplaceLines], cause: Cause, *, at: datetime) -> Rejected | None:
        """Replace lines in several places, all or none; the refusal is written for the model."""
        block = self.writable()
        if isinstance(block, Rejected):
            return block
        value = replace_lines(block, changes)
        return value if isinstance(value, Rejected) else self.rewrite(value, cause, at=at)

    def rename(self, command: RenameBlock, *, at: datetime) -> Rejected | None:
        """Have another label or description, as a tool call asks."""
        block = self.writable()
        if isinstance(block, Rejected):
            return block
        if block.label != command.old_label:
            reason = f"The memory block is not labelled '{command.old_label}', but '{block.label}'."
            return Rejected(code=UNPROCESSABLE, reason=reason)
        wanted = {"label": command.label, "description": command.description}
        changes: JsonObject = {name: value for name, value in wanted.items() if value is not None}
        return self.update(changes, at=at, cause=command.cause)

    def rewrite(self, value: str, cause: Cause, *, at: datetime) -> Rejected | None:
        """Have another value, as a tool call asks; the refusal is written for the model."""
        block = self.writable()
        if isinstance(block, Rejected):
            return block
        return self.update({"value": value.replace("\x00", "")}, at=at, cause=cause)

    def writable(self) -> BlockState | Rejected:
        """The block, if tools may change it."""
        block = self.present
        if block is None:
            return missing(self.id)
        if block.read_only:
            return Rejected(
                code=UNPROCESSABLE,
                reason=f"The memory block '{block.label}' is read-only and cannot be edited.",
            )
        return block

    def delete(self, *, at: datetime) -> Rejected | None:
        """Delete the block, if it exists."""
        if self.present is None:
            return missing(self.id)
        self.record(BlockDeleted, at=at)
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case BlockCreated():
                self.state.block = event.block
            case BlockChanged():
                assert self.state.block is not None, "a block is created before it changes"
                self.state.block = BlockState.model_validate(
                    {**self.state.block.model_dump(), **event.changes}
                )
            case BlockDeleted():
                self.state.deleted = True


def why(invalid: ValidationError) -> str:
    """The problem with the fields of a block."""
    return "; ".join(
        f"`{'.'.join(map(str, error['loc']))}`: {error['msg']}" for error in invalid.errors()
    )


def missing(block_id: str) -> Rejected:
    """The refusal for a block that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Block with id '{block_id}' not found")


def no_version(block_id: str, version: int) -> Rejected:
    """The refusal for a version that a block never had."""
    return Rejected(code=NOT_FOUND, reason=f"Block '{block_id}' has no version {version}")


def refuse_label(block_id: str, label: str, other: SameLabel) -> Rejected:
    """The refusal of a label that another block of the same agent has."""
    reason = (
        f"`label`: block '{other.block_id}' of agent '{other.agent_id}' has the label '{label}' "
        f"already, and an agent's labels must differ: choose another, or detach '{block_id}' or "
        f"'{other.block_id}' first"
    )
    return Rejected(code=CONFLICT, reason=reason)


def unfit(block: BlockState, before: BlockState | None = None) -> Rejected | None:
    """Why a block cannot be as it is, if so. One that was too large before may become smaller."""
    if not block.label:
        return Rejected(code=UNPROCESSABLE, reason="`label` must not be empty: give the block one")
    if len(block.label) > LABEL_CHARS_MAX:
        return Rejected(
            code=UNPROCESSABLE,
            reason=f"`label` may have at most {LABEL_CHARS_MAX} characters: shorten it",
        )
    if block.limit < 1:
        return Rejected(code=UNPROCESSABLE, reason="`limit` must be at least 1 character")
    if block.limit > LIMIT_CHARS_MAX:
        reason = f"`limit` may be at most {LIMIT_CHARS_MAX} characters: lower it"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    if len(block.value) > block.limit:
        return Rejected(
            code=UNPROCESSABLE,
            reason=(
                f"`value` of block '{block.label}' has {len(block.value)} characters, more than "
                f"its `limit` of {block.limit}: shorten the value or raise the limit"
            ),
        )
    too_large = oversize_block(block_state(block))
    if too_large and (before is None or size(block) > size(before)):
        return Rejected(code=UNPROCESSABLE, reason=too_large)
    return None


def value_after(block: BlockState, edit: Edit) -> str | Rejected:
    """The value after an edit, or what the model should do differently."""
    match edit:
        case ReplaceText():
            return replace_text(block, edit)
        case InsertText():
            return insert_text(block, edit)


def replace_text(block: BlockState, edit: ReplaceText) -> str | Rejected:
    """The value with the only occurrence of a text replaced, or with every one. Models see the
    value escaped, so a text that they quote is also looked for unescaped."""
    found = block.value.count(edit.old_text) if edit.old_text else 0
    meant = ReplaceText(
        old_text=unescape_tags(edit.old_text),
        new_text=unescape_tags(edit.new_text),
        every=edit.every,
    )
    if found == 0 and meant.old_text != edit.old_text and meant.old_text in block.value:
        return replace_text(block, meant)
    if found == 1 or (found and edit.every):
        return block.value.replace(edit.old_text, edit.new_text)
    if found == 0:
        reason = (
            f"Nothing was replaced: the text `{edit.old_text}` does not stand in the memory block "
            f"'{block.label}' exactly like that."
        )
    else:
        lines = lines_with(block.value, edit.old_text)
        reason = (
            f"Nothing was replaced: the text `{edit.old_text}` stands {found} times in the memory "
            f"block '{block.label}' (lines [{lines}]). Give a longer text that stands there once."
        )
    return Rejected(code=UNPROCESSABLE, reason=reason)


def lines_with(value: str, text: str) -> str:
    """The numbers of the first lines in which a text stands."""
    found: list[str] = []
    number, at = 1, value.find(text)
    counted = 0
    while at >= 0 and len(found) < LINES_NAMED_MAX:
        number += value.count("\n", counted, at)
        found.append(str(number))
        counted, at = at, value.find(text, at + len(text))
    return ", ".join(dict.fromkeys(found)) + (", ..." if at >= 0 else "")


def insert_text(block: BlockState, edit: InsertText) -> str | Rejected:
    """The value with lines inserted; an empty block has no lines."""
    lines = block.value.split("\n") if block.value else []
    after = len(lines) if edit.after_line == -1 else edit.after_line
    if not 0 <= after <= len(lines):
        return Rejected(
            code=UNPROCESSABLE,
            reason=(
                f"`insert_line` is {edit.after_line}, but the memory block '{block.label}' has "
                f"{len(lines)} lines: use 0 to {len(lines)}, or -1 for the end."
            ),
        )
    return "\n".join([*lines[:after], *edit.new_text.split("\n"), *lines[after:]])


def replace_lines(block: BlockState, changes: list[ReplaceLines]) -> str | Rejected:
    """The value with lines replaced in several places, one after the other."""
    text = frame(block.value.split("\n") if block.value else [])
    for number, change in enumerate(changes, start=1):
        places = places_of(text, change)
        if len(places) != 1:
            change = plain(change)
            places = places_of(text, change)
        if len(places) != 1:
            old = "\n".join(change.old_lines)
            stand = f"stand {len(places)} times" if places else "do not stand"
            reason = (
                f"Nothing was changed: the lines of change {number} {stand} in the memory block "
                f"'{block.label}'. They have to stand there exactly once, as whole lines:\n{old}"
            )
            return Rejected(code=UNPROCESSABLE, reason=reason)
        after = places[0] + len(frame(change.old_lines))
        text = text[: places[0]] + frame(change.new_lines) + text[after:]
    return text[1:-1]


def frame(lines: list[str]) -> str:
    """The lines as a text in which each stands between two line ends."""
    return "\n" + "".join(f"{line}\n" for line in lines)


def places_of(text: str, change: ReplaceLines) -> list[int]:
    """Where the old lines of a change stand in a framed text, as far as it matters."""
    old = frame(change.old_lines)
    if not change.old_lines:
        return [len(text) - 1]
    places: list[int] = []
    at = text.find(old)
    while at >= 0 and len(places) < PLACES_COUNTED_MAX:
        places.append(at)
        at = text.find(old, at + 1)
    return places


def plain(change: ReplaceLines) -> ReplaceLines:
    """A change as it is meant by who quotes lines as models see them, escaped."""
    return ReplaceLines(
        old_lines=[unescape_tags(line) for line in change.old_lines],
        new_lines=[unescape_tags(line) for line in change.new_lines],
    )
