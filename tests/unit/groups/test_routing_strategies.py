"""The strategies of routing: where a message goes next, decided without any service."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import UNPROCESSABLE
from libs.contracts.groups.routing import (
    RECIPIENTS_MAX,
    AwardRule,
    Pattern,
    Recipients,
    RoutedRequest,
)
from services.groups.domain.routing.contract_net import is_valid, parsed_bid, ranked_bids
from services.groups.domain.routing.plans import Completed, Delivery, Failed, Routing
from services.groups.domain.routing.recipients import unfit_request
from services.groups.domain.routing.strategies import STRATEGIES
from tests.unit.given import NOW

AGENTS = ["agent-a", "agent-b", "agent-c"]


def request(pattern: Pattern = "one", **recipients: Any) -> RoutedRequest:
    """A message to be routed."""
    said = Message(id="message-1", role="user", content="Do it", created_at=NOW)
    wanted = Recipients(**recipients)
    return RoutedRequest(pattern=pattern, recipients=wanted, messages=[said], max_steps=50)


def bid(number: int, value: float | None) -> Delivery:
    """The answer to a call for bids."""
    return Delivery(
        number=number,
        agent_id=AGENTS[number - 1],
        run_id=f"run-{number}",
        purpose="bid",
        status="delivered",
        bid=value,
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("BID: 12", 12.0),
        ("I think so.\nbid = 3.50", 3.5),
        ("BID -2", -2.0),
        ("BID: 7, I repeat, BID: 7", 7.0),
        ("BID: 7 or BID: 8", None),
        ("My forbid: 7", None),
        ("BID: nan", None),
        ("BID: 1e400", None),
        ("BID: 1,000", None),
        ("BID: 3.", 3.0),
        ("7", None),
        ("", None),
    ],
)
def test_a_bid_is_one_number_and_nothing_else_is(text: str, number: float | None) -> None:
    assert parsed_bid(text) == number


@given(st.text(max_size=200))
def test_no_text_breaks_the_reading_of_bids(text: str) -> None:
    found = parsed_bid(text)
    assert found is None or is_valid(found, AwardRule())


def test_the_best_bid_is_by_the_rule_and_equal_ones_are_in_their_order() -> None:
    bids = [bid(1, 5.0), bid(2, 3.0), bid(3, 3.0)]
    assert [each.number for each in ranked_bids(bids, AwardRule())] == [2, 3, 1]
    highest = AwardRule(prefer="highest")
    assert [each.number for each in ranked_bids(bids, highest)] == [1, 2, 3]
    assert [each.number for each in ranked_bids(bids, AwardRule(at_least=4))] == [1]
    assert ranked_bids([bid(1, None)], AwardRule()) == []


@pytest.mark.parametrize("pattern", list(STRATEGIES))
def test_every_pattern_ends_whoever_fails(pattern: Pattern) -> None:
    """Whatever is delivered fails: each pattern then ends with a refusal, after bounded steps."""
    stages = [AGENTS, AGENTS] if pattern == "pipeline" else [AGENTS]
    deliveries: list[Delivery] = []
    for _ in range(10):
        plan = STRATEGIES[pattern].plan(Routing(request(pattern), stages, deliveries))
        if plan.end:
            assert isinstance(plan.end, Failed)
            break
        assert plan.deliveries, "it never waits for what has ended"
        for wanted in plan.deliveries:
            number = len(deliveries) + 1
            deliveries.append(
                Delivery(
                    number=number,
                    agent_id=wanted.agent_id,
                    run_id=f"run-{number}",
                    purpose=wanted.purpose,
                    stage=wanted.stage,
                    status="failed",
                    reason="No",
                )
            )
    else:
        pytest.fail("it does not end")
    assert len(deliveries) == len(AGENTS)


@given(st.data())
def test_a_message_to_one_agent_has_one_answer_whatever_the_order_of_failures(
    data: st.DataObject,
) -> None:
    deliveries: list[Delivery] = []
    while True:
        plan = STRATEGIES["one"].plan(Routing(request(), [AGENTS], deliveries))
        if plan.end:
            break
        [wanted] = plan.deliveries
        status = data.draw(st.sampled_from(["delivered", "failed"]))
        number = len(deliveries) + 1
        deliveries.append(
            Delivery(
                number=number,
                agent_id=wanted.agent_id,
                run_id=f"run-{number}",
                purpose="answer",
                status=status,
            )
        )
    done = [each.number for each in deliveries if each.status == "delivered"]
    assert len({each.agent_id for each in deliveries}) == len(deliveries), "nobody is asked twice"
    assert plan.end == Completed((done[0],)) if done else isinstance(plan.end, Failed)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (request(), "none of them"),
        (request(capability="a", topic="b"), "`capability` and `topic`"),
        (request(capabilities=["a"]), "`capabilities`"),
        (request("pipeline", tags=["a"]), "needs its stages"),
        (request("pipeline", capabilities=["a"] * 9), "at most 8 stages"),
        (request("pipeline", agent_ids=["agent-a", "agent-a"]), "loop"),
        (request(agent_ids=["agent-a"] * (RECIPIENTS_MAX + 1)), f"at most {RECIPIENTS_MAX}"),
    ],
)
def test_an_unfit_request_names_what_is_wrong(wanted: RoutedRequest, words: str) -> None:
    refused = unfit_request(wanted)
    assert refused is not None
    assert refused.code == UNPROCESSABLE
    assert words in refused.reason


def test_tags_beside_a_capability_narrow_it_down() -> None:
    assert unfit_request(request(capability="a", tags=["b"])) is None
