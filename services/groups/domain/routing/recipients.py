"""To whom a message may go: what a request has to say, and which agents are left out."""

from __future__ import annotations

from collections.abc import Sequence

from libs.contracts.agent.runs import HOPS_MAX, CallingRun
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE, Rejected
from libs.contracts.groups.routing import (
    ATTEMPTS_MAX,
    RECIPIENTS_MAX,
    STAGES_MAX,
    Pattern,
    Recipients,
    RoutedRequest,
)

# How many agents of those that fit are considered.
CANDIDATES_MAX: dict[Pattern, int] = {
    "one": ATTEMPTS_MAX,
    "scatter_gather": RECIPIENTS_MAX,
    "publish": RECIPIENTS_MAX,
    "pipeline": ATTEMPTS_MAX,
    "contract_net": RECIPIENTS_MAX,
}


def unfit_request(request: RoutedRequest) -> Rejected | None:
    """Why a request cannot be routed, whoever the agents are."""
    recipients = request.recipients
    if len(request.callers) >= HOPS_MAX + 1:
        reason = (
            f"Agents have called each other {HOPS_MAX} times in a row for one message, and may not"
            " do so any further: answer with what you have"
        )
        return Rejected(code=UNPROCESSABLE, reason=reason)
    given = [name for name, value in selections(recipients) if value]
    if len(given) != 1:
        names = ", ".join(f"`{name}`" for name, _ in selections(recipients))
        found = " and ".join(f"`{name}`" for name in given) or "none of them"
        reason = f"Say who is to get the message by exactly one of {names}: there is {found}"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    if recipients.capabilities and request.pattern != "pipeline":
        reason = "`capabilities` are the stages of a pipeline: use `capability` otherwise"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return unfit_number(request.pattern, recipients)


def unfit_number(pattern: Pattern, recipients: Recipients) -> Rejected | None:
    """Why a request names too many agents, or too few."""
    if pattern == "pipeline":
        if not (recipients.capabilities or recipients.agent_ids):
            reason = "A pipeline needs its stages: give `agent_ids` or `capabilities`, in order"
            return Rejected(code=UNPROCESSABLE, reason=reason)
        if len(recipients.capabilities) + len(recipients.agent_ids) > STAGES_MAX:
            reason = f"A pipeline has at most {STAGES_MAX} stages: leave some out"
            return Rejected(code=UNPROCESSABLE, reason=reason)
        if len(set(recipients.agent_ids)) < len(recipients.agent_ids):
            reason = "`agent_ids`: an agent stands twice in the pipeline, which is a loop"
            return Rejected(code=UNPROCESSABLE, reason=reason)
    if len(recipients.agent_ids) > RECIPIENTS_MAX:
        reason = f"`agent_ids`: at most {RECIPIENTS_MAX} agents get one message"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return None


def selections(recipients: Recipients) -> Sequence[tuple[str, object]]:
    """The ways to say who gets a message, with what was said."""
    return [
        ("capability", recipients.capability),
        ("capabilities", recipients.capabilities),
        ("agent_ids", recipients.agent_ids),
        ("tags", recipients.tags and not recipients.capability),
        ("topic", recipients.topic),
    ]


def without_loops(
    found: Sequence[str], callers: Sequence[CallingRun], what: str
) -> list[str] | Rejected:
    """The agents that have no part in what led to the message; the refusal where nobody is left."""
    if not found:
        return Rejected(code=NOT_FOUND, reason=f"No agent {what}")
    in_chain = [caller.agent_id for caller in callers]
    left = [agent_id for agent_id in found if agent_id not in in_chain]
    if left:
        return left
    chain = " -> ".join([*in_chain, found[0]])
    reason = f"Every agent that {what} has a part in this message already, it would loop: {chain}"
    return Rejected(code=CONFLICT, reason=reason)


def description_of(recipients: Recipients, stage: int = 0) -> str:
    """What the agents of a stage have in common, as in "No agent ..."."""
    if recipients.capability:
        tags = f" and has all of the tags {', '.join(recipients.tags)}" if recipients.tags else ""
        return f"declares the capability '{recipients.capability}'{tags}"
    if recipients.capabilities:
        return f"declares the capability '{recipients.capabilities[stage]}'"
    if recipients.tags:
        return f"has all of the tags {', '.join(recipients.tags)}"
    if recipients.topic:
        return f"subscribes to the topic '{recipients.topic}'"
    return f"is there of {', '.join(recipients.agent_ids)}"
