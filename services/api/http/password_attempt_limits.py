"""Limits on guesses of a password.

Each address has some wrong guesses, and gets one back every few seconds. An address that has used
up its own is told nothing more, not even that a guess was right: else the limit would limit nobody.
So whoever shares the address of a guesser is kept out with it, except on connections over which the
password came before; everybody else is let in. All addresses together have a limit too: beyond it
one wrong guess is all that an address has.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, field

GUESSES_MAX = 20
GUESSES_OF_ALL_MAX = 200
GUESS_BACK_SECONDS = 3.0
GUESS_OF_ALL_BACK_SECONDS = 0.3
ADDRESSES_MAX = 10_000
IPV6_PREFIX_BITS = 64


@dataclass(slots=True)
class Proof:
    """Whether the password came over a connection, and no wrong one since."""

    given: bool = False


@dataclass(slots=True)
class Allowance:
    """So many at once, and one more after each pause."""

    most: int
    back_seconds: float
    left: float = field(init=False)
    counted_at: float = -math.inf

    def __post_init__(self) -> None:
        self.left = self.most

    def at(self, now: float) -> float:
        """The number of guesses left by now."""
        self.left = min(self.most, self.left + (now - self.counted_at) / self.back_seconds)
        self.counted_at = now
        return self.left

    def use(self, now: float) -> None:
        """Take one guess from those left."""
        self.left = max(0.0, self.at(now) - 1)


class PasswordAttemptLimits:
    """The wrong passwords of one process."""

    def __init__(self) -> None:
        self.of_all = Allowance(GUESSES_OF_ALL_MAX, GUESS_OF_ALL_BACK_SECONDS)
        self.of_address: dict[str, Allowance] = {}  # who guessed last is last

    def wait_seconds(self, address: str, now: float) -> float:
        """The seconds that an address has to wait before its next password is looked at; 0 if
        none."""
        allowance = self.of_address.get(guesser(address))
        if allowance is None:
            return 0.0
        left = allowance.at(now)
        needed = 1 if self.of_all.at(now) >= 1 else allowance.most
        return max(0.0, needed - left) * allowance.back_seconds

    def guessed_wrong(self, address: str, now: float) -> None:
        """Count a wrong password from an address."""
        name = guesser(address)
        allowance = self.of_address.pop(name, None) or Allowance(GUESSES_MAX, GUESS_BACK_SECONDS)
        allowance.use(now)
        self.of_all.use(now)
        self.of_address[name] = allowance
        if len(self.of_address) > ADDRESSES_MAX:
            del self.of_address[next(iter(self.of_address))]


def guesser(address: str) -> str:
    """The guessing client: in IPv6 a network, since nobody there has but one address."""
    if ":" not in address:
        return "127.0.0.1" if address.startswith("127.") else address
    try:
        one = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if one.ipv4_mapped:
        return guesser(str(one.ipv4_mapped))
    return str(int(one) >> (128 - IPV6_PREFIX_BITS))
