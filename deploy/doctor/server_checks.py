"""The server of this home: its processes, its health, what waits and what was given up."""

from __future__ import annotations

from contextlib import closing

import psycopg

from deploy.doctor.examined import Examined
from deploy.doctor.findings import Finding, ok, problem, skip, warning
from deploy.doctor.postgres_checks import NOT_RUNNING, connect
from deploy.embedded.api_health import Health, read_health
from deploy.embedded.state import InstanceState
from libs.contracts.service_registry import SERVICES, Service
from libs.eventstore.backlog_counts import CONSUMER_LAG, CONSUMERS, DEAD_LETTERS, RELAY_LAG

LAG_EVENTS_LOW, LAG_EVENTS_MAX = 2_000, 50_000
RESTARTS_MANY = 5
LOG_LINES = 50


def check_processes(examined: Examined) -> list[Finding]:
    """Whether the processes that should run do, and no others."""
    state = examined.state
    if state is None:
        return [ok(f"not running; start it with {examined.command('up')}")]
    if examined.running is None:
        return [_left_behind(examined, state)]
    if state.phase != "running":
        return [warning(f"the server is {state.phase}", "sleep 30 # then ask again")]
    found = []
    for part in state.parts.values():
        log = examined.settings.log(part.name)
        fix = f"tail -n {LOG_LINES} {log} # says why"
        if part.mark is None or part.mark.process() is None:
            text = f"{part.name} does not run: {part.restarts} restarts, last exit {part.last_exit}"
            found.append(problem(text, fix))
        elif part.restarts >= RESTARTS_MANY:
            found.append(warning(f"{part.name} was started again {part.restarts} times", fix))
    found += [warning(notice, "true # it is mended") for notice in state.notices]
    return found or [ok(f"{len(state.parts)} processes run")]


def _left_behind(examined: Examined, state: InstanceState) -> Finding:
    """The remains of a server that has stopped."""
    alive = [
        f"{part.name} (pid {part.mark.pid})"
        for part in state.parts.values()
        if part.mark and part.mark.process()
    ]
    if alive:
        return problem(
            f"the supervisor is gone, and {', '.join(alive)} runs", examined.command("down")
        )
    if state.phase == "failed":
        return warning(f"the last start failed: {state.problem}", examined.command("up"))
    if state.phase not in ("stopped", "failed"):
        return warning(
            f"the server ended while it was {state.phase}, and nobody stopped it",
            examined.command("down"),
        )
    return ok(f"not running; start it with {examined.command('up')}")


def check_health(examined: Examined) -> list[Finding]:
    """The API's report on itself and on all behind it."""
    if examined.running is None:
        return [skip("no server runs in this home")]
    settings = examined.settings
    port = examined.running.ports.get("api", settings.port)
    health: Health = read_health(settings.reach_host, port)
    if not health.code:
        text = f"the API does not answer at {settings.reach_host}:{port}"
        return [problem(text, examined.restart)]
    if not health.all_ok:
        texts = [f"{name} says: {health.parts[name]}" for name in health.failing]
        texts = texts or [f"the API answers with {health.code}"]
        return [problem(text, examined.restart) for text in texts]
    return [ok("all parts say that they are well")]


def check_backlog(examined: Examined) -> list[Finding]:
    """Events that wait to be published or handled, and messages that were given up."""
    if examined.database_url is None:
        return [skip(NOT_RUNNING)]
    try:
        with closing(connect(examined.database_url)) as connection:
            lags = _lags(connection)
            letters = (DEAD_LETTERS.format(schema=service.name) for service in SERVICES)
            given_up = sum(_number(connection, statement) for statement in letters)
    except psycopg.Error:
        return [skip("the logs cannot be read: see `postgres` and `migrations`")]
    found = []
    name, lag = max(lags.items(), key=lambda item: item[1])
    text = f"{lag:,} events wait for {name}"
    if lag >= LAG_EVENTS_LOW:
        grade = problem if lag >= LAG_EVENTS_MAX else warning
        found.append(grade(text, examined.restart))
    if given_up:
        text = f"{given_up} messages were given up (dead letters)"
        found.append(warning(text, examined.command("admin dead-letters list")))
    return found or [ok(f"no dead letters, at most {lag:,} events wait")]


def _lags(connection: psycopg.Connection[tuple[object, ...]]) -> dict[str, int]:
    """The number of events that wait for each relay and each consumer."""
    lags = {}
    for service in SERVICES:
        relay = RELAY_LAG.format(schema=service.name)
        lags[f"the relay of {service.name}"] = _number(connection, relay)
        for upstream in _followed(connection, service):
            consumer = CONSUMER_LAG.format(schema=service.name, upstream=upstream)
            lags[f"{service.name}, which follows {upstream}"] = _number(connection, consumer)
    return lags


def _followed(connection: psycopg.Connection[tuple[object, ...]], service: Service) -> list[str]:
    """The services whose logs a service reads to their ends. Where it only hears events, nothing
    waits for it: it stores no position."""
    stored = connection.execute(CONSUMERS.format(schema=service.name).encode()).fetchall()
    return sorted({str(name) for (name,) in stored} & {*service.follows})


def _number(connection: psycopg.Connection[tuple[object, ...]], statement: str) -> int:
    row = connection.execute(statement.encode()).fetchone()
    return int(str(row[0])) if row else 0
