"""The simulator's planted bugs of the in-memory store, planted in Postgres': a test finds each.

What the simulator shows of the store holds for its in-memory implementation. So each of its bugs
there is planted here into the statements of the real one, and a test of the contract must fail.
"""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.bus_messages import Accepted
from libs.eventstore import commit_statement, postgres
from libs.eventstore.ports import Commit, InboxEntry
from tests.contract import test_eventstore as contract
from tests.contract import test_postgres_store as store_tests
from tests.contract.planted_bugs import Planted, without
from tests.contract.worlds import PostgresWorld
from tests.sim.mutants import MUTANTS


def forgetful(commits: list[Commit]) -> list[Commit]:
    for commit in commits:
        commit.inbox = None
    return commits


def nothing_answered(inbox: list[InboxEntry], parameters: dict[str, Any]) -> str:
    empty = [InboxEntry(letter.message_id, Accepted().model_dump_json()) for letter in inbox]
    return real_answered(empty, parameters)


real_statement = commit_statement.commit_statement
real_answered = commit_statement.reply_rows
real_gate_of_one = commit_statement.gate_of_one

LEASE_HAS_RUN_OUT = "l.expires_at < now()"
TWO_HOURS_AHEAD = "l.expires_at < now() + interval '2 hours'"

PLANTED = {
    "no-version-check": Planted(
        contract.test_of_concurrent_appends_of_one_version_exactly_one_wins,
        schema="alter table {ledger}.events drop constraint events_version_key",
    ),
    "no-epoch-check": Planted(
        contract.test_a_stale_epoch_writes_nothing_at_all,
        [
            (
                commit_statement,
                "gate_of_one",
                lambda *what: without(real_gate_of_one(*what), " and l.epoch = %(fence_epoch)s"),
            )
        ],
    ),
    "no-inbox": Planted(
        contract.test_a_duplicate_gets_the_first_reply_and_writes_nothing,
        [
            (
                postgres,
                "commit_statement",
                lambda schema, holder, commits: real_statement(schema, holder, forgetful(commits)),
            )
        ],
    ),
    "reply-not-stored": Planted(
        contract.test_a_duplicate_gets_the_first_reply_and_writes_nothing,
        [(commit_statement, "reply_rows", nothing_answered)],
    ),
    "no-horizon": Planted(
        store_tests.test_a_long_open_write_holds_the_log_back_and_nothing_is_missed,
        [
            (
                postgres,
                "NUMBER_LOG",
                without(
                    postgres.NUMBER_LOG,
                    "and e.xid < pg_snapshot_xmin(pg_current_snapshot())",
                ),
            )
        ],
    ),
    "wall-clock-lease": Planted(
        contract.test_a_lease_belongs_to_one_until_it_runs_out,
        [
            (
                commit_statement,
                "TAKE_LEASES",
                without(commit_statement.TAKE_LEASES, LEASE_HAS_RUN_OUT, TWO_HOURS_AHEAD),
            )
        ],
    ),
    "frees-everybody": Planted(
        contract.test_whoever_becomes_an_instance_frees_what_was_held_before,
        [
            (
                postgres,
                "FREE_LEASES",
                without(
                    postgres.FREE_LEASES,
                    "starts_with(holder, %(instance)s || '/')",
                    "%(instance)s::text is not null",
                ),
            )
        ],
    ),
}


def test_each_planted_bug_of_the_in_memory_store_is_planted_in_postgres_too() -> None:
    there = {
        name
        for name, mutant in MUTANTS.items()
        for target, *_ in mutant.patches()
        if getattr(target, "__name__", "") in ("InMemoryEventStore", "Server")
    }
    assert there == PLANTED.keys()


@pytest.mark.parametrize("name", PLANTED)
async def test_the_contract_finds_the_bug_in_postgres(
    name: str, postgres: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = PLANTED[name]
    if planted.schema:
        await postgres.admin(planted.schema.format(ledger=postgres.ledger))
    for target, attribute, value in planted.patches:
        monkeypatch.setattr(target, attribute, value)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await planted.found_by(postgres)
