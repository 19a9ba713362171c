"""Checks of single lines: ids that subjects can have, and files that are whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from libs.contracts.agent.approvals import (
    ApprovalAnswered,
    ApprovalCancelled,
    ApprovalExpired,
    ApprovalRequested,
)
from libs.contracts.agent.steps import ModelReplied
from libs.contracts.agent_file import (
    Definition,
    FileText,
    Footer,
    Header,
    HistoryPart,
    SecretValues,
)
from libs.contracts.appended_histories import is_fit_id
from libs.contracts.bus_messages import Event

type AnyLine = Header | Definition | HistoryPart | FileText | SecretValues | Footer


def unfit_id(line: AnyLine) -> str | None:
    """The first id of a line that no subject can have; None if there is none."""
    return next((name for name in ids_of(line) if not is_fit_id(name)), None)


def ids_of(line: AnyLine) -> Iterator[str]:
    """The ids that a line names. Projects may have had other names elsewhere: they get new ids."""
    match line:
        case Header():
            yield from line.agent_ids
        case Definition():
            yield from () if line.of == "project" else (line.id,)
            yield from line.attached_to
        case HistoryPart():
            yield line.history.aggregate_id
        case FileText():
            yield from (line.file_id, line.folder_id)
        case _:
            pass


@dataclass(slots=True)
class FileParts:
    """Which part of a file comes next: files come one after the other, each with all its parts."""

    file_id: str = ""
    number: int = 0
    parts: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all parts of the latest file have come."""
        return self.number == self.parts

    def take(self, part: FileText) -> str | None:
        """Take the next part; what is wrong with it, if anything is."""
        if self.is_whole:
            count = part.value.get("parts", 1)
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                return "`value.parts` has to be the number of parts of the file"
            self.file_id, self.number, self.parts = part.file_id, 0, count
        if part.file_id != self.file_id or part.number != self.number:
            return (
                f"part {self.number} of {self.file_id[:100]} has to come, and not part"
                f" {part.number} of {part.file_id[:100]}"
            )
        self.number += 1
        return None


@dataclass(slots=True)
class WaitingCalls:
    """Which calls of the latest step of a conversation would be carried out without a question,
    once its client answers what it is asked: whoever wrote the file made them."""

    unasked: list[str] = field(default_factory=list)
    is_waiting: bool = False

    def take(self, event: Event) -> None:
        """Take the next event of the conversation."""
        match event:
            case ModelReplied():
                self.unasked = [call.name for call in event.tool_calls if not call.gated]
            case ApprovalRequested():
                self.is_waiting = True
            case ApprovalAnswered():
                self.is_waiting = bool(event.waiting)
                self.unasked += [
                    answer.tool_call_id for answer in event.answers if answer.kind == "approved"
                ]
            case ApprovalExpired() | ApprovalCancelled():
                self.is_waiting = False

    @property
    def problem(self) -> str | None:
        """The problem at the end of the conversation, if there is one."""
        if not self.is_waiting or not self.unasked:
            return None
        return (
            f"`{self.unasked[0][:100]}` would be called without a question when an approval is"
            " answered: answer that before the export, or say `accept_tools`"
        )
