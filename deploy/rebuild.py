"""Rebuild read models from the events, also while Heeler serves: `make rebuild`, or
`python -m deploy.rebuild [--service agent] [--table messages] [--check]`.

Reads HEELER_ADMIN_DATABASE_URL: a role that may lock the services' tables. Exit code 0: every row
is what the events say; 1: it is not (which `--check` finds out), or the rebuild failed and says
why; what was rebuilt until then stays so, and it may be run again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg

from libs.contracts.all_messages import load_contracts
from libs.contracts.service_registry import names
from libs.eventstore.event_decoding import UnknownEvent
from libs.eventstore.migrations import restore_missing
from libs.eventstore.read_model_rebuild import SESSION_OPTIONS, Rebuild, RebuildFailed, Rebuilt
from libs.eventstore.read_model_replay import ReadModels

ROOT = Path(__file__).resolve().parent.parent
PROGRESS_SECONDS = 2.0
# After a migration the services wait for their rebuild, but no longer than this.
ASKED_SECONDS_MAX = 20.0


def read_models(service: str) -> ReadModels:
    """The read models that a service projects from its events."""
    load_contracts()
    projections = import_module(f"services.{service}.projections")
    return ReadModels(service, projections.project, projections.READ_MODELS)


def migration_files(service: str) -> list[Path]:
    """The migrations of a service, in the order of their making."""
    return sorted((ROOT / "services" / service / "adapters" / "migrations").glob("*.sql"))


def owners() -> list[str]:
    """The services that have read models."""
    return [service for service in names() if read_models(service).tables]


def rebuild(
    url: str,
    service: str,
    table: str | None = None,
    *,
    only_compare: bool = False,
    seconds_max: float = float("inf"),
    say: Callable[[str], None] = lambda _: None,
    advance: Callable[[int, int], None] = lambda events, in_all: None,
) -> Rebuilt:
    """Rebuild the read models of a service, or one table of them. `advance` learns how many events
    were read, and of about how many."""
    models = read_models(service)
    tables = tuple(read_model for read_model in models.tables if table in (None, read_model.name))
    if not tables:
        names = ", ".join(read_model.name for read_model in models.tables)
        raise RebuildFailed(f"{service} has no read model {table!r}, but {names}")
    with psycopg.connect(url, autocommit=True, options=SESSION_OPTIONS) as connection:
        if not only_compare:
            files = migration_files(service)
            for name in restore_missing(connection, service, files, models.tables):
                say(f"{service}.{name} was missing and is made again")
        run = Rebuild(connection, service, models, tables, only_compare=only_compare)
        rebuilt = run.run(
            seconds_max=seconds_max, progress=progress(connection, service, say, advance)
        )
        if rebuilt.complete and not only_compare:
            connection.execute(
                f"delete from {service}.rebuilds where read_model = any(%s)".encode(),
                [[read_model.name for read_model in tables]],
            )
    return rebuilt


def rebuild_asked(url: str, say: Callable[[str], None]) -> None:
    """Rebuild what migrations have asked for. What does not fit into the time waits."""
    for service in names():
        with psycopg.connect(url) as connection:
            asked = connection.execute(f"select read_model from {service}.rebuilds".encode())
            tables = sorted(name for (name,) in asked)
        for name in tables:
            rebuilt = rebuild(url, service, name, seconds_max=ASKED_SECONDS_MAX)
            say(summary(service, rebuilt, only_compare=False))
            if not rebuilt.complete:
                say(f"{service}.{name} is not rebuilt to its end: run `make rebuild`")


def progress(
    connection: psycopg.Connection[Any],
    service: str,
    say: Callable[[str], None],
    advance: Callable[[int, int], None],
) -> Callable[[Rebuilt], None]:
    """Report how far it is, and say so every few seconds."""
    row = connection.execute(f"select position from {service}.relay".encode()).fetchone()
    in_all = int(row[0]) if row else 0
    last = time.monotonic()

    def report(rebuilt: Rebuilt) -> None:
        nonlocal last
        advance(rebuilt.events, in_all)
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            say(f"{service}: {rebuilt.events:,} of about {in_all:,} events")

    return report


def summary(service: str, rebuilt: Rebuilt, *, only_compare: bool) -> str:
    """One line about a rebuild."""
    per_second = rebuilt.events / max(rebuilt.seconds, 0.001)
    rows = ", ".join(f"{count:,} in {name}" for name, count in sorted(rebuilt.changed.items()))
    did = "rows that differ" if only_compare else "rows changed"
    held = f"; writers waited {rebuilt.lock_seconds_max:.2f} s at most" if rebuilt.changed else ""
    return (
        f"{service}: {rebuilt.events:,} events in {rebuilt.seconds:.1f} s"
        f" ({per_second:,.0f} per second), {did}: {rows or 'none'}"
        f"{'' if only_compare else held}"
    )


def main(words: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make rebuild", description=__doc__)
    parser.add_argument("--service", choices=owners(), help="only the read models of this service")
    parser.add_argument("--table", help="only this one; it belongs to --service")
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    arguments = parser.parse_args(None if words is None else list(words))
    if arguments.table and not arguments.service:
        parser.error("--table belongs to --service: name the service that has the table")
    wrong = 0
    for service in [arguments.service] if arguments.service else owners():
        try:
            rebuilt = rebuild(
                os.environ["HEELER_ADMIN_DATABASE_URL"],
                service,
                arguments.table,
                only_compare=arguments.check,
                say=lambda line: print(line, flush=True),
            )
        except UnknownEvent as newer:
            print(f"{newer} is for a newer Heeler: rebuild with that", file=sys.stderr)
            return 1
        except (RebuildFailed, psycopg.Error) as problem:
            print(f"{service}: the rebuild failed: {problem}", file=sys.stderr)
            return 1
        print(summary(service, rebuilt, only_compare=arguments.check), flush=True)
        wrong += rebuilt.changed.total()
    return 1 if arguments.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
