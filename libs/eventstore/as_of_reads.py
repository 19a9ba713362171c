"""Reads of the past: the same queries, of the same views, over the rows of a moment.

The schema `<service>_as_of` has a view of each name that the service publishes. Inside
`reading_as_of` a query of the process is sent to those, and sees the rows of the moments that it
names, and no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

from libs.contracts.moments import SERVICES_WITH_MOMENTS

QUERIES_MAX = 512
PUBLISHED_VIEW = re.compile(rf"\b({'|'.join(SERVICES_WITH_MOMENTS)})\.(\w+_view)\b")
# For the rest of the session: nothing but the views of the past reads it, and each query of theirs
# sets it first.
SET_MOMENTS = "select " + ", ".join(
    f"set_config('heeler.{service}_as_of', %({service})s, false)"
    for service in SERVICES_WITH_MOMENTS
)

MOMENTS: ContextVar[Mapping[str, int] | None] = ContextVar("moments", default=None)


@contextmanager
def reading_as_of(moments: Mapping[str, int]) -> Iterator[None]:
    """Have all queries of this task read these moments: a service, and the key of its rows. A
    service without one has no rows."""
    token = MOMENTS.set(moments)
    try:
        yield
    finally:
        MOMENTS.reset(token)


def moment_settings(moments: Mapping[str, int]) -> dict[str, str]:
    """The values for the parameters of `SET_MOMENTS`."""
    return {service: str(moments.get(service, "")) for service in SERVICES_WITH_MOMENTS}


@lru_cache(QUERIES_MAX)
def query_of_the_past(query: str) -> str:
    """The same query, of the views of the past."""
    return PUBLISHED_VIEW.sub(r"\1_as_of.\2", query)
