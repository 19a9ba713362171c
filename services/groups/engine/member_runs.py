"""Have a member of a group answer: start its run, wait for its end, read what it said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from libs.bus.ports import Bus, Clock
from libs.contracts.agent.approvals import CallAnswer
from libs.contracts.agent.conversations import Usage
from libs.contracts.agent.runs import ClientTool
from libs.contracts.bus_messages import (
    NOT_FOUND,
    Accepted,
    Context,
    Rejected,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.group_runs import Said, ToolCallMade
from libs.contracts.groups.groups import UpdateGroupState
from libs.contracts.shortened_text import cut
from libs.work.acceptance import NOT_WANTED, ask_until_accepted
from libs.work.agent_runs import AgentRuns, RunProgress, WantedRun, text_of
from libs.work.deliveries import Deliveries
from services.groups.domain.conversations.group_conversation import MemberRunOutcome
from services.groups.domain.conversations.group_conversation_state import MemberCleanup, MemberRun
from services.groups.domain.conversations.member_messages import messages_for
from services.groups.domain.conversations.run_steps import RunView
from services.groups.domain.managers.member_tools import (
    GROUP_TOOLS,
    STATE_WRITES_MAX,
    WRITE_STATE,
    ask_members_tool,
    hand_over_tool,
    read_state_write,
    write_state_tool,
)

# How long a member may have no room for one message more, before the others go on without it.
BUSY_SECONDS_MAX = 600.0
# What of one message of a member stands in the transcript; its own history has all of it.
SAID_CHARS_MAX = 50_000
# What of the shared state a member is told when it has written it.
STATE_ANSWER_CHARS_MAX = 4_000
REQUIRES_APPROVAL = "requires_approval"
GONE = "the agent was deleted"
HAS_LEFT = "the agent has left the group"
WAITS = "a call of a tool waits for an approval, which no member of a group can give"


class MemberRuns:
    """Has members answer. `still_takes_part` says whether an answer is still wanted."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        runs: AgentRuns,
        still_takes_part: Callable[[MemberRun], Awaitable[bool]],
    ) -> None:
        self.bus = bus
        self.clock = clock
        self.runs = runs
        self.deliveries = Deliveries(runs, clock)
        self.still_takes_part = still_takes_part

    async def outcome(self, view: RunView, hop: MemberRun, context: Context) -> MemberRunOutcome:
        """What came of a member run. Raises StoreUnavailable; safe to repeat."""
        ended = await self.answer(view, hop, context)
        if isinstance(ended, Rejected) and hop.answers and is_about_answers(ended):
            # Nobody waits for these answers any more: they go without.
            ended = await self.answer(view, hop.model_copy(update=NO_ANSWERS), context)
        if ended is None or ended is NOT_WANTED:
            return MemberRunOutcome(status="skipped", reason=HAS_LEFT if ended else GONE)
        if isinstance(ended, Rejected):
            gone = ended.code == NOT_FOUND
            return MemberRunOutcome(status="skipped" if gone else "failed", reason=ended.reason)
        outcome = outcome_of(ended, await self.runs.messages(context.org, hop.run_id))
        if outcome.reason == WAITS:
            await self.withdraw(hop, context)
        calls = [await self.answer_write(view, hop, call, context) for call in outcome.calls]
        return replace(outcome, calls=calls)

    async def answer(
        self, view: RunView, hop: MemberRun, context: Context
    ) -> RunProgress | Rejected | None:
        """How the member's run ended, or why it was not accepted: also where its answer is not
        wanted any more, or it was busy for too long."""
        return await self.deliveries.answer(
            wanted_run(view, hop),
            context,
            seconds_max=BUSY_SECONDS_MAX,
            goes_on=lambda _: self.still_takes_part(hop),
        )

    async def answer_write(
        self, view: RunView, hop: MemberRun, call: ToolCallMade, context: Context
    ) -> ToolCallMade:
        """The call, with its answer if it writes the shared state: then that is written, once,
        however often this is repeated."""
        if call.name != WRITE_STATE:
            return call
        wanted = read_state_write(call)
        if wanted is None:
            return call.model_copy(update={"answer": NO_STATE})
        command = UpdateGroupState(group_id=view.state.group_id, document=wanted.state)
        cause = context.follow_up(derived_id("state", hop.run_id, call.id))
        reply = await ask_until_accepted(self.bus, self.clock, command, cause)
        return call.model_copy(update={"answer": answer_to_write(reply)})

    async def withdraw(self, hop: MemberRun | MemberCleanup, context: Context) -> None:
        """Cancel a run whose answer is not wanted."""
        await self.deliveries.withdraw(hop.agent_id, hop.run_id, context, hop.conversation_id)


