"""Delays of messages that only newer processes of a service can read, which are left to them."""

from __future__ import annotations

import logging
from functools import lru_cache

from libs.contracts.bus_messages import NewerVersion

log = logging.getLogger(__name__)

# A command goes to any process of its service each time: until it meets one that knows it.
COMMAND_SECONDS = 0.25
# What a sweeper or a consumer finds, it leaves alone for so long: newer processes look as often.
LEFT_ALONE_SECONDS = 10.0
TOPICS_LOGGED_MAX = 1_000


def log_once(unknown: NewerVersion) -> None:
    """Say that something is left to newer processes: once for each topic and version."""
    say(str(unknown))


@lru_cache(TOPICS_LOGGED_MAX)
def say(what: str) -> None:
    """Log it; who calls again is remembered."""
    log.warning("%s is not known here: it is left to newer processes", what)
