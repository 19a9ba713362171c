"""By bids: all agents are asked for one, the best gets the task, and the others are told."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite

from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import UNAVAILABLE
from libs.contracts.groups.routing import AwardRule
from services.groups.domain.routing.plans import (
    WAIT,
    Completed,
    Delivery,
    Failed,
    Plan,
    Routing,
    Wanted,
    answer_among,
    as_sent,
    next_of,
    notice_of,
    text_of,
)

BID = re.compile(
    r"\bBID\b\s*+(?:[:=]\s*+)?([-+]?\d{1,15}(?:\.\d{1,15})?)(?![.,]?\w)", re.IGNORECASE
)
TASK_CHARS_MAX = 20_000
CALL = (
    "[Call for bids] Say what it would cost you to do the following task; do not do it yet. Answer"
    " with one line of the form `BID: <number>`. {rule} The task:\n{task}"
)
AWARD = "[Award] Your bid of {bid:g} has won. Do the task now:"
REJECTION = "[Call for bids] The task went to another agent. There is nothing to do."


class ContractNet:
    """Routes a task to the agent whose bid is the best."""

    def plan(self, routing: Routing) -> Plan:
        """Ask for bids; when all are there, or none is waited for any more, award the task."""
        bids = routing.of("bid")
        if not bids:
            return Plan(tuple(Wanted(agent_id, "bid") for agent_id in routing.stages[0]))
        if any(delivery.status == "pending" for delivery in bids):
            return WAIT
        ranked = ranked_bids(bids, routing.request.award or AwardRule())
        if not ranked:
            return Plan(end=Failed(UNAVAILABLE, why_no_bid(bids)))
        done = answer_among(routing.of("award"))
        if done is None:
            return next_of(routing, "award", [bid.agent_id for bid in ranked])
        notices = routing.of("notice")
        next_notices = losers(routing, bids, done) if not notices else ()
        if next_notices or any(notice.status == "pending" for notice in notices):
            return Plan(next_notices)
        return Plan(end=Completed((done.number,)))

    def compose(
        self, routing: Routing, delivery: Delivery, texts: Mapping[int, str]
    ) -> Sequence[Message]:
        """The call for bids, the task for its winner, or the news for the others."""
        match delivery.purpose:
            case "bid":
                task = text_of(routing.request.messages)[:TASK_CHARS_MAX]
                rule = rule_text(routing.request.award or AwardRule())
                return [notice_of(routing, delivery, CALL.format(rule=rule, task=task))]
            case "award":
                own = next(d for d in routing.of("bid") if d.agent_id == delivery.agent_id)
                won = notice_of(routing, delivery, AWARD.format(bid=own.bid))
                return [won, *as_sent(routing, delivery)]
            case _:
                return [notice_of(routing, delivery, REJECTION)]


def parsed_bid(text: str) -> float | None:
    """The number that an agent bid in its answer; None where it bid none, or several."""
    found = {float(number) for number in BID.findall(text)}
    return found.pop() if len(found) == 1 else None


def ranked_bids(bids: Sequence[Delivery], rule: AwardRule) -> list[Delivery]:
    """The bids that may win, the best first; equal ones in the order in which agents were asked."""
    valid = [bid for bid in bids if bid.status == "delivered" and is_valid(bid.bid, rule)]
    sign = 1 if rule.prefer == "lowest" else -1
    return sorted(valid, key=lambda bid: (sign * (bid.bid or 0.0), bid.number))


def is_valid(bid: float | None, rule: AwardRule) -> bool:
    """Whether a bid keeps to the bounds."""
    if bid is None or not isfinite(bid):
        return False
    too_low = rule.at_least is not None and bid < rule.at_least
    too_high = rule.at_most is not None and bid > rule.at_most
    return not (too_low or too_high)


def rule_text(rule: AwardRule) -> str:
    """The rule as bidders read it."""
    bounds = [
        f"at {name} {bound:g}"
        for name, bound in (("least", rule.at_least), ("most", rule.at_most))
        if bound is not None
    ]
    limits = f" A bid must be {' and '.join(bounds)}." if bounds else ""
    return f"The {rule.prefer} bid wins.{limits}"


def losers(routing: Routing, bids: Sequence[Delivery], winner: Delivery) -> tuple[Wanted, ...]:
    """The bidders that are told that another one has the task, unless the client says no."""
    if not routing.request.tell_losers:
        return ()
    failed = {each.agent_id for each in routing.of("award")}
    heard = (bid.agent_id for bid in bids if bid.bid is not None and bid.agent_id not in failed)
    return tuple(Wanted(agent_id, "notice") for agent_id in heard if agent_id != winner.agent_id)


def why_no_bid(bids: Sequence[Delivery]) -> str:
    """Why the task is awarded to nobody."""
    silent = sum(bid.status == "failed" for bid in bids)
    unfit = len(bids) - silent
    return (
        f"None of {len(bids)} agents made a valid bid: {silent} did not answer, and {unfit}"
        " answered without a bid that the rule allows"
    )
