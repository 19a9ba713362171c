"""The log of a service, and aggregates that are loaded from history, snapshot and cache."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from pydantic import BaseModel

from libs.contracts.base_aggregate import SNAPSHOT_EVERY_EVENTS
from libs.contracts.bus_messages import Accepted, Event
from libs.eventstore import in_memory, ports, postgres
from libs.eventstore import unit_of_work as works
from libs.eventstore.event_decoding import UnknownEvent
from libs.eventstore.ports import (
    SNAPSHOT_KEPT_EVENTS,
    Commit,
    Fence,
    Move,
    Snapshot,
    StaleLease,
    StoredEvent,
    VersionConflict,
    Waiting,
)
from libs.eventstore.unit_of_work import Repository
from tests.contract.ledger import (
    AT,
    Account,
    Balance,
    MoneyDeposited,
    bring,
    context,
    deposited,
    opened,
    project,
)
from tests.contract.worlds import MemoryWorld, World

FORM = Account.state_version()


def places(events: list[StoredEvent]) -> list[tuple[int, str, int]]:
    return [(event.position, event.aggregate_id, event.version) for event in events]


# The log


async def test_the_log_has_dense_positions_in_the_order_of_commits(world: World) -> None:
    store = world.store()
    await store.commit(Commit([opened("a", 1), opened("b", 1)]))
    await store.commit(Commit([opened("a", 2)]))
    assert await store.read_log(0) == []
    assert await store.number_log() == 3
    assert await store.number_log() == 0
    await store.commit(Commit([opened("b", 2)]))
    assert await store.number_log() == 1
    everything = [(1, "a", 1), (2, "b", 1), (3, "a", 2), (4, "b", 2)]
    assert places(await store.read_log(0)) == everything
    assert places(await store.read_log(2)) == everything[2:]
    assert places(await store.read_log(1, limit=2)) == everything[1:3]
    [last] = await store.read_log(3)
    assert (last.topic, last.payload, last.occurred_at) == ("account.opened", {"owner": "Ada"}, AT)


async def test_events_are_numbered_a_page_at_a_time(world: World) -> None:
    store = world.store()
    await store.commit(Commit([opened("a", version) for version in range(1, 8)]))
    assert [await store.number_log(limit=3) for _ in range(4)] == [3, 3, 1, 0]
    assert [event.position for event in await store.read_log(0)] == [1, 2, 3, 4, 5, 6, 7]


async def test_concurrent_numbering_gives_no_position_twice(world: World) -> None:
    stores = [world.store(f"process-{number}") for number in range(4)]
    for round_ in range(10):
        await stores[0].commit(Commit([opened(f"a{round_}", version) for version in range(1, 6)]))
        counts = await asyncio.gather(*(store.number_log(limit=3) for store in stores))
        assert sum(counts) <= 5
    while await stores[0].number_log():
        pass
    assert [event.position for event in await stores[0].read_log(0)] == list(range(1, 51))


async def test_the_published_mark_only_moves_forward(world: World) -> None:
    store = world.store()
    assert await store.published_position() == 0
    await store.mark_published(7)
    await store.mark_published(3)
    assert await store.published_position() == 7


async def test_one_question_tells_whether_there_is_anything_to_publish_or_to_handle(
    world: World,
) -> None:
    store, follower = world.store(), world.follower()
    assert await store.waiting([]) == Waiting(relay=False, upstreams=frozenset())
    await store.commit(Commit([opened("a", 1), opened("b", 1)]))
    assert await store.waiting([]) == Waiting(relay=True, upstreams=frozenset())
    assert (await follower.waiting([world.ledger])).upstreams == frozenset(), "it has no place yet"
    await store.number_log()
    assert (await store.waiting([])).relay, "it is numbered and not published"
    assert await follower.waiting([world.ledger]) == Waiting(False, frozenset({world.ledger}))
    await store.mark_published(2)
    assert not (await store.waiting([])).relay
    await follower.position(world.ledger)
    await follower.commit(Commit(move=Move(world.ledger, 0, 2)))
    assert await follower.waiting([world.ledger]) == Waiting(False, frozenset())


async def test_a_follower_reads_the_topics_it_wants_and_how_far_it_has_seen(world: World) -> None:
    store, follower = world.store(), world.follower()
    assert (await follower.read_upstream(world.ledger, 0, ["account.opened"])).seen_up_to == 0
    money = '{"cents":1,"currency":"EUR"}'
    for version in (2, 3):
        await store.commit(Commit([opened(f"a{version}"), deposited("b", version, money, 3)]))
    await store.commit(Commit([deposited("b", 4, money, 3)]))
    before = await follower.read_upstream(world.ledger, 0, ["account.opened"])
    assert (before.events, before.seen_up_to) == ([], 0), "what is not numbered is not seen"
    await store.number_log()
    page = await follower.read_upstream(world.ledger, 0, ["account.opened"])
    assert places(page.events) == [(1, "a2", 1), (3, "a3", 1)]
    assert page.seen_up_to == 5
    first = await follower.read_upstream(world.ledger, 0, ["account.opened"], limit=1)
    assert (places(first.events), first.seen_up_to) == ([(1, "a2", 1)], 1)
    rest = await follower.read_upstream(world.ledger, 3, ["account.opened"])
    assert (rest.events, rest.seen_up_to) == ([], 5)
    both = await follower.read_upstream(world.ledger, 2, ["account.opened", "money.deposited"])
    assert places(both.events) == [(3, "a3", 1), (4, "b", 3), (5, "b", 4)]
    beyond = await follower.read_upstream(world.ledger, 9, ["account.opened"])
    assert (beyond.events, beyond.seen_up_to) == ([], 9)


# Aggregates


async def test_a_decision_stores_events_rows_and_who_asked(world: World) -> None:
    store = world.store()
    work = Repository(store, "ledger", project).work(context("m1"))
    (await work.load(Account, "a")).deposit(250)
    await work.commit(reply=Accepted(result={"cents": 250}))
    opened_, deposited_ = (await store.load("a")).events
    assert (opened_.topic, opened_.version) == ("account.opened", 1)
    assert (deposited_.topic, deposited_.version) == ("money.deposited", 2)
    assert deposited_.payload == {"cents": 250, "currency": "EUR"}
    assert (deposited_.schema_version, deposited_.occurred_at) == (3, AT)
    who = {"actor": "user-1", "correlation_id": "for-m1", "command_id": "m1"}
    assert deposited_.metadata == who
    fields = {"org": "org-1", "last": 250}
    assert await world.rows() == [{"id": "a", "owner": "Ada", "cents": 0, "fields": fields}]
    assert await store.stored_reply("m1") == '{"outcome":"accepted","result":{"cents":250}}'


async def test_an_aggregate_is_loaded_from_its_events(world: World) -> None:
    await bring(Repository(world.store(), "ledger", project), 250)
    loaded = await Repository(world.store(), "ledger", project).load(Account, "a", org="org-1")
    assert (loaded.version, loaded.state.owner, loaded.state.cents) == (2, "Ada", 250)
    nobody = await Repository(world.store(), "ledger", project).load(Account, "nobody", org="org-1")
    assert (nobody.exists, nobody.version, nobody.state.cents) == (False, 0, 0)


async def test_a_snapshot_is_taken_every_hundred_events_and_loaded_with_its_tail(
    world: World,
) -> None:
    store = world.store()
    repository = Repository(store, "ledger", project)
    for cents in range(1, SNAPSHOT_EVERY_EVENTS):
        await bring(repository, cents)
    history = await store.load("a", state_version=FORM)
    assert history.snapshot is not None
    assert history.snapshot.version == SNAPSHOT_EVERY_EVENTS
    assert history.events == []
    for cents in (1_000, 2_000):
        await bring(repository, cents)
    history = await store.load("a", state_version=FORM)
    assert history.snapshot is not None
    assert history.snapshot.state["cents"] == sum(range(1, 100))
    assert [event.version for event in history.events] == [101, 102]
    loaded = await Repository(world.store(), "ledger", project).load(Account, "a", org="org-1")
    assert (loaded.version, loaded.state.cents) == (102, sum(range(1, 100)) + 3_000)
    tail = await store.load("a", 101, state_version=FORM)
    assert (tail.snapshot, [event.version for event in tail.events]) == (None, [102])
    assert [event.version for event in (await store.load("a", 100, state_version=FORM)).events] == [
        101,
        102,
    ]


class Renamed(Account):
    """The account of another release: the state has its field by another name."""

    class State(BaseModel):  # type: ignore[assignment]
        owner: str = ""
        minor_units: int = 0

    def when(self, event: Event) -> None:
        if isinstance(event, MoneyDeposited):
            self.state.minor_units += event.cents  # type: ignore[attr-defined]


async def test_a_snapshot_of_another_form_is_not_read(world: World) -> None:
    """It would load as a state in which a renamed field is empty."""
    store = world.store()
    for _ in range(SNAPSHOT_EVERY_EVENTS):
        await bring(Repository(store, "ledger", project), 5)
    loaded = await Repository(store, "ledger", project).load(Renamed, "a", org="org-1")
    assert loaded.state.minor_units == 5 * SNAPSHOT_EVERY_EVENTS  # type: ignore[attr-defined]
    assert loaded.version == SNAPSHOT_EVERY_EVENTS + 1


async def test_two_releases_each_keep_their_own_snapshot(world: World) -> None:
    """Side by side neither drops the other's, so neither reads all events again and again."""
    store = world.store()
    for number in range(2 * SNAPSHOT_EVERY_EVENTS):
        kind = Renamed if number % 2 else Account
        work = Repository(store, "ledger", project).work(context(f"m{number}"))
        (await work.load(kind, "a")).deposit(1)
        await work.commit()
    for kind in (Account, Renamed):
        history = await store.load("a", state_version=kind.state_version())
        assert history.snapshot is not None
        assert len(history.events) <= SNAPSHOT_EVERY_EVENTS + 1


