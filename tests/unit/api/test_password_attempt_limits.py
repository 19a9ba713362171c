"""Passwords may be guessed a few times, and nobody is locked out by who guesses elsewhere."""

from __future__ import annotations

import pytest

from services.api.http import password_attempt_limits
from services.api.http.password_attempt_limits import (
    GUESSES_MAX,
    GUESSES_OF_ALL_MAX,
    PasswordAttemptLimits,
)

HERE, THERE = "192.0.2.1", "192.0.2.2"


def guessed(limits: PasswordAttemptLimits, address: str, times: int, now: float = 0.0) -> None:
    for _ in range(times):
        limits.guessed_wrong(address, now)


def test_an_address_has_some_guesses_and_gets_one_back_at_a_time() -> None:
    limits = PasswordAttemptLimits()
    guessed(limits, HERE, GUESSES_MAX - 1)
    assert limits.wait_seconds(HERE, 0.0) == 0
    guessed(limits, HERE, 1)
    assert limits.wait_seconds(HERE, 0.0) == 3.0
    assert limits.wait_seconds(HERE, 2.0) == pytest.approx(1.0)
    assert limits.wait_seconds(HERE, 3.0) == 0
    guessed(limits, HERE, 1, now=3.0)
    assert limits.wait_seconds(HERE, 3.0) == 3.0


def test_who_guesses_somewhere_keeps_nobody_else_out() -> None:
    limits = PasswordAttemptLimits()
    guessed(limits, HERE, 10 * GUESSES_OF_ALL_MAX)
    assert limits.wait_seconds(HERE, 0.0)
    assert limits.wait_seconds(THERE, 0.0) == 0


def test_many_addresses_have_one_guess_each() -> None:
    limits = PasswordAttemptLimits()
    for number in range(GUESSES_OF_ALL_MAX):
        guessed(limits, f"198.51.100.{number}", 1)
    assert limits.wait_seconds("198.51.100.1", 0.0)
    assert limits.wait_seconds(THERE, 0.0) == 0
    guessed(limits, THERE, 1)
    assert limits.wait_seconds(THERE, 0.0)


@pytest.mark.parametrize(
    ("address", "other"),
    [
        ("127.0.0.1", "127.1.2.3"),
        ("2001:db8::1", "2001:db8::ffff:1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::2%eth0"),
    ],
)
def test_addresses_of_one_machine_or_network_are_one(address: str, other: str) -> None:
    limits = PasswordAttemptLimits()
    guessed(limits, address, GUESSES_MAX)
    assert limits.wait_seconds(other, 0.0)


def test_how_many_addresses_are_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_attempt_limits, "ADDRESSES_MAX", 100)
    limits = PasswordAttemptLimits()
    for number in range(1_000):
        guessed(limits, f"2001:db8:{number:x}::1", 1)
    assert len(limits.of_address) == 100
    guessed(limits, "no address", 1)
    guessed(limits, "::no", 1)
