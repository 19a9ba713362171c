"""How far the clock of this machine is from others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime

from deploy import container_health
from deploy.doctor.examined import Examined
from deploy.doctor.postgres_checks import connect
from deploy.doctor.provider_checks import dates

DATE_SECONDS = 0.5  # a Date has whole seconds: in the middle it is off by so much at most


def others(examined: Examined) -> dict[str, float]:
    """For each clock that can be read how many seconds ours is ahead of it."""
    found: dict[str, float] = {}
    offset = examined.now() - time.time()
    for name, read in (("Postgres", _postgres), ("NATS", _nats)):
        with suppress(Exception):  # `postgres` and `nats` tell why
            if (skew := _skew(examined, read)) is not None:
                found[name] = skew
    for name, date, read_at in dates(examined):
        with suppress(ValueError, TypeError):
            found[name] = read_at + offset - parsedate_to_datetime(date).timestamp() - DATE_SECONDS
    return found


def _skew(examined: Examined, read: Callable[[Examined], float | None]) -> float | None:
    before = examined.now()
    theirs = read(examined)
    after = examined.now()
    return None if theirs is None else (before + after) / 2 - theirs


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
