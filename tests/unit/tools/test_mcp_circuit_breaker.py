"""TOOL-08: a server that keeps failing is left alone for a while, then tried by one request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.tools.adapters.mcp.circuit_breaker import (
    FAILURES_MAX,
    OPEN_SECONDS,
    OPEN_SECONDS_MAX,
    CircuitBreaker,
)

NOW = datetime(2026, 11, 24, tzinfo=UTC)


def opened() -> CircuitBreaker:
    breaker = CircuitBreaker()
    for _ in range(FAILURES_MAX):
        assert breaker.admits(NOW)
        breaker.record_failure("it is away", NOW)
    return breaker


def test_nothing_is_known_of_a_server_that_was_not_asked() -> None:
    assert CircuitBreaker().health().state == "unknown"


def test_it_opens_after_failures_in_a_row_and_not_before() -> None:
    breaker = CircuitBreaker()
    for _ in range(FAILURES_MAX - 1):
        breaker.record_failure("it is away", NOW)
    assert breaker.admits(NOW)
    assert (breaker.health().state, breaker.health().last_error) == ("failing", "it is away")
    breaker.record_success()
    breaker.record_failure("once more", NOW)
    assert breaker.admits(NOW)
    assert breaker.health().failures == 1


def test_an_open_one_admits_nobody_and_then_one_at_a_time() -> None:
    breaker = opened()
    assert not breaker.admits(NOW)
    assert breaker.health().state == "open"
    later = NOW + timedelta(seconds=OPEN_SECONDS)
    assert breaker.admits(later)
    assert not breaker.admits(later), "one probe at a time"
    breaker.withdraw()
    assert breaker.admits(later), "who was cancelled lets another try"


def test_a_probe_that_succeeds_closes_it() -> None:
    breaker = opened()
    assert breaker.admits(NOW + timedelta(seconds=OPEN_SECONDS))
    breaker.record_success()
    assert breaker.admits(NOW)
    assert breaker.health().state == "healthy"


def test_a_probe_that_fails_opens_it_for_longer_up_to_a_bound() -> None:
    breaker, now, seconds = opened(), NOW, OPEN_SECONDS
    for _ in range(10):
        now += timedelta(seconds=seconds)
        assert breaker.admits(now)
        breaker.record_failure("still away", now)
        seconds = min(OPEN_SECONDS_MAX, seconds * 2)
        assert breaker.health().open_until == now + timedelta(seconds=seconds)
    assert seconds == OPEN_SECONDS_MAX


def test_failures_of_requests_that_were_under_way_do_not_prolong_it() -> None:
    breaker = opened()
    until = breaker.health().open_until
    breaker.record_failure("it was under way", NOW)
    assert breaker.health().open_until == until
