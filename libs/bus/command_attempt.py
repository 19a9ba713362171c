"""One delivery of a command to its handler, the same on every bus."""

from __future__ import annotations

import asyncio
import logging

from libs.bus.ports import Answer, Expired, IncomingCommand, TryAgain, reply_payload
from libs.eventstore.ports import StoreUnavailable

log = logging.getLogger(__name__)

# The reply as it is sent; TryAgain where the command has to be delivered again, after its pause;
# Expired where its sender has stopped waiting.
type Outcome = bytes | TryAgain | Expired


async def attempt(
    answer: Answer, incoming: IncomingCommand, *, bytes_max: int, pause_seconds: float
) -> Outcome:
    """Return the reply to a command, in at most `bytes_max` bytes, or why there is none. A process
    edge: a handler that fails is logged here, and asked again after `pause_seconds`."""
    try:
        return reply_payload(await answer(incoming), bytes_max)
    except TryAgain as later:
        return later
    except Expired as late:
        log.info("command %s is dropped: nobody waits for it", incoming.subject)
        return late
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task and task.cancelling():
            raise
        log.exception("command %s broke off, again in %s s", incoming.subject, pause_seconds)
    except StoreUnavailable as problem:
        log.warning("command %s waits, again in %s s: %s", incoming.subject, pause_seconds, problem)
    except Exception:
        log.exception("command %s failed, again in %s s", incoming.subject, pause_seconds)
    return TryAgain(pause_seconds)
