"""What the attempts and dead letters of every store keep, in memory as on Postgres."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.bus_messages import PARKED, Accepted, Rejected
from libs.eventstore.failed_messages.ports import DeadLetter, DeadLetterStore, park
from libs.eventstore.ports import Commit, DuplicateMessage, InboxEntry, Move, StaleLease
from tests.contract.dead_letter_examples import LETTER
from tests.contract.worlds import World

REFUSED = Rejected(code=PARKED, reason="put aside").model_dump_json()
DONE = Accepted(result={"cents": 5}).model_dump_json()


def parking(letter: DeadLetter = LETTER) -> Commit:
    """The commit that parks a command."""
    commit = Commit(inbox=InboxEntry(letter.message_id, REFUSED))
    park(letter, commit.rows)
    return commit


async def begin(letters: DeadLetterStore, message_id: str = "m1", **options: Any) -> int:
    attempt = await letters.begin(message_id, **{"known": 1, "hold_seconds": 5.0, **options})
    return attempt.number


async def test_what_was_sent_is_kept_in_the_form_in_which_it_came(world: World) -> None:
    store = world.store()
    sent = {"cents": [1e308, 1.0, 12345678901234567890123]}
    await store.commit(parking(replace(LETTER, payload={**sent})))
    kept = await store.letters.find(LETTER.id)
    assert kept is not None
    assert repr(kept.payload) == repr(sent)


async def test_attempts_are_counted_from_what_is_known_of_earlier_ones(world: World) -> None:
    letters = world.store().letters
    assert await begin(letters, "known") == 2
    assert await begin(letters, "unknown", known=0) == 1
    await world.pass_time()
    assert await begin(letters, "known") == 3
    assert await begin(letters, "unknown", known=0) == 2


async def test_nobody_else_begins_while_an_attempt_is_held(world: World) -> None:
    first, second = world.store("process-1").letters, world.store("process-2").letters
    assert await begin(first) == 2
    refused = await second.begin("m1", known=1, hold_seconds=5.0)
    assert refused.number == 0
    assert 0 < refused.wait_seconds <= 5.0
    assert not refused.needs_quarantine
    await first.hold("m1", 100.0)
    await world.pass_time()
    assert 0 < (await second.begin("m1", known=1, hold_seconds=5.0)).wait_seconds <= 100.0


async def test_a_failed_attempt_is_followed_by_a_rest(world: World) -> None:
    letters = world.store().letters
    failure = await letters.record_failure("m1", 1, 5.0)
    assert failure.number == 1
    assert failure.first_at is not None
    assert await begin(letters) == 0
    await world.pass_time()
    assert await begin(letters) == 2
    assert (await letters.record_failure("m1", 2, 0.0)).number == 2
    assert (await letters.record_failure("m1", 1, 0.0)).number == 2
    assert await begin(letters) == 3


async def test_an_excused_attempt_does_not_count_and_leaves_the_way_free(world: World) -> None:
    letters = world.store().letters
    for _ in range(3):
        assert await begin(letters) == 2
        await letters.uncount("m1")
    await letters.uncount("never begun")


async def test_a_suspect_may_not_begin_beside_other_messages(world: World) -> None:
    letters = world.store().letters
    assert await begin(letters, unquarantined_max=2) == 2
    await world.pass_time()
    suspect = await letters.begin("m1", known=1, hold_seconds=5.0, unquarantined_max=2)
    assert (suspect.number, suspect.needs_quarantine) == (0, True)
    assert await begin(letters) == 3


async def test_an_answered_message_is_not_begun_again(world: World) -> None:
    store = world.store()
    assert await begin(store.letters) == 2
    await store.commit(Commit(inbox=InboxEntry("m1", DONE)))
    await world.pass_time()
    assert (await store.letters.begin("m1", known=1, hold_seconds=5.0)).reply_json == DONE


async def test_attempts_are_forgotten_when_answered_and_when_old(world: World) -> None:
    letters = world.store().letters
    assert await begin(letters, hold_seconds=0.0) == 2
    assert await begin(letters, hold_seconds=0.0) == 3
    await letters.forget("m1")
    assert await begin(letters) == 2
    await letters.forget_older(10.0)
    assert await begin(letters) == 0
    await world.pass_time()
    await letters.forget_older(10.0)
    assert await begin(letters) == 2


async def test_trouble_is_what_was_tried_often_and_lately(world: World) -> None:
    letters = world.store().letters
    assert not await letters.has_trouble(2, 10.0)
    assert await begin(letters, known=0, hold_seconds=0.0) == 1
    assert not await letters.has_trouble(2, 10.0)
    assert await begin(letters, hold_seconds=0.0) == 2
    assert await letters.has_trouble(2, 10.0)
    await world.pass_time()
    assert not await letters.has_trouble(2, 10.0)


async def test_a_parked_message_is_refused_and_kept_whole(world: World) -> None:
    store = world.store()
    assert await begin(store.letters) == 2
    await store.commit(parking())
    assert await store.letters.find("letter-1") == LETTER
    assert await store.letters.find("letter-2") is None
    assert await store.stored_reply("m1") == REFUSED
    assert (await store.letters.begin("m1", known=1, hold_seconds=5.0)).reply_json == REFUSED
    text = replace(LETTER, id="letter-t", message_id="t", payload=None, payload_text="{not json")
    await store.commit(parking(text))
    assert await store.letters.find("letter-t") == text


async def test_what_took_effect_is_not_parked(world: World) -> None:
    store = world.store()
    await store.commit(Commit(inbox=InboxEntry("m1", DONE)))
    with pytest.raises(DuplicateMessage) as seen:
        await store.commit(parking())
    assert seen.value.reply_json == DONE
    assert await store.letters.find("letter-1") is None


async def test_a_reopened_message_counts_as_never_tried(world: World) -> None:
    store = world.store()
    await store.commit(parking())
    await store.letters.reopen("letter-1")
    assert await store.stored_reply("m1") is None
    letter = await store.letters.find("letter-1")
    assert letter is not None
    assert letter.status == "replaying"
    assert await begin(store.letters) == 2
    await store.commit(parking())
    assert await store.letters.find("letter-1") == LETTER


async def test_reopening_takes_nothing_back_that_took_effect(world: World) -> None:
    store = world.store()
    await store.commit(parking())
    await store.letters.reopen("letter-1")
    await store.commit(Commit(inbox=InboxEntry("m1", DONE)))
    await store.letters.reopen("letter-1")
    await store.letters.reopen("never there")
    assert await store.stored_reply("m1") == DONE


async def test_a_replayed_letter_is_not_reopened(world: World) -> None:
    store = world.store()
    await store.commit(parking(replace(LETTER, status="replayed", outcome=json.loads(DONE))))
    await store.letters.reopen("letter-1")
    letter = await store.letters.find("letter-1")
    assert letter is not None
    assert (letter.status, letter.outcome) == ("replayed", json.loads(DONE))


async def test_a_letter_and_the_position_behind_it_are_one_commit(world: World) -> None:
    store = world.store()
    await store.position("agent")
    commit = Commit(move=Move("agent", 0, 7))
    park(replace(LETTER, kind="event"), commit.rows)
    await store.commit(commit)
    assert await store.position("agent") == 7
    assert await store.letters.find("letter-1") is not None
    stale = Commit(move=Move("agent", 0, 9))
    park(replace(LETTER, id="letter-2", kind="event"), stale.rows)
    with pytest.raises(StaleLease):
        await store.commit(stale)
    assert await store.letters.find("letter-2") is None
