"""Difference of this machine's clock from others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime

from deploy import container_health
from deploy.doctor.examined import Examined
from deploy.doctor.postgres_checks import connect
from deploy.doctor.provider_checks import dates

DATE_SECONDS = 1.0  # a Date has whole seconds: it was read within so many of them


def others(examined: Examined) -> dict[str, float]:
    """For each clock that can be read how many seconds ours is ahead of it, at least."""
    found: dict[str, float] = {}
    for name, read in (("Postgres", _postgres), ("NATS", _nats)):
        with suppress(Exception):  # `postgres` and `nats` tell why
            before = examined.now()
            theirs = read(examined)
            if theirs is not None:
                found[name] = ahead((before, examined.now()), (theirs, theirs))
    offset = examined.now() - time.time()
    for name, answer in dates(examined):
        with suppress(ValueError, TypeError):
            theirs = parsedate_to_datetime(answer.date).timestamp()
            ours = answer.asked_at + offset, answer.read_at + offset
            found[name] = ahead(ours, (theirs, theirs + DATE_SECONDS))
    return found


def ahead(ours: tuple[float, float], theirs: tuple[float, float]) -> float:
    """The seconds that our time is ahead of theirs, known by its bounds: 0.0 where they may be the
    same, so that a slow machine is not taken for one whose clock is wrong."""
    if ours[0] > theirs[1]:
        return ours[0] - theirs[1]
    return min(ours[1] - theirs[0], 0.0)


def _postgres(examined: Examined) -> float | None:
    if not examined.database_url:
        return None
    with closing(connect(examined.database_url)) as connection:
        row = connection.execute("select extract(epoch from clock_timestamp())::float8").fetchone()
    return float(row[0]) if row else None


def _nats(examined: Examined) -> float | None:
    if not examined.bus_system_url:
        return None
    said: Iterator[dict[str, dict[str, str]]] = container_health.answers(
        examined.bus_system_url, container_health.SERVER_HEALTH
    )
    answer = next(said, None)
    return datetime.fromisoformat(answer["server"]["time"]).timestamp() if answer else None
