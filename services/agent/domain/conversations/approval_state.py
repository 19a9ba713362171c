"""The calls of a step until they have results, and which of them wait for the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal

from pydantic import BaseModel

from libs.contracts.agent.approvals import RecordedAnswer, arguments_hash
from libs.contracts.agent.conversations import BoundTool, Message, ToolCall
from libs.contracts.agent.runs import ClientSkill, ClientTool

CallState = Literal["waiting", "started", "finished"]


class PendingCall(BaseModel):
    """A tool call that the model asked for in this step; `refused` if its rules or the user do not
    allow it. One that is `concurrent` may run beside others. Its result is `held` while a call
    before it has none: results are shown in the order of the calls. A gated one has the client's
    answer before anything becomes of it. A program has `called` other tools."""

    call: ToolCall
    state: CallState = "waiting"
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


ANSWERED_CALLS_KEPT_MAX = 64

# Why no answer may come any more; empty where one came.
Ended = Literal["", "expired", "cancelled"]


class Gate(BaseModel):
    """The things that a run leaves to the client: calls that need its approval, tools that it
    carries out itself, and the skills that its environment has."""

    approvals: list[str] = []
    client_tools: list[ClientTool] = []
    client_skills: list[ClientSkill] = []

    @property
    def by_client(self) -> set[str]:
        """The tools that the client carries out."""
        return {tool.name for tool in self.client_tools}

    @property
    def tools(self) -> set[str]:
        """The tools whose calls wait."""
        return self.by_client.union(self.approvals)


class PendingApproval(BaseModel):
    """A step whose calls wait for the client. `message_id` is the message with the calls: it stays
    in the window, whatever is left out of that, because its results are still to come."""

    run_id: str
    step_id: str
    message_id: str
    requested_at: datetime
    calls: list[PendingCall]
    # What the client was shown, by call: an approval holds for that and nothing else.
    hashes: dict[str, str] = {}
    by_client: list[str] = []
    offered: list[str] | None = None
    called: list[str] = []

    @property
    def calls_by_id(self) -> dict[str, PendingCall]:
        """The calls that the client is asked about, by id."""
        return {pending.call.id: pending for pending in self.calls if pending.call.gated}

    @property
    def waiting(self) -> list[str]:
        """The ids of the calls that have no answer yet."""
        return [id for id, pending in self.calls_by_id.items() if pending.answer is None]


class AnsweredCall(BaseModel):
    """A call that does not wait any more: which run brought the answer, and whether that was
    cancelled, or why none may come."""

    tool_call_id: str
    run_id: str
    ended: Ended = ""
    run_cancelled: bool = False  # and nothing was said or reset since


@dataclass(frozen=True, slots=True)
class CallGates:
    """Which calls of a step are gated, which tools they mean, and as which ids they are recorded:
    an id that was answered before would let an old answer approve a new call."""

    step_id: str
    gated: frozenset[str]
    taken: frozenset[str]
    bound: Mapping[str, BoundTool]

    def id_of(self, call_id: str) -> str:
        """The id under which a gated call is recorded; providers take no longer ones."""
        if call_id not in self.taken:
            return call_id
        return f"call_{sha256(f'{self.step_id} {call_id}'.encode()).hexdigest()[:24]}"

    def mark_gated(self, call: ToolCall) -> ToolCall:
        """The call as it is recorded: marked if it waits for the client, with the id that the
        client sees."""
        if call.name not in self.gated:
            return call
        changes = {"gated": True, "id": self.id_of(call.id), "spoken_argument": ""}
        return call.model_copy(update={**changes, "bound": self.bound.get(call.name)})


NOTHING: Mapping[str, str] = {}
NOT_BOUND: Mapping[str, BoundTool] = {}
NO_GATES = CallGates("", frozenset(), frozenset(), NOT_BOUND)


def gates(
    gate: Gate | None,
    answered: Sequence[AnsweredCall],
    step_id: str,
    offered: list[str] | None,
    renamed: Mapping[str, str] = NOTHING,
    bound: Mapping[str, BoundTool] = NOT_BOUND,
) -> CallGates:
    """The gates of a step in which rules left the model these tools; None if all. What rules do not
    allow is refused without anybody being asked. A tool that is `renamed` waits as it did by the
    name that the rules know. `bound` are the agent's tools; a client's is the client's to know."""
    if gate is None:
        return NO_GATES
    names = gate.tools | {now for now, before in renamed.items() if before in gate.tools}
    if offered is not None:
        names &= set(offered)
    taken = frozenset(answer.tool_call_id for answer in answered)
    own = {name: tool for name, tool in bound.items() if name not in gate.by_client}
    return CallGates(step_id, frozenset(names), taken, own)
