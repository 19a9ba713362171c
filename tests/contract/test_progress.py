"""Progress of long work: it is followed to its end in memory as on NATS, whatever gets lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import count

import pytest

from libs.bus.clock_and_ids import SystemClock
from libs.contracts.bus_messages import delta_subject
from libs.work import progress
from libs.work.progress import (
    HEARTBEAT,
    Progress,
    ProgressMessage,
    follow,
    heartbeats,
    publish_progress,
)
from tests.contract.wires import Wires

END: ProgressMessage = {"result": {"text": "4"}}
NUMBERS = count(1)


@pytest.fixture(autouse=True)
def short_silences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(progress, "GIVE_UP_SECONDS", 0.6)


def new_subject() -> str:
    """The subject of some work that is done once."""
    return delta_subject("ledger", "audit", "progress", "org-1", f"audit-{next(NUMBERS)}")


class Row:
    """The row of some work: what each look at it finds, the last one again and again."""

    def __init__(self, *found: ProgressMessage | None) -> None:
        self.found = [*found]
        self.looks = 0

    async def look(self) -> ProgressMessage | None:
        self.looks += 1
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]


async def soon[Result](work: Awaitable[Result]) -> Result:
    """The result of what must not take long."""
    return await asyncio.wait_for(work, 10.0)


async def beats(followed: Progress, number: int) -> None:
    """Read so many heartbeats."""
    for _ in range(number):
        assert await followed.next(5.0) == HEARTBEAT


class Lost(Exception):
    """Nobody is at work any more."""


class TestProgress:
    """What every bus keeps of it."""

    async def test_a_follower_gets_the_end_and_no_heartbeat(self, wires: Wires) -> None:
        worker, client, subject = await wires.process(), await wires.process(), new_subject()
        row = Row(None)
        async with follow(client, subject) as followed, follow(client, subject) as watched:
            ending = asyncio.create_task(followed.end(row.look))
            async with heartbeats(worker, SystemClock(), subject):
                await beats(watched, 40)  # longer than a silence
                assert not ending.done()
            await publish_progress(worker, subject, END)
            assert await soon(ending) == END
        assert row.looks == 0

    async def test_no_heartbeat_follows_the_end_of_the_work(self, wires: Wires) -> None:
        worker, client, subject = await wires.process(), await wires.process(), new_subject()
        async with follow(client, subject) as followed:
            async with heartbeats(worker, SystemClock(), subject):
                assert await followed.next(5.0) == HEARTBEAT
            await publish_progress(worker, subject, END)
            assert await soon(until(followed, END)) == END
            assert await followed.next(0.1) is None

    async def test_an_end_that_was_published_to_nobody_is_read_from_the_row(
        self, wires: Wires
    ) -> None:
        client, subject = await wires.process(), new_subject()
        row = Row(None, None, END)
        async with follow(client, subject) as followed:
            assert await soon(followed.end(row.look)) == END
        assert row.looks == 3

    async def test_a_follower_gives_up_when_the_row_says_so(self, wires: Wires) -> None:
        async def look() -> None:
            raise Lost

        async with follow(await wires.process(), new_subject()) as followed:
            with pytest.raises(Lost):
                await soon(followed.end(look))

    async def test_work_without_a_row_is_lost_after_a_silence(self, wires: Wires) -> None:
        worker, client, subject = await wires.process(), await wires.process(), new_subject()
        async with follow(client, subject) as followed, follow(client, subject) as watched:
            ending = asyncio.create_task(followed.end_or_silence())
            async with heartbeats(worker, SystemClock(), subject):
                await beats(watched, 40)  # longer than a silence
                assert not ending.done()
            assert await soon(ending) is None

    async def test_the_end_of_work_without_a_row_is_heard(self, wires: Wires) -> None:
        client, subject = await wires.process(), new_subject()
        async with follow(client, subject) as followed:
            await publish_progress(client, subject, HEARTBEAT)
            await publish_progress(client, subject, END)
            assert await soon(followed.end_or_silence()) == END

    async def test_what_is_published_after_the_command_is_heard(self, wires: Wires) -> None:
        """Whoever follows first and then sends a command misses nothing of what it causes."""
        client, subject = await wires.process(), new_subject()
        async with follow(client, subject) as followed:
            await publish_progress(client, subject, END)
            assert await soon(followed.end(Row(None).look)) == END

    async def test_a_follower_hears_only_its_own_work_and_what_it_wants(self, wires: Wires) -> None:
        client, subject = await wires.process(), new_subject()

        async with follow(client, subject, wanted=lambda message: "end" in message) as followed:
            for message in ({"piece": 1}, {"end": 2}, {"piece": 3}):
                await publish_progress(client, subject, message)
            await publish_progress(client, new_subject(), {"end": 4})
            assert await followed.next(5.0) == {"end": 2}
            assert await followed.next(0.1) is None

    async def test_a_follower_that_has_left_hears_no_more(self, wires: Wires) -> None:
        client, subject = await wires.process(), new_subject()
        async with follow(client, subject) as followed:
            pass
        await publish_progress(client, subject, END)
        assert await followed.next(0.1) is None


async def until(followed: Progress, wanted: ProgressMessage) -> ProgressMessage:
    """Read on to a message."""
    while (message := await followed.next(5.0)) != wanted:
        assert message == HEARTBEAT
    return wanted