async def test_the_snapshot_of_a_release_that_nobody_runs_any_more_goes(world: World) -> None:
    store = world.store()
    for version, form in ((1, "old"), (2 + SNAPSHOT_KEPT_EVENTS, "new")):
        await store.commit(Commit(snapshots=[Snapshot("a", version, {}, form, "org-1")]))
    assert (await store.load("a", state_version="old")).snapshot is None
    assert (await store.load("a", state_version="new")).snapshot is not None


def test_the_form_of_a_state_is_what_it_holds_and_not_how_it_is_described() -> None:
    class Described(Balance):
        """What a balance is, in other words."""

    class Alike(Account):
        State = Described

    class Revised(Account):
        state_revision = 2

    assert Alike.state_version() == FORM
    assert len({FORM, Renamed.state_version(), Revised.state_version()}) == 3


async def test_nothing_is_decided_about_what_only_newer_processes_can_read(world: World) -> None:
    store = world.store()
    await store.commit(Commit([opened("a"), replace(opened("a", 2), topic="account.frozen")]))
    await store.commit(Commit([opened("b"), deposited("b", 2, '{"cents":1}', 4)]))
    for account, unknown in {
        "a": "ledger.account.frozen version 1",
        "b": "ledger.money.deposited version 4",
    }.items():
        with pytest.raises(UnknownEvent, match=unknown):
            await Repository(store, "ledger", project).load(Account, account, org="org-1")


