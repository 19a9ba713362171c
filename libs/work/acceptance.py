"""Send a command to another service until it is accepted, or refused in a way that stays.

Which refusals pass by themselves says one table (`REFUSALS` of `libs.contracts.bus_messages`). What
is sent has the same id each time, so it takes effect once.

    reply = await ask_until_accepted(bus, clock, command, context, seconds_max=10.0)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf

from libs.bus.ports import Bus, BusUnavailable, Clock
from libs.contracts.bus_messages import CONFLICT, Accepted, Command, Context, Rejected

# The pause after the first refusal; it doubles up to the second figure.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.5, 4.0
NOT_WANTED = Rejected(code=CONFLICT, reason="Nobody waits for it any more")


async def always() -> bool:
    """Something is wanted as long as it takes."""
    return True


async def until_accepted[T](
    clock: Clock,
    ask: Callable[[], Awaitable[T | Rejected]],
    *,
    seconds_max: float = inf,
    outage_seconds_max: float = inf,
    is_wanted: Callable[[], Awaitable[bool]] = always,
) -> T | Rejected:
    """What `ask` returns once it is no refusal that passes by itself. One that still comes after
    `seconds_max` without an outage is returned, and BusUnavailable is raised after an outage of
    `outage_seconds_max`. `is_wanted` is asked before each pause: NOT_WANTED is returned once it
    says no."""
    pause, refused_since, away_since = PAUSE_SECONDS, inf, inf
    while True:
        now, left = clock.monotonic(), inf
        try:
            reply = await ask()
        except BusUnavailable:
            refused_since, away_since = inf, min(away_since, now)
            if clock.monotonic() - away_since >= outage_seconds_max:
                raise
        else:
            if not isinstance(reply, Rejected) or reply.next_try != "again":
                return reply
            refused_since, away_since = min(refused_since, now), inf
            left = refused_since + seconds_max - clock.monotonic()
            if left <= 0.0:
                return reply
        if not await is_wanted():
            return NOT_WANTED
        await clock.sleep(min(pause, left))
        pause = min(2 * pause, PAUSE_SECONDS_MAX)


async def ask_until_accepted(
    bus: Bus,
    clock: Clock,
    command: Command,
    context: Context,
    *,
    seconds_max: float = inf,
    outage_seconds_max: float = inf,
) -> Accepted | Rejected:
    """The reply to a command, which is sent as `until_accepted` says."""

    async def ask() -> Accepted | Rejected:
        return await bus.request(command, context)

    return await until_accepted(
        clock, ask, seconds_max=seconds_max, outage_seconds_max=outage_seconds_max
    )
