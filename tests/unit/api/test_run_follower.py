"""A run's follower tells everything once and in order, whatever the bus loses."""

from __future__ import annotations

import asyncio
import json

import pytest

from libs.bus.clock_and_ids import RandomIds
from libs.contracts.bus_messages import delta_subject
from services.api.adapters.conversations import run_follower
from services.api.adapters.conversations.run_follower import (
    Ended,
    IdleTimeout,
    RunFollower,
    RunInbox,
    StreamedChunk,
)
from services.api.adapters.conversations.run_follower_queries import AnswerPart, RunRow
from tests.unit.api.followed_run import ORG, Scene, v1_message
from tests.waiting import wait_for


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(run_follower, "LOOK_SECONDS", 0.05)
    return Scene()


@pytest.fixture
def looks_are_far(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine makes no silence that a follower would look into."""
    monkeypatch.setattr(run_follower, "LOOK_SECONDS", 60.0)


async def heard(follower: RunFollower, *, look_first: bool = False) -> list[tuple[int, str]]:
    """The numbers and the texts, until the end."""
    told: list[tuple[int, str]] = []
    async with asyncio.timeout(5):
        async for event in follower.events(look_first=look_first):
            if isinstance(event, StreamedChunk):
                told.append((event.number, str(event.message["content"])))
            elif isinstance(event, Ended):
                return told
    raise AssertionError("there is an end")


WHOLE = [(2, "One "), (3, "two "), (4, "thre"), (5, "e fo"), (6, "ur")]


@pytest.mark.usefixtures("looks_are_far")
async def test_what_comes_in_order_is_passed_on_without_a_look(scene: Scene) -> None:
    async with scene.follower() as follower:
        for number in range(2, 7):
            await scene.chunk(number)
        await scene.end(7)
        assert await heard(follower) == WHOLE
        assert scene.rows.reads == 0


async def test_what_comes_twice_is_told_once(scene: Scene) -> None:
    async with scene.follower() as follower:
        for number in (2, 3, 2, 3, 4, 5, 4, 6):
            await scene.chunk(number)
        await scene.end(7)
        assert await heard(follower) == WHOLE


@pytest.mark.parametrize("missed", [{2}, {3, 4}, {6}, {2, 3, 4, 5, 6}])
async def test_what_the_bus_loses_is_told_from_the_rows(scene: Scene, missed: set[int]) -> None:
    async with scene.follower() as follower:
        scene.rows.record(ended=True)
        for number in sorted(set(range(2, 7)) - missed):
            await scene.chunk(number)
        await scene.end(7)
        assert await heard(follower) == WHOLE


@pytest.mark.parametrize("seen", [0, 1, 2, 4, 6])
async def test_a_client_goes_on_where_it_was(scene: Scene, seen: int) -> None:
    scene.rows.record(ended=True)
    async with scene.follower(last_sent=seen) as follower:
        assert await heard(follower, look_first=True) == [
            chunk for chunk in WHOLE if chunk[0] > seen
        ]


async def test_in_the_middle_of_a_step_the_tokens_come_from_the_bus(scene: Scene) -> None:
    for number in (2, 3, 4):
        await scene.chunk(number)
    async with scene.follower(last_sent=2) as follower:
        following = asyncio.create_task(heard(follower, look_first=True))
        await asyncio.sleep(0)
        for number in (5, 6):
            await scene.chunk(number)
        await scene.end(7)
        assert await following == WHOLE[1:]


async def test_without_the_kept_tokens_the_step_is_waited_for(scene: Scene) -> None:
    async with scene.follower(last_sent=2) as follower:
        following = asyncio.create_task(heard(follower, look_first=True))
        await asyncio.sleep(0)
        scene.bus.network.tokens.clear()
        await scene.chunk(5)
        scene.bus.network.tokens.clear()
        await scene.chunk(6)
        scene.rows.record()
        await scene.publish("progress", {"look": 6})
        await scene.end(7)
        assert await following == WHOLE[1:]


async def test_an_attempt_that_is_lost_is_followed_by_the_one_that_counts(scene: Scene) -> None:
    async with scene.follower() as follower:
        await scene.chunk(2)
        await scene.chunk(3)
        text = {"number": 1_000_001, "after": 1, "chunk": v1_message("Anew")}
        await scene.publish("token", text)
        await scene.chunk(4)
        await scene.end(1_000_002)
        assert await heard(follower) == [(2, "One "), (3, "two "), (1_000_001, "Anew")]


async def test_a_gap_among_tokens_costs_few_looks(scene: Scene) -> None:
    async with scene.follower() as follower:
        scene.bus.network.tokens.clear()
        for number in range(3, 400):
            await scene.chunk(number)
        scene.bus.network.tokens.clear()
        scene.rows.record(ended=True)
        assert await heard(follower) == WHOLE
        assert scene.rows.reads <= 2


class TestSlowClients:
    async def test_what_they_have_not_read_is_bounded_and_read_again(self, scene: Scene) -> None:
        async with scene.follower() as follower:
            for number in range(2, 7):
                await scene.chunk(number)
            for number in range(100_000):
                await scene.chunk(number)
                if number > run_follower.DELTAS_MAX:
                    assert follower.arrived.qsize() <= run_follower.DELTAS_MAX
                    if number > 5_000:
                        break
            scene.bus.network.tokens.clear()
            scene.rows.record(ended=True)
            assert await heard(follower) == WHOLE

    async def test_large_deltas_are_bounded_in_bytes(self, scene: Scene) -> None:
        async with scene.follower() as follower:
            for number in range(2, 200):
                large = {
                    "number": number,
                    "after": number - 1,
                    "message": v1_message("x" * 100_000),
                }
                await scene.publish("progress", large)
                assert follower.arrived.qsize() <= 4
                assert follower.arrived_bytes <= run_follower.DELTA_BYTES_MAX
            scene.rows.record(ended=True)
            assert await heard(follower) == WHOLE

    @pytest.mark.usefixtures("looks_are_far")
    async def test_one_delta_may_be_as_large_as_it_is(self, scene: Scene) -> None:
        async with scene.follower() as follower:
            text = "x" * (2 * run_follower.DELTA_BYTES_MAX)
            await scene.publish("progress", {"number": 2, "after": 1, "message": v1_message(text)})
            following = asyncio.create_task(heard(follower))
            await wait_for("it is told", lambda: follower.last_sent == 2)
            await scene.end(3)
            assert await following == [(2, text)]
            assert scene.rows.reads == 0

    async def test_the_tokens_that_the_bus_has_kept_are_read_some_at_a_time(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(run_follower, "DELTAS_MAX", 2)
        for number in range(2, 7):
            await scene.chunk(number)
        async with scene.follower() as follower:
            assert [json.loads(delta)["number"] for delta in await follower.kept_deltas()] == [2, 3]
            follower.last_sent = 4
            assert [json.loads(delta)["number"] for delta in await follower.kept_deltas()] == [5, 6]
            follower.last_sent = 1
            following = asyncio.create_task(heard(follower, look_first=True))
            await wait_for("all is told", lambda: follower.last_sent == 6)
            await scene.end(7)
            assert await following == WHOLE


class TestSilence:
    """A run of which nothing is heard is looked for in the rows: ever less often."""

    async def looks(self, scene: Scene, silences: int) -> list[int]:
        """How often the rows had been read after each silence."""
        reads = []
        async with scene.follower() as follower:
            async for _ in follower.events():
                reads.append(scene.rows.reads)
                if len(reads) == silences:
                    break
        return reads

    async def test_it_is_looked_into_after_growing_pauses(self, scene: Scene) -> None:
        reads = await self.looks(scene, 33)
        assert reads[1] == 1
        assert 4 <= reads[-1] <= 6

    async def test_a_bus_that_is_away_is_not_waited_for(self, scene: Scene) -> None:
        scene.bus.connected = False
        assert await self.looks(scene, 10) == [*range(10)]

    async def test_a_bus_that_was_away_may_have_lost_something(self, scene: Scene) -> None:
        async with scene.follower() as follower:
            seen = follower.events()
            for _ in range(10):
                await anext(seen)
            before = scene.rows.reads
            scene.bus.reconnects += 1
            scene.rows.record(ended=True)
            told = [event async for event in seen if not isinstance(event, IdleTimeout)]
            assert [chunk.number for chunk in told if isinstance(chunk, StreamedChunk)] == [
                2,
                3,
                4,
                5,
                6,
            ]
            assert scene.rows.reads == before + 1


async def test_a_cancelled_run_ends_when_its_rows_say_so(scene: Scene) -> None:
    async with scene.follower() as follower:
        await scene.chunk(2)
        scene.rows.row = RunRow("cancelled", "cancelled", {}, None, True, True)
        await scene.publish("progress", {"look": 2**53 - 1})
        events = [event async for event in follower.events()]
        assert events[-1] == Ended("cancelled", "cancelled", {}, None)


async def test_a_run_that_goes_while_it_is_looked_at_is_not_told_as_a_whole_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.rows.record(ended=True)

    async def run_answer(org: str, run_id: str) -> list[AnswerPart]:
        scene.rows.row = None  # its agent is deleted
        return []

    monkeypatch.setattr(scene.rows, "run_answer", run_answer)
    async with scene.follower(last_sent=4) as follower:
        [end] = [event async for event in follower.events(look_first=True)]
    assert isinstance(end, Ended)
    assert (end.status, end.error) == ("failed", run_follower.GONE)


async def test_the_end_of_a_run_that_is_gone_says_so(scene: Scene) -> None:
    scene.rows.row = None
    async with scene.follower() as follower:
        [end] = [event async for event in follower.events(look_first=True)]
    assert isinstance(end, Ended)
    assert end.error is not None
    assert "agent was deleted" in end.error["message"]


class TestInbox:
    async def test_a_run_begun_here_is_followed_without_a_subscription_of_its_own(
        self, scene: Scene
    ) -> None:
        inbox = RunInbox(scene.bus, RandomIds())
        await inbox.open()
        subscriptions = dict(scene.bus.network.deltas)
        run_ids = [inbox.new_run() for _ in range(2)]
        followers = [
            RunFollower(scene.rows, scene.bus, ORG, run_id, inbox=inbox)  # type: ignore[arg-type]
            for run_id in run_ids
        ]
        for follower in followers:
            await follower.__aenter__()
        assert scene.bus.network.deltas == subscriptions
        for run_id, text in zip(run_ids, ("a", "b"), strict=True):
            delta = {"number": 2, "after": 1, "message": v1_message(text)}
            subject = delta_subject("agent", "run", "progress", ORG, run_id)
            await scene.bus.publish_delta(subject, json.dumps(delta).encode())
        for follower, text in zip(followers, ("a", "b"), strict=True):
            async for event in follower.events():
                assert event == StreamedChunk(2, v1_message(text), is_chunk=False)
                break
            await follower.__aexit__()
        assert not inbox.followers
        await scene.bus.publish_delta(subject, b"nobody follows it any more")

    async def test_others_hear_of_such_a_run_too(self, scene: Scene) -> None:
        run_id = RunInbox(scene.bus, RandomIds()).new_run()
        async with RunFollower(scene.rows, scene.bus, ORG, run_id) as follower:  # type: ignore[arg-type]
            delta = {"number": 2, "after": 1, "message": v1_message("a")}
            subject = delta_subject("agent", "run", "progress", ORG, run_id)
            await scene.bus.publish_delta(subject, json.dumps(delta).encode())
            assert await anext(follower.events()) == StreamedChunk(
                2, v1_message("a"), is_chunk=False
            )

    async def test_a_follower_that_nobody_has_any_more_is_forgotten(self, scene: Scene) -> None:
        inbox = RunInbox(scene.bus, RandomIds())
        await inbox.open()
        run_id = inbox.new_run()
        follower = RunFollower(scene.rows, scene.bus, ORG, run_id, inbox=inbox)  # type: ignore[arg-type]
        await follower.__aenter__()
        assert set(inbox.followers) == {run_id}
        del follower
        assert not inbox.followers