async def test_a_page_of_large_events_ends_early_and_the_next_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five hundred events of a megabyte would be read at once, by each relay and consumer."""
    for module in (ports, postgres, in_memory):
        monkeypatch.setattr(module, "LOG_PAGE_BYTES_MAX", 1_000)
    store, follower = world.store(), world.follower()
    sizes = [5, 1_200, 400, 400, 400, 5, 5_000, 5]
    events = [
        replace(opened("a", version), payload_json=f'{{"owner":"{"ä" * (size // 2)}"}}')
        for version, size in enumerate(sizes, start=1)
    ]
    await store.commit(Commit(events))
    await store.number_log()
    pages, after = [], 0
    while page := await store.read_log(after):
        pages.append([event.position for event in page])
        after = page[-1].position
        followed = await follower.read_upstream(world.ledger, pages[-1][0] - 1, ["account.opened"])
        assert [event.position for event in followed.events] == pages[-1]
        assert followed.seen_up_to == after
    assert pages == [[1, 2], [3, 4, 5], [6, 7], [8]]


async def test_numbers_keep_the_form_in_which_they_came(world: World) -> None:
    """Postgres' jsonb writes 1e308 as 309 digits, and reads it as an integer."""
    store = world.store()
    numbers = [1e308, -5e-324, 1.0, 0.1, 12345678901234567890123, 1, 0]
    payload = f'{{"owner":"Ada","numbers":{json.dumps(numbers)}}}'
    commit = Commit([replace(opened("a"), payload_json=payload)])
    commit.snapshots.append(Snapshot("b", 1, {"numbers": [*numbers]}, "s", "org-1"))
    await store.commit(commit)
    await store.number_log()
    [loaded] = (await store.load("a")).events
    [logged] = await store.read_log(0)
    [followed] = (await world.follower().read_upstream(world.ledger, 0, ["account.opened"])).events
    assert {loaded.payload_json, logged.payload_json, followed.payload_json} == {payload}
    snapshot = (await store.load("b", state_version="s")).snapshot
    assert snapshot is not None
    assert repr(snapshot.state) == repr({"numbers": numbers})


