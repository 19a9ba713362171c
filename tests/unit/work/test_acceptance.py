"""Commands that work needs are sent until they are accepted, or refused for good."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from libs.bus.ports import BusUnavailable
from libs.contracts import bus_messages
from libs.contracts.bus_messages import (
    BUSY,
    NOT_FOUND,
    REFUSALS,
    UNAVAILABLE,
    Accepted,
    NextTry,
    Rejected,
)
from libs.work.acceptance import NOT_WANTED, until_accepted
from tests.clock_and_ids import ManualClock

FULL = Rejected(code=BUSY, reason="No room")
AWAY = Rejected(code=UNAVAILABLE, reason="It is away")
GONE = Rejected(code=NOT_FOUND, reason="It is not there")
OUTAGE = BusUnavailable("the bus is away")


class Asked:
    """Answers with these replies, the last one for ever, or raises them."""

    def __init__(self, *replies: Accepted | Rejected | BusUnavailable) -> None:
        self.replies = list(replies)
        self.count = 0

    async def __call__(self) -> Accepted | Rejected:
        self.count += 1
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, BusUnavailable):
            raise reply
        return reply


async def reply_to(asked: Asked, clock: ManualClock, **options: Any) -> Accepted | Rejected:
    return await until_accepted(clock, asked, **options)


def test_every_code_says_when_the_command_may_be_accepted() -> None:
    codes = {
        value
        for name, value in vars(bus_messages).items()
        if name.isupper() and isinstance(value, str) and name.lower() == value
    }
    assert codes == REFUSALS.keys()
    assert set(REFUSALS.values()) == set(get_args(NextTry.__value__))
    assert Rejected(code="of a newer process", reason="").next_try == "never"


async def test_what_passes_by_itself_is_waited_for() -> None:
    clock, asked = ManualClock(), Asked(FULL, OUTAGE, AWAY, FULL, FULL, Accepted())
    assert await reply_to(asked, clock) == Accepted()
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 4.0]


@pytest.mark.parametrize("code", [code for code, when in REFUSALS.items() if when != "again"])
async def test_any_other_refusal_is_the_answer(code: str) -> None:
    refused = Rejected(code=code, reason="No")
    clock, asked = ManualClock(), Asked(FULL, refused)
    assert await reply_to(asked, clock) is refused
    assert asked.count == 2


async def test_there_may_be_no_room_for_only_so_long_but_an_outage_does_not_count() -> None:
    clock, asked = ManualClock(), Asked(FULL, FULL, OUTAGE, FULL)
    assert await reply_to(asked, clock, seconds_max=2.0) is FULL
    assert clock.slept == [0.5, 1.0, 2.0, 2.0], "2 s are over after the outage has ended"


async def test_without_time_the_first_refusal_is_the_answer() -> None:
    clock, asked = ManualClock(), Asked(FULL)
    assert await reply_to(asked, clock, seconds_max=0.0) is FULL
    assert (asked.count, clock.slept) == (1, [])


async def test_an_outage_may_be_bounded() -> None:
    clock, asked = ManualClock(), Asked(OUTAGE)
    with pytest.raises(BusUnavailable):
        await reply_to(asked, clock, outage_seconds_max=3.0)
    assert sum(clock.slept) == 3.5


@pytest.mark.parametrize("passing", [FULL, OUTAGE])
async def test_what_nobody_wants_any_more_is_not_asked_again(
    passing: Rejected | BusUnavailable,
) -> None:
    clock, asked, wanted = ManualClock(), Asked(passing), [True, True, False]

    async def is_wanted() -> bool:
        return wanted.pop(0)

    assert await reply_to(asked, clock, is_wanted=is_wanted) is NOT_WANTED
    assert asked.count == 3
