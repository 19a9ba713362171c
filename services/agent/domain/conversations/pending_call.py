"""A tool call of the step that a run stands in, until it has a result."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from libs.contracts.agent.approvals import RecordedAnswer, arguments_hash
from libs.contracts.agent.conversations import Message, ToolCall


class PendingCall(BaseModel):
    """A tool call that the model asked for in this step; `refused` if its rules or the user do not
    allow it. One that is `concurrent` may run beside others. Its result is `held` while a call
    before it has none: results are shown in the order of the calls. A gated one has the client's
    answer before anything becomes of it. A program has `called` other tools."""

    call: ToolCall
    state: Literal["waiting", "started", "finished"] = "waiting"
    refused: bool = False
    concurrent: bool = False
    held: Message | None = None
    answer: RecordedAnswer | None = None
    called: list[str] = []

    @property
    def names(self) -> list[str]:
        """The tools that were called, the one that the model called last."""
        return [*self.called, self.call.name]

    @property
    def shown(self) -> bool:
        """Whether its result is in the history."""
        return self.state == "finished" and self.held is None

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing may become of it before the client answers."""
        return self.call.gated and self.answer is None and self.state == "waiting"

    @property
    def approved(self) -> bool:
        """Whether it may be carried out: it needs no approval, or has one for its arguments."""
        if not self.call.gated:
            return True
        answer = self.answer
        if answer is None or answer.kind != "approved":
            return False
        return answer.arguments_hash == arguments_hash(self.call)