async def test_older_versions_of_an_event_are_read_as_todays(world: World) -> None:
    store = world.store()
    old = [
        opened("a", 1),
        deposited("a", 2, '{"euros":2}', 1),
        deposited("a", 3, '{"cents":34}', 2),
        deposited("a", 4, '{"cents":5,"currency":"CHF","unknown":1}', 3),
    ]
    await store.commit(Commit(old))
    for _ in range(2):
        account = await Repository(store, "ledger", project).load(Account, "a", org="org-1")
        assert (account.version, account.state.cents) == (4, 239)
        assert account.state.currencies == ["EUR", "EUR", "CHF"]


async def test_a_cached_aggregate_catches_up_with_another_process(world: World) -> None:
    here = Repository(world.store("process-1"), "ledger", project)
    there = Repository(world.store("process-2"), "ledger", project)
    mine = await bring(here, 1)
    await bring(there, 10)
    assert here.cache["a"] is mine
    again = await here.load(Account, "a", org="org-1")
    assert again is mine
    assert (again.version, again.state.cents) == (3, 11)


async def test_a_cached_aggregate_catches_up_over_a_snapshot(world: World) -> None:
    here = Repository(world.store("process-1"), "ledger", project)
    there = Repository(world.store("process-2"), "ledger", project)
    await bring(here, 1)
    for _ in range(SNAPSHOT_EVERY_EVENTS + 5):
        await bring(there, 1)
    loaded = await here.load(Account, "a", org="org-1")
    assert (loaded.version, loaded.state.cents) == (107, 106)


@pytest.mark.parametrize("fence", [None, Fence("never-taken", 1)])
async def test_a_failed_commit_leaves_no_trace_in_the_cache(
    world: World, fence: Fence | None
) -> None:
    here = Repository(world.store("process-1"), "ledger", project)
    await bring(here, 1)
    work = here.work(context("m2"))
    account = await work.load(Account, "a")
    account.deposit(1_000)
    if fence is None:
        await bring(Repository(world.store("process-2"), "ledger", project), 10)
    with pytest.raises(StaleLease if fence else VersionConflict):
        await work.commit(fence=fence)
    assert "a" not in here.cache
    loaded = await here.load(Account, "a", org="org-1")
    assert loaded is not account
    assert loaded.state.cents == (1 if fence else 11)