def is_about_answers(refused: Rejected) -> bool:
    """Whether a member may be asked without the answers to its calls."""
    return refused.code != NOT_FOUND and refused.next_try != "again" and refused is not NOT_WANTED


NO_STATE = "Nothing was written: call it with `state`, a JSON object"


def answer_to_write(reply: Accepted | Rejected) -> str:
    """What a member is told about a write of the shared state."""
    if isinstance(reply, Rejected):
        return f"Nothing was written: {reply.reason}"
    state = cut(to_json(reply.result["state"]).decode(), STATE_ANSWER_CHARS_MAX)
    return f"Written. The shared state is now: {state}"


NO_ANSWERS: dict[str, Any] = {"answers": [], "answers_say_all": False}


def wanted_run(view: RunView, hop: MemberRun) -> WantedRun:
    """The run with which a member answers."""
    created_at = view.run.messages[0].created_at
    member = view.state.members.get(hop.agent_id)
    group = view.config.name or view.state.group_id
    summary = f"Conversation of the group {group}"
    return WantedRun(
        run_id=hop.run_id,
        agent_id=hop.agent_id,
        conversation_id=hop.conversation_id,
        new_conversation=None
        if member and member.is_made
        else {"summary": summary, "hidden": True},
        created_at=created_at,
        messages=messages_for(view.state, hop, view.briefing, at=created_at),
        metadata={
            "run_type": "group",
            "group_id": view.state.group_id,
            "group_run_id": view.run.id,
            "hop": hop.hop,
        },
        max_steps=view.run.max_steps,
        client_tools=tuple(tools_of(view, hop)),
        callers=tuple(view.run.callers),
        answers=tuple(
            CallAnswer(
                tool_call_id=answer.tool_call_id,
                kind="returned",
                content=cut(answer.content, SAID_CHARS_MAX),
            )
            for answer in hop.answers
        ),
    )


def tools_of(view: RunView, hop: MemberRun) -> list[ClientTool]:
    """The tools of the group that a member has in a member run. Where the group has a shared state,
    one writes it, but not in private, since all members see it."""
    if view.run.recipients or hop.purpose == "pick":
        return []
    tools = [*tools_of_type(view, hop)]
    if view.shared_state and writes_before(view, hop) < STATE_WRITES_MAX:
        tools.append(write_state_tool(view.config.shared_state_mode))
    return tools


def writes_before(view: RunView, hop: MemberRun) -> int:
    """How often the member has written the shared state in this turn."""
    before, count = hop.continues, 0
    while before is not None:
        before, count = view.run.hops[before].continues, count + 1
    return count


def tools_of_type(view: RunView, hop: MemberRun) -> list[ClientTool]:
    """The tools with which a member has others speak."""
    if hop.purpose != "answer":
        return []
    members = list(view.facts.members)
    others = [member for member in members if member.agent_id != hop.agent_id]
    match view.config.manager_type:
        case "swarm" if others:
            return [hand_over_tool(others)]
        case "supervisor" if members:
            return [ask_members_tool(members)]
    return []


def outcome_of(ended: RunProgress, v1_messages: list[dict[str, Any]]) -> MemberRunOutcome:
    """What a member said in a run that has ended, or why it could not."""
    usage = ended.usage or {}
    said, calls = said_in(v1_messages), calls_in(v1_messages)
    waits = ended.stop_reason == REQUIRES_APPROVAL
    own = waits and bool(calls) and all(call.name in GROUP_TOOLS for call in calls)
    reason = ""
    if ended.status != "completed":
        error = ended.error or {}
        reason = str(error.get("message") or error.get("detail") or f"its run is {ended.status}")
    elif waits and not own:
        reason = WAITS
    return MemberRunOutcome(
        status="failed" if reason else "completed",
        reason=reason,
        said=said,
        calls=calls if own else [],
        usage=Usage.model_validate({name: count or 0 for name, count in usage.items()}),
        step_count=int(str(usage.get("step_count") or 0)),
    )


def said_in(v1_messages: list[dict[str, Any]]) -> list[Said]:
    """What a member said, message by message."""
    texts: dict[str, list[str]] = {}
    for message in v1_messages:
        if message["message_type"] == "assistant_message" and (text := text_of(message["content"])):
            texts.setdefault(str(message["id"]), []).append(text)
    return [
        Said(message_id=message_id, content=cut("\n".join(parts), SAID_CHARS_MAX))
        for message_id, parts in texts.items()
    ]


def calls_in(v1_messages: list[dict[str, Any]]) -> list[ToolCallMade]:
    """The calls that wait at the end of a run."""
    asked = [each for each in v1_messages if each["message_type"] == "approval_request_message"]
    if not asked:
        return []
    return [
        ToolCallMade(id=call["tool_call_id"], name=call["name"], arguments=call["arguments"])
        for call in asked[-1]["tool_calls"]
    ]
