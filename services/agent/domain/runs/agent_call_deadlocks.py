"""Agents that call each other: how far that goes, and who gives up where all wait for all.

An agent that waits for another one holds its own conversation meanwhile. So nobody is called who
waits, through others, for this very answer. Runs that clients began apart from each other may
still wait in a circle; then one call of the circle, the same for every process that looks, is given
up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from libs.contracts.agent.runs import HOPS_MAX, CallingRun
from libs.contracts.bus_messages import UNPROCESSABLE, Rejected


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that is waited for: the run that answers it, in line or under way, and the
    conversations of both."""

    run_id: str
    conversation_id: str
    caller_conversation_id: str
    in_line: bool


def refused_call(agent_id: str, callers: Sequence[CallingRun]) -> Rejected | None:
    """Why an agent does not answer where these calls have led to it; None if it does."""
    if len(callers) > HOPS_MAX:
        reason = (
            f"Agents have called each other {HOPS_MAX} times in a row for one message, and may not"
            " do so any further: answer with what you have"
        )
        return Rejected(code=UNPROCESSABLE, reason=reason)
    if agent_id in waiting(callers):
        reason = (
            f"Agent {agent_id} waits for your own answer, so it cannot answer you: give your"
            " answer instead, it is sent back"
        )
        if callers[-1].agent_id == agent_id:
            reason = "An agent cannot wait for its own answer"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return None


def waiting(callers: Sequence[CallingRun]) -> set[str]:
    """The agents that go on only when the last call is answered."""
    held = set()
    for caller in reversed(callers):
        if not caller.waits:
            break
        held.add(caller.agent_id)
    return held


def waits_of(callers: Sequence[CallingRun]) -> int:
    """The number of the last calls that wait, each for the next one."""
    return next((n for n, caller in enumerate(reversed(callers)) if not caller.waits), len(callers))


def given_up(calls: Iterable[WaitingCall], run_id: str) -> bool:
    """Whether this call is the one to give up: it waits in a circle, and has the last name of those
    of the circle that are still in line."""
    by_caller: dict[str, list[WaitingCall]] = defaultdict(list)
    for call in calls:
        by_caller[call.caller_conversation_id].append(call)
    every = {call.run_id: call for found in by_caller.values() for call in found}
    own = every.get(run_id)
    if own is None:
        return False
    ahead = calls_ahead(own, by_caller)
    if run_id not in ahead:
        return False
    circle = [other for other in ahead if run_id in calls_ahead(every[other], by_caller)]
    return run_id == max((other for other in circle if every[other].in_line), default="")


def calls_ahead(call: WaitingCall, by_caller: dict[str, list[WaitingCall]]) -> set[str]:
    """The run ids of the calls that have to be answered before this one can be."""
    seen: set[str] = set()
    ahead = [call.conversation_id]
    while ahead:
        for found in by_caller.get(ahead.pop(), ()):
            if found.run_id not in seen:
                seen.add(found.run_id)
                ahead.append(found.conversation_id)
    return seen