async def test_a_trusting_decision_takes_what_is_cached_without_asking(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Repository(world.store(), "ledger", project)
    await bring(here, 1)
    with monkeypatch.context() as patched:
        patched.setattr(here.store, "load", None)
        work = here.work(context("m1"), trusting=True)
        (await work.load(Account, "a")).deposit(5)
    await work.commit()
    assert (await here.load(Account, "a", org="org-1")).state.cents == 6


@pytest.mark.parametrize("changes", [True, False])
async def test_a_trusting_decision_on_what_has_gone_on_is_refused_and_ends_the_trust(
    world: World, changes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(works, "DISTRUSTFUL_DECISIONS", 20)
    here = Repository(world.store("process-1"), "ledger", project)
    await bring(here, 1)
    await bring(Repository(world.store("process-2"), "ledger", project), 10)
    work = here.work(context("m1"), trusting=True)
    account = await work.load(Account, "a")
    assert account.state.cents == 1
    if changes:
        account.deposit(5)
    with pytest.raises(VersionConflict):
        await work.commit(reply=Accepted())
    for _ in range(19):
        again = here.work(context("m2"), trusting=True)
        assert (await again.load(Account, "a")).state.cents == 11
        await again.commit()
        assert not again.trusted
    trusting = here.work(context("m3"), trusting=True)
    await trusting.load(Account, "a")
    assert trusting.trusted == {"a"}


async def test_what_is_cached_is_bounded_in_bytes_and_read_again_where_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2,000 aggregates of some MB each are all the memory of a machine."""
    monkeypatch.setattr(works, "CACHED_BYTES_MAX", 2_500)
    here = Repository(MemoryWorld().store(), "ledger", project)
    for name in ("a", "b", "c", "d"):
        opening = replace(opened(name), payload_json=f'{{"owner":"{"x" * 1_000}"}}')
        await here.store.commit(Commit([opening]))
        work = here.work(context(name))
        (await work.load(Account, name)).deposit(1)
        await work.commit()
    assert list(here.cache) == ["c", "d"]
    assert here.cached_bytes == sum(aggregate.payload_bytes for aggregate in here.cache.values())
    assert 2_000 < here.cached_bytes < 2_500
    assert (await here.load(Account, "a", org="org-1")).state.cents == 1
    assert (await here.load(Account, "c", org="org-1")).state.cents == 1
    assert list(here.cache) == ["d"]
    assert 1_000 < here.cached_bytes < 1_250


async def test_an_aggregate_in_work_is_not_shared_by_two_decisions(world: World) -> None:
    here = Repository(world.store(), "ledger", project)
    await bring(here, 1)
    first, second = here.work(context("m1")), here.work(context("m2"))
    one, two = await first.load(Account, "a"), await second.load(Account, "a")
    assert one is not two
    assert await first.load(Account, "a") is one
    two.deposit(5)
    await second.commit()
    one.deposit(7)
    with pytest.raises(VersionConflict):
        await first.commit()
    assert (await here.load(Account, "a", org="org-1")).state.cents == 6


async def test_an_adopted_aggregate_stays_with_who_holds_it(world: World) -> None:
    here = Repository(world.store(), "ledger", project)
    await bring(here, 1)
    held = here.claim(Account, "a", org="org-1")
    assert held is not None
    assert here.claim(Account, "a", org="org-1") is None
    work = here.work(context("m1"))
    work.adopt(held)
    held.deposit(5)
    await work.commit()
    assert "a" not in here.cache
    assert (await here.load(Account, "a", org="org-1")).state.cents == 6


async def test_what_waits_for_a_commit_hears_the_epoch_of_its_lease(world: World) -> None:
    here = Repository(world.store(), "ledger", project)
    epochs: list[int | None] = []
    for _ in range(2):
        work = here.work(context("m1"))
        work.take_lease = "a"
        work.after_commit.append(epochs.append)
        (await work.load(Account, "a")).deposit(1)
        await work.commit()
    assert epochs == [1, None]


async def test_an_additive_event_that_is_not_known_is_left_out(world: World) -> None:
    """And the aggregate is at its version: a decision made without it is not refused for it."""
    store = world.store()
    noted = replace(opened("a", 2), topic="account.noted", metadata={"additive": True})
    await store.commit(Commit([opened("a"), noted]))
    repository = Repository(store, "ledger", project)
    assert (await bring(repository, 5)).version == 3
    loaded = await Repository(store, "ledger", project).load(Account, "a", org="org-1")
    assert (loaded.version, loaded.state.owner, loaded.state.cents) == (3, "Ada", 5)
