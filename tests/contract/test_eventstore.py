"""What every event store keeps, in memory as on Postgres: appending, the inbox, rows, leases."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from libs.eventstore.ports import (
    BEGINS,
    ERASED,
    IMPORT,
    Beginning,
    Commit,
    DuplicateMessage,
    EventStore,
    Fence,
    InboxEntry,
    Move,
    NewEvent,
    StaleLease,
    VersionConflict,
)
from libs.eventstore.read_model_rows import RowWrites
from tests.contract.ledger import ACCOUNTS, AT, deposited, opened
from tests.contract.worlds import World


async def outcome(store: EventStore, commit: Commit) -> object:
    """What a commit returns, or the class of what it raises."""
    try:
        return await store.commit(commit)
    except (VersionConflict, DuplicateMessage, StaleLease) as refused:
        return type(refused)


async def versions(store: EventStore, aggregate_id: str = "a") -> list[int]:
    return [event.version for event in (await store.load(aggregate_id)).events]


def full_commit(version: int, message_id: str) -> Commit:
    """An event, a row and an answer."""
    rows = RowWrites()
    rows.upsert(ACCOUNTS, {"id": message_id, "cents": version})
    return Commit([opened("a", version)], rows, InboxEntry(message_id, f'"{message_id}"'))


async def test_an_appended_event_is_read_back_with_every_field(world: World) -> None:
    store = world.store()
    await store.commit(Commit([opened("a")]))
    history = await store.load("a")
    assert history.snapshot is None
    [event] = history.events
    assert (event.aggregate_id, event.version, event.topic) == ("a", 1, "account.opened")
    assert (event.schema_version, event.org, event.about) == (1, "org-1", "a")
    assert event.payload == {"owner": "Ada"}
    assert event.metadata == {"actor": "user-1", "command_id": "c-1"}
    assert event.occurred_at == AT
    assert event.position == 0


async def test_what_is_erased_keeps_all_but_its_payload(world: World) -> None:
    store = world.store()
    last = deposited("a", 2, '{"cents": 5}', 1)
    await store.commit(Commit([opened("a")], inbox=InboxEntry("c-1", '"Ada was told"')))
    await store.commit(Commit([last]))
    await store.commit(Commit([opened("b")]))
    assert await store.erase(["a", "nobody"], [last.topic], AT) == 1
    assert await store.erase(["a", "nobody"], [last.topic], AT) == 0
    first, second = (await store.load("a")).events
    assert "Ada" not in first.payload_json
    assert [*first.payload] == ["erased_at"]
    assert first.metadata == {"actor": "user-1", "command_id": "c-1", ERASED: True}
    assert (first.topic, first.occurred_at, first.org) == ("account.opened", AT, "org-1")
    assert second.payload == {"cents": 5}
    assert await store.stored_reply("c-1") is None
    [other] = (await store.load("b")).events
    assert other.payload == {"owner": "Ada"}
    await store.number_log()
    logged = {(each.aggregate_id, each.version): each for each in await store.read_log(0)}
    assert "Ada" not in logged["a", 1].payload_json


def brought(aggregate_id: str, version: int, import_id: str, *, begins: bool = False) -> NewEvent:
    """An event that an import brings."""
    known = opened(aggregate_id, version)
    metadata = {**known.metadata, IMPORT: import_id} | ({BEGINS: True} if begins else {})
    return replace(known, metadata=metadata)


async def test_what_an_import_began_is_found_by_it_page_by_page(world: World) -> None:
    store = world.store()
    await store.commit(Commit([opened("here")]))
    await store.commit(Commit([brought("here", 2, "i-1")]))
    for name in ("c", "a", "b"):
        await store.commit(Commit([brought(name, 1, "i-1", begins=True), brought(name, 2, "i-1")]))
    assert await store.import_of("a") == Beginning("i-1", 1)
    assert await store.import_of("here") is None
    assert await store.import_of("nobody") is None
    began = [(name, "account.opened") for name in ("a", "b", "c")]
    assert await store.begun_by_import("i-1", "", 10) == began
    assert await store.begun_by_import("i-1", "", 2) == began[:2]
    assert await store.begun_by_import("i-1", "b", 2) == began[2:]
    assert await store.begun_by_import("i-2", "", 2) == []


async def test_what_began_again_belongs_to_the_last_import_and_is_not_erased(
    world: World,
) -> None:
    store = world.store()
    ends = deposited("a", 2, '{"cents": 5}', 1)
    await store.commit(Commit([brought("a", 1, "i-1", begins=True)]))
    await store.commit(Commit([ends]))
    await store.commit(Commit([brought("a", 3, "i-2", begins=True), opened("a", 4)]))
    assert await store.import_of("a") == Beginning("i-2", 3)
    assert await store.begun_by_import("i-1", "", 10) == [("a", "account.opened")]
    assert await store.begun_by_import("i-2", "", 10) == [("a", "account.opened")]
    assert await store.erase(["a"], [ends.topic], AT) == 1
    erased = [ERASED in event.metadata for event in (await store.load("a")).events]
    assert erased == [True, False, False, False], "the life that it has now stays"


async def test_an_aggregate_without_events_has_an_empty_history(world: World) -> None:
    history = await world.store().load("nobody")
    assert (history.snapshot, history.events) == (None, [])


async def test_of_concurrent_appends_of_one_version_exactly_one_wins(world: World) -> None:
    stores = [world.store(f"process-{number}") for number in range(8)]
    commits = [full_commit(1, f"m{number}") for number in range(8)]
    outcomes = await asyncio.gather(*map(outcome, stores, commits))
    assert sorted(map(str, outcomes)) == sorted(["None", *[str(VersionConflict)] * 7])
    winner = f"m{outcomes.index(None)}"
    assert await versions(stores[0]) == [1]
    assert await world.rows() == [{"id": winner, "cents": 1}]
    replies = [await stores[0].stored_reply(f"m{number}") for number in range(8)]
    assert [reply for reply in replies if reply] == [f'"{winner}"']


async def test_a_conflict_in_the_second_event_undoes_the_first(world: World) -> None:
    store = world.store()
    await store.commit(Commit([opened("b", 1)]))
    with pytest.raises(VersionConflict):
        await store.commit(Commit([opened("a", 1), opened("b", 1)]))
    assert await versions(store, "a") == []


async def test_two_events_of_one_version_in_one_commit_are_a_conflict(world: World) -> None:
    store = world.store()
    await store.commit(Commit([opened("a", 1)]))
    with pytest.raises(VersionConflict):
        await store.commit(Commit([opened("b", 1), opened("a", 2), opened("a", 2)]))
    assert await versions(store, "a") == [1]
    assert await versions(store, "b") == []


async def test_crossed_appends_to_two_aggregates_end_in_one_winner(world: World) -> None:
    stores = [world.store("process-1"), world.store("process-2")]
    pair = [opened("a"), opened("b")]
    commits = [Commit(pair * 1), Commit(pair[::-1])]
    outcomes = await asyncio.gather(*map(outcome, stores, commits))
    assert sorted(map(str, outcomes)) == sorted(["None", str(VersionConflict)])
    assert await versions(stores[0], "a") == await versions(stores[0], "b") == [1]


async def test_a_duplicate_gets_the_first_reply_and_writes_nothing(world: World) -> None:
    store = world.store()
    await store.commit(full_commit(1, "m1"))
    assert await store.stored_reply("m1") == '"m1"'
    for version in (1, 2):
        again = full_commit(version, "m1")
        again.inbox = InboxEntry("m1", '"another"')
        again.rows.upsert(ACCOUNTS, {"id": "other"})
        again.take_lease = "lease"
        with pytest.raises(DuplicateMessage) as duplicate:
            await store.commit(again)
        assert duplicate.value.reply_json == '"m1"'
    assert await versions(store) == [1]
    assert await world.rows() == [{"id": "m1", "cents": 1}]
    assert await store.take_lease("lease") is not None


async def test_of_concurrent_duplicates_all_but_one_learn_the_reply(world: World) -> None:
    stores = [world.store(f"process-{number}") for number in range(6)]
    for attempt in range(5):
        commits = [full_commit(attempt + 1, f"m{attempt}") for _ in stores]
        outcomes = await asyncio.gather(*map(outcome, stores, commits))
        assert sorted(map(str, outcomes)) == sorted(["None", *[str(DuplicateMessage)] * 5])
    assert await versions(stores[0]) == [1, 2, 3, 4, 5]


async def test_a_message_that_was_never_handled_has_no_reply(world: World) -> None:
    assert await world.store().stored_reply("never") is None


# Rows


async def write(world: World, *changes: tuple[str, object]) -> None:
    """Several changes to the accounts in one commit."""
    rows = RowWrites()
    for kind, change in changes:
        if kind == "delete":
            rows.delete(ACCOUNTS, *change)  # type: ignore[misc]
        else:
            getattr(rows, kind)(ACCOUNTS, change)
    await world.store().commit(Commit(rows=rows))


async def test_an_upsert_replaces_a_row_and_a_patch_changes_some_columns(world: World) -> None:
    await write(world, ("upsert", {"id": "a", "owner": "Ada", "cents": 1, "fields": {"x": 1}}))
    await write(world, ("upsert", {"id": "a", "owner": "Bob", "cents": 2, "fields": {"y": [2]}}))
    assert await world.rows() == [{"id": "a", "owner": "Bob", "cents": 2, "fields": {"y": [2]}}]
    await write(world, ("patch", {"id": "a", "cents": 3, "fields": {"z": {"deep": None}}}))
    fields = {"y": [2], "z": {"deep": None}}
    assert await world.rows() == [{"id": "a", "owner": "Bob", "cents": 3, "fields": fields}]


async def test_a_patch_of_a_row_that_is_not_there_does_nothing(world: World) -> None:
    await write(world, ("patch", {"id": "a", "cents": 3}))
    assert await world.rows() == []


async def test_a_patch_of_nothing_but_the_key_does_nothing(world: World) -> None:
    await write(world, ("upsert", {"id": "a", "cents": 1}))
    await write(world, ("patch", {"id": "a"}))
    assert await world.rows() == [{"id": "a", "cents": 1}]


async def test_writes_to_one_row_within_a_commit_are_folded_in_order(world: World) -> None:
    await write(world, ("upsert", {"id": "old", "cents": 1, "fields": {"a": 1}}))
    await write(
        world,
        ("upsert", {"id": "new", "cents": 1, "fields": {"a": 1}}),
        ("patch", {"id": "new", "fields": {"b": 2}}),
        ("patch", {"id": "new", "cents": 9}),
        ("patch", {"id": "old", "fields": {"b": 2}}),
        ("patch", {"id": "old", "fields": {"b": 3, "c": 4}, "owner": "Ada"}),
    )
    assert await world.rows() == [
        {"id": "new", "cents": 9, "fields": {"a": 1, "b": 2}},
        {"id": "old", "owner": "Ada", "cents": 1, "fields": {"a": 1, "b": 3, "c": 4}},
    ]


async def test_rows_with_different_columns_are_written_by_one_commit(world: World) -> None:
    await write(
        world,
        ("upsert", {"id": "a", "cents": 1}),
        ("upsert", {"id": "b", "owner": "Bob"}),
        ("upsert", {"id": "c", "cents": 3}),
    )
    assert await world.rows() == [
        {"id": "a", "cents": 1},
        {"id": "b", "owner": "Bob"},
        {"id": "c", "cents": 3},
    ]


async def test_a_deletion_takes_all_rows_with_the_value(world: World) -> None:
    accounts = [("upsert", {"id": name, "owner": name[0]}) for name in ("a1", "a2", "b1")]
    await write(world, *accounts)
    await write(world, ("upsert", {"id": "a3", "owner": "a"}), ("delete", ("owner", "a")))
    assert await world.rows() == [{"id": "b1", "owner": "b"}]


async def test_a_row_that_is_deleted_stays_deleted_though_it_was_patched(world: World) -> None:
    for order in (1, -1):
        await write(world, ("upsert", {"id": "a", "owner": "Ada", "cents": 1}))
        changes = [("patch", {"id": "a", "cents": 2}), ("delete", ("owner", "Ada"))]
        await write(world, *changes[::order])
        assert await world.rows() == []


async def test_a_row_that_is_written_after_its_deletion_is_there(world: World) -> None:
    await write(world, ("upsert", {"id": "a", "owner": "Ada", "cents": 1, "fields": {"x": 1}}))
    await write(world, ("delete", ("id", "a")), ("upsert", {"id": "a", "owner": "Bob"}))
    assert await world.rows() == [{"id": "a", "owner": "Bob"}]


# Leases and fences


async def test_a_lease_belongs_to_one_until_it_runs_out(world: World) -> None:
    first, second = world.store("process-1"), world.store("process-2")
    assert await first.take_lease("run") == 1
    assert await first.take_lease("run") is None
    assert await second.take_lease("run") is None
    await world.pass_time()
    assert await second.take_lease("run") not in (None, 1)
    assert await first.renew_leases() == set()
    assert await second.renew_leases() == {"run"}


async def test_of_concurrent_takers_of_a_lease_one_wins(world: World) -> None:
    stores = [world.store(f"process-{number}") for number in range(6)]
    epochs = await asyncio.gather(*(store.take_lease("run") for store in stores))
    assert len([epoch for epoch in epochs if epoch is not None]) == 1


async def test_a_reply_is_forgotten_when_it_is_old_and_not_before(world: World) -> None:
    store = world.store()
    await store.commit(Commit(inbox=InboxEntry("old", '"yes"')))
    await world.pass_time()
    await store.commit(Commit(inbox=InboxEntry("new", '"yes"')))
    assert await store.forget_replies(older_than_seconds=30) == 0
    assert await store.forget_replies(older_than_seconds=5) == 1
    assert await store.stored_reply("old") is None
    assert await store.stored_reply("new") == '"yes"'


async def test_no_epoch_comes_twice_however_a_lease_ends(world: World) -> None:
    store = world.store()
    ended_by_commit = await store.take_lease("run")
    assert ended_by_commit is not None
    await store.commit(Commit(fence=Fence("run", ended_by_commit), release_lease=True))
    given_up = await store.take_lease("run")
    assert given_up is not None
    await store.release_lease(Fence("run", given_up))
    run_out = await store.take_lease("run")
    await world.pass_time()
    newest = await store.take_lease("run")
    assert None not in (run_out, newest)
    assert len({ended_by_commit, given_up, run_out, newest}) == 4
    for stale in (ended_by_commit, given_up, run_out):
        late = Commit([opened("a")], fence=Fence("run", stale or 0))
        assert await outcome(store, late) is StaleLease
    assert await versions(store) == []


async def test_who_takes_a_lease_learns_whether_its_last_holder_left_it_behind(
    world: World,
) -> None:
    store, other = world.store("ledger-1/a"), world.store("process-2")
    assert await taken_over(store) is False
    await world.pass_time()
    assert await taken_over(other) is True, "it ran out"
    await other.release_lease(Fence("run", await epoch_of(other)))
    assert await taken_over(store) is False, "it was given back"
    assert await world.store("ledger-1/b").succeed() == 1
    assert await taken_over(other) is True, "its process died"
    await other.release_lease(Fence("run", await epoch_of(other)), failed=True)
    assert await taken_over(other) is True, "what was attempted under it failed"
    fence = Fence("run", await epoch_of(other))
    await other.commit(Commit([opened("a")], fence=fence, release_lease=True))
    assert await taken_over(store) is False, "it was given back with what was decided under it"
    assert await other.take_over("run") is None, "it is held"


async def taken_over(store: EventStore) -> bool | None:
    """Take the lease of the run; whether it was taken over."""
    taken = await store.take_over("run")
    return taken and taken.taken_over


async def epoch_of(store: EventStore) -> int:
    """The epoch of the lease of the run that a store has taken."""
    held: dict[str, int] = getattr(store, "held", {})
    return held["run"]


async def test_a_renewed_lease_does_not_run_out(world: World) -> None:
    first, second = world.store("process-1"), world.store("process-2")
    await first.take_lease("run")
    await first.take_lease("other")
    await world.pass_time()
    assert await first.renew_leases() == {"run", "other"}
    assert await second.take_lease("run") is None


async def test_a_released_lease_is_free_at_once_and_not_renewed(world: World) -> None:
    first, second = world.store("process-1"), world.store("process-2")
    assert await first.take_lease("run") == 1
    await first.release_lease(Fence("run", 1))
    assert await first.renew_leases() == set()
    assert await second.take_lease("run") == 2


async def test_releasing_a_lease_that_was_taken_over_does_nothing(world: World) -> None:
    first, second = world.store("process-1"), world.store("process-2")
    await first.take_lease("run")
    await world.pass_time()
    assert await second.take_lease("run") == 2
    await first.release_lease(Fence("run", 1))
    assert await first.take_lease("run") is None


async def test_whoever_becomes_an_instance_frees_what_was_held_before(world: World) -> None:
    before, other = world.store("agent-1/a"), world.store("agent-10/b")
    nameless, after = world.store("c"), world.store("agent-1/d")
    for store in (before, other, nameless, after):
        assert await store.take_lease(store.holder) is not None

    assert await after.succeed() == 1
    assert await after.succeed() == 1  # what nobody took since may be freed again
    assert await nameless.succeed() == 0

    taken = {
        store.holder: await nameless.take_lease(store.holder) for store in (before, other, after)
    }
    assert taken["agent-1/a"] is not None
    assert taken["agent-10/b"] is None
    assert taken["agent-1/d"] is None
    assert await before.renew_leases() == set()
    assert await after.renew_leases() == {"agent-1/d"}


async def test_a_lease_that_this_process_does_not_know_of_is_not_renewed(world: World) -> None:
    """A commit whose outcome is unknown may have taken a lease that nobody works under."""
    assert await world.store("process-1").take_lease("run") == 1
    forgetful = world.store("process-1")
    assert await forgetful.renew_leases() == set()
    await world.pass_time()
    assert await forgetful.take_lease("run") == 2


async def test_a_stale_epoch_writes_nothing_at_all(world: World) -> None:
    zombie, heir = world.store("process-1"), world.store("process-2")
    assert await zombie.take_lease("run") == 1
    await world.pass_time()
    assert await heir.take_lease("run") == 2
    stale = full_commit(1, "m1")
    stale.fence = Fence("run", 1)
    stale.take_lease = "next"
    assert await outcome(zombie, stale) is StaleLease
    assert await versions(zombie) == []
    assert await world.rows() == []
    assert await zombie.stored_reply("m1") is None
    assert await heir.take_lease("next") is not None
    live = full_commit(1, "m1")
    live.fence = Fence("run", 2)
    assert await outcome(heir, live) is None
    assert await versions(heir) == [1]


async def test_a_fence_of_a_lease_that_nobody_ever_took_is_stale(world: World) -> None:
    assert await outcome(world.store(), Commit([opened("a")], fence=Fence("x", 1))) is StaleLease


async def test_a_commit_takes_a_free_lease_and_goes_on_without_a_taken_one(world: World) -> None:
    first, second = world.store("process-1"), world.store("process-2")
    assert await first.commit(Commit([opened("a", 1)], take_lease="run")) == 1
    assert await second.commit(Commit([opened("a", 2)], take_lease="run")) is None
    assert await versions(first) == [1, 2]
    assert await first.renew_leases() == {"run"}
    assert await second.renew_leases() == set()


async def test_a_commit_releases_the_lease_that_it_is_fenced_by(world: World) -> None:
    first, second = world.store("process-1"), world.store("process-2")
    await first.take_lease("run")
    await first.commit(Commit([opened("a")], fence=Fence("run", 1), release_lease=True))
    assert await first.renew_leases() == set()
    assert await second.take_lease("run") == 2


async def test_a_refused_commit_takes_and_releases_no_lease(world: World) -> None:
    first, second = world.store("process-1"), world.store("process-2")
    await first.take_lease("run")
    await first.commit(Commit([opened("a")]))
    conflict = Commit([opened("a")], fence=Fence("run", 1), release_lease=True, take_lease="next")
    assert await outcome(first, conflict) is VersionConflict
    assert await first.renew_leases() == {"run"}
    assert await second.take_lease("run") is None
    assert await second.take_lease("next") is not None


# What a commit relied on


async def test_a_commit_that_relied_on_what_has_gone_on_writes_nothing(world: World) -> None:
    store = world.store()
    await store.commit(Commit([opened("known", 1), opened("known", 2)]))
    relying = full_commit(1, "m1")
    relying.unchanged = {"known": 1, "never there": 0}
    assert await outcome(store, relying) is VersionConflict
    assert (await versions(store), await world.rows()) == ([], [])
    assert await store.stored_reply("m1") is None
    relying.unchanged = {"known": 2, "never there": 0}
    assert await outcome(store, relying) is None
    assert await versions(store) == [1]
    assert await versions(store, "known") == [1, 2]


async def test_a_commit_without_events_may_rely_on_something_too(world: World) -> None:
    store = world.store()
    await store.commit(Commit([opened("known")]))
    for version, expected in ((0, VersionConflict), (1, None)):
        answer = Commit(inbox=InboxEntry("m1", '"done"'), unchanged={"known": version})
        assert await outcome(store, answer) is expected
    assert await store.stored_reply("m1") == '"done"'


# A consumer's position


async def test_a_consumer_moves_only_from_where_it_stands(world: World) -> None:
    store = world.store()
    assert await store.position("agent") == 0
    assert await outcome(store, Commit([opened("a", 1)], move=Move("agent", 0, 5))) is None
    assert await store.position("agent") == 5
    stale = full_commit(2, "m1")
    stale.move = Move("agent", 0, 7)
    assert await outcome(store, stale) is StaleLease
    assert await store.position("agent") == 5
    assert (await versions(store), await world.rows()) == ([1], [])
    assert await store.stored_reply("m1") is None


async def test_a_consumer_that_never_asked_where_it_stands_cannot_move(world: World) -> None:
    assert await outcome(world.store(), Commit(move=Move("agent", 0, 5))) is StaleLease


async def test_in_a_crowd_each_commit_has_its_own_outcome(world: World) -> None:
    """Commits that come together may share a statement; what is wrong with one spoils no other."""
    store, rival = world.store("process-1"), world.store("process-2")
    await store.commit(Commit([opened("taken")]))
    await store.commit(Commit(inbox=InboxEntry("seen", '"first"')))
    held = await rival.take_lease("held")
    fine = [
        Commit([opened(f"a{n}")], inbox=InboxEntry(f"m{n}", f'"{n}"'), take_lease=f"lease-{n}")
        for n in range(30)
    ]
    fine += [
        Commit(
            [opened(f"a{n}")],
            inbox=InboxEntry(f"m{n}", f'"{n}"'),
            take_lease=f"lease-{n}",
            unchanged={"taken": 1},
        )
        for n in range(30, 40)
    ]
    wrong = [
        Commit([opened("taken")]),
        Commit([opened("b")], inbox=InboxEntry("seen", '"second"')),
        Commit([opened("c")], fence=Fence("held", -1)),
        Commit([opened("d")], unchanged={"taken": 0}),
        Commit([opened("e")], take_lease="held"),
    ]
    crowd = [*fine[:20], *wrong, *fine[20:]]
    outcomes = dict(zip(map(id, crowd), await gathered(store, crowd), strict=True))
    assert [type(outcomes[id(commit)]) for commit in wrong[:4]] == [
        VersionConflict,
        DuplicateMessage,
        StaleLease,
        VersionConflict,
    ]
    assert outcomes[id(wrong[4])] is None
    assert held is not None
    epochs = [outcomes[id(commit)] for commit in fine]
    assert len(set(epochs)) == 40
    assert all(isinstance(epoch, int) for epoch in epochs)
    for n in range(40):
        assert await versions(store, f"a{n}") == [1]
        assert await store.stored_reply(f"m{n}") == f'"{n}"'
    assert [await versions(store, name) for name in "bcde"] == [[], [], [], [1]]
    assert await store.renew_leases() == {f"lease-{n}" for n in range(40)}


async def gathered(store: EventStore, commits: list[Commit]) -> list[object]:
    """What each of some concurrent commits returns or raises."""
    return [*await asyncio.gather(*map(store.commit, commits), return_exceptions=True)]
