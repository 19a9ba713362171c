"""Start Postgres, NATS and the services in order, restart what dies, stop in reverse order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from deploy.embedded import postgres_location, systemd, terminals
from deploy.embedded.api_health import LAUNCH_PROBE_SECONDS_MAX, read_health
from deploy.embedded.applied_configuration import read_applied
from deploy.embedded.leftovers import kill_leftovers
from deploy.embedded.listener import open_listener
from deploy.embedded.migration_run import run_migrations
from deploy.embedded.nats_part import NatsPart
from deploy.embedded.nats_server import Nats
from deploy.embedded.postgres_location import require_database
from deploy.embedded.postgres_server import buffers_mb, memory_bytes
from deploy.embedded.reload import Reloader, check_in_process
from deploy.embedded.service_commands import (
    HTTP_PARTS,
    fork_server_command,
    service_command,
)
from deploy.embedded.service_environment import fingerprints
from deploy.embedded.service_forks import ServiceForks, can_fork
from deploy.embedded.service_watch import ServiceWatch
from deploy.embedded.settings import (
    DATABASE,
    HEALTH_POLL_SECONDS,
    LaunchError,
    Settings,
    close_home,
    launch_configuration,
    open_home,
    require_password,
    service_of,
)
from deploy.embedded.state import (
    HomeLock,
    InstanceState,
    PartState,
    ProcessMark,
    Secrets,
    choose_ports,
    open_secrets,
    read_state,
    write_state,
)
from deploy.embedded.subprocesses import Command, Start, start_program
from deploy.embedded.supervised_process import (
    LOOK_SECONDS,
    Failed,
    Look,
    Part,
    Well,
    look_at_server,
)
from libs.contracts.environment_parsing import is_ip_address
from libs.contracts.nats_permissions import WATCH

log = logging.getLogger("heeler.supervisor")

STATE_CHECK_SECONDS = 3.0
SYSTEMD_SECONDS = 60.0  # that it waits for the next word


class Supervisor:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._secrets: Secrets = open_secrets(settings.home)
        ports = choose_ports(settings.home)
        home = settings.home
        self._postgres = postgres_location.place(
            home,
            log_file=settings.log("postgres"),
            port=ports["postgres"],
            password=self._secrets.postgres_password,
            buffers_mb=buffers_mb(memory_bytes(), little=settings.processes == "one"),
        )
        self._session = self._postgres.session()
        self._nats = Nats(
            folder=home / "nats",
            log=settings.log("nats"),
            port=ports["nats"],
            passwords=self._secrets.of_nats,
        )
        before = read_state(home)
        self._state = InstanceState(
            phase="starting",
            supervisor=ProcessMark.of(os.getpid()),
            has_database=before is not None and before.has_database,
            variables=fingerprints(settings.environment, self._secrets.nats_password),
            ports={"api": settings.port, **ports},
            urls={
                "api": settings.api_url,
                "openapi": f"{settings.api_url}/openapi",
                "health": f"{settings.api_url}/v1/health",
                "nats": self._nats.url,
                "nats_watch": self._nats.url_of(WATCH),
                "database": self._postgres.url(DATABASE),
            },
            parts={name: PartState(name) for name in settings.parts},
        )
        self._listener: socket.socket | None = None
        self._forks: ServiceForks | None = None
        self._reload_asked = asyncio.Event()
        self._file = launch_configuration(settings.environment).file  # before it may change
        self._applied = read_applied(home)
        self._applied.supervisor = os.getpid()
        self._parts: dict[str, Part] = {}
        self._watching: list[asyncio.Task[None]] = []
        self._services: ServiceWatch | None = None
        self._unwritten = ""  # why the state could not be written, said once

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT, or until the start failed; the exit code."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        ends_with_terminal = terminals.ends_with_terminal()

        def hang_up() -> None:
            is_closed = ends_with_terminal and not terminals.has_terminal()
            (stop if is_closed else self._reload_asked).set()

        loop.add_signal_handler(signal.SIGHUP, hang_up)
        self._write()
        extending = asyncio.create_task(self._extend_timeouts())  # as long as it runs
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        failure = await _outcome(starting)
        if failure is None:
            await stopping
            await self._stop("stopped")
            extending.cancel()
            return 0
        self._state.problem = str(failure) or type(failure).__name__
        self._state.problem_part = failure.part if isinstance(failure, Failed) else "supervisor"
        log.error("start failed: %s", failure)
        await self._stop("failed")
        return 1

    async def _start(self) -> None:
        if self._settings.processes == "each" and can_fork():
            self._forks = ServiceForks(fork_server_command(self._settings))
            self._forks.prepare()
            self._keep(self._forks.reap)
        await self._start_servers()
        await self._start_services()
        self._keep(self._keep_written)
        self._applied.hold(self._state.variables, self._file)
        self._write_applied()
        self._keep(self._reload_when_asked)
        if systemd.is_listening():
            self._watching.append(asyncio.create_task(self._tell_when_ready()))

    async def _tell_when_ready(self) -> None:
        """Tell systemd once all is well."""
        settings = self._settings
        while True:
            health = await asyncio.to_thread(read_health, settings.reach_host, settings.port)
            if health.all_ok:
                break
            await asyncio.sleep(HEALTH_POLL_SECONDS)
        systemd.notify("READY=1", f"STATUS=ready at {settings.api_url}")

    async def _extend_timeouts(self) -> None:
        """Let systemd wait for what this waits for: its clock knows no slow machine."""
        while systemd.is_listening():
            if self._state.phase != "running":
                systemd.notify(f"EXTEND_TIMEOUT_USEC={SYSTEMD_SECONDS * 1_000_000:.0f}")
            await asyncio.sleep(STATE_CHECK_SECONDS)

    async def _start_servers(self) -> None:
        await asyncio.to_thread(self._postgres.prepare)
        self._nats.prepare()
        store = self._add(self._postgres.command(), lambda _: self._postgres.clear_what_died())
        nats = NatsPart(self._nats, self._add, self._notify)
        await asyncio.gather(store.wait_ready(self._postgres.ready), nats.start())
        self._keep(partial(store.watch, self._look_at_postgres))
        bus = self._parts["nats"]
        self._keep(partial(bus.watch, partial(nats.look, bus, self._stores_commands)))

    def _answers_clients(self) -> bool:
        """Whether the api answers, if only that something is missing."""
        settings = self._settings
        health = read_health(settings.reach_host, settings.port, LAUNCH_PROBE_SECONDS_MAX)
        return health.code != 0

    def _look_at_postgres(self) -> Look:
        return look_at_server(self._parts["postgres"], is_well=self._session.answers())

    def _stores_commands(self) -> bool:
        """Whether NATS stores what it is sent, as far as is known."""
        return self._services is None or self._services.stores()

    def _notify(self, notice: str) -> None:
        """Tell the operator what was mended."""
        log.warning("%s", notice)
        self._state.notices.append(notice)
        self._write()

    async def _start_services(self) -> None:
        await asyncio.to_thread(self._postgres.create_database, DATABASE)
        self._state.has_database = True
        self._phase("migrating")
        await run_migrations(
            self._settings,
            self._parts.get("postgres"),
            nats_url=self._nats.url,
            database_url=self._postgres.url(DATABASE),
            passwords=self._secrets.service_passwords,
        )
        if self._settings.replicas > 1 or is_ip_address(self._settings.host):
            self._listener = open_listener(self._settings)
        self._services = ServiceWatch(
            self._nats.url,
            self._servers_well(),
            frozen_seconds_max=self._settings.frozen_seconds_max,
        )
        self._keep(partial(self._services.run, self._answers_clients))
        for name in self._settings.services:
            start = self._forks.start if self._forks else start_program
            part = self._add(self._service_command(self._settings, name), start=start)
            look = partial(self._services.look, part)
            self._keep(partial(part.watch, look, backs_off=True))
        self._phase("running")

    def _servers_well(self) -> list[Callable[[], Well | None]]:
        """From when until when Postgres and NATS are known to have been well."""
        store, bus = self._parts["postgres"], self._parts["nats"]
        return [lambda: store.well if self._session.serves else None, lambda: bus.well]

    def _service_command(self, settings: Settings, name: str) -> Command:
        command = service_command(settings, self._secrets, self._state.ports, name)
        command = replace(command, environment=command.environment | {"HEELER_INSTANCE": name})
        if self._listener is None or service_of(name) not in HTTP_PARTS:
            return command
        descriptor = self._listener.fileno()
        variables = command.environment | {"HEELER_LISTEN_DESCRIPTOR": str(descriptor)}
        return replace(command, environment=variables, descriptors=(descriptor,))

    def _keep(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Go on with this until everything is stopped."""
        self._watching.append(asyncio.create_task(keep_on(work)))

    def _add(
        self,
        command: Command,
        prepare: Callable[[Part], None] | None = None,
        start: Start = start_program,
    ) -> Part:
        state, seconds = self._state.parts[command.name], self._settings.frozen_seconds_max
        part = Part(command, state, self._write, prepare, start, frozen_seconds_max=seconds)
        self._parts[command.name] = part
        part.start()
        return part

    async def _stop(self, phase: str) -> None:
        for task in self._watching:
            task.cancel()
        self._phase("stopping")
        services = [part for name, part in self._parts.items() if name in self._settings.services]
        if self._forks:  # a start that waits for it ends now
            self._forks.close()
        await asyncio.gather(*(part.stop() for part in services))
        for name in ("nats", "postgres"):
            if name in self._parts:
                await self._parts[name].stop()
        if self._listener:
            self._listener.close()
        self._state.supervisor = None
        self._phase(phase)

    def _phase(self, phase: str) -> None:
        self._state.phase = phase
        log.info("%s", phase)
        systemd.notify(f"STATUS={phase}", *(("STOPPING=1",) if phase == "stopping" else ()))
        self._write()

    def _write(self) -> None:
        """Note what runs. A disk that is full meanwhile is no reason to let a part be dead."""
        try:
            write_state(self._settings.home, self._state)
            self._unwritten = ""
        except OSError as error:
            if str(error) != self._unwritten:
                log.warning("the state cannot be written: %s", error)
            self._unwritten = str(error)

    async def _reload_when_asked(self) -> None:
        """Load the configuration anew at each SIGHUP, one after the other."""
        while True:
            await self._reload_asked.wait()
            self._reload_asked.clear()
            reloader = Reloader(
                settings=self._settings,
                applied=self._applied,
                variables=self._state.variables,
                key=self._secrets.nats_password,
                parts=[self._parts[name] for name in self._settings.services],
                command=self._service_command,
                wait_healthy=self._wait_healthy,
                write=self._write_applied,
                check=check_in_process,
            )
            await reloader.reload()
            self._settings, self._state.variables = reloader.settings, {**reloader.variables}
            self._write()

    async def _wait_healthy(self, part: Part) -> None:
        """Return when a service that was started anew serves. Raises Failed."""
        watch = self._services
        assert watch is not None, "services are replaced when they have been started"

        async def serves() -> bool:
            watch.ask_for_signs()
            if not watch.gave_sign(part):
                return False
            is_api = service_of(part.command.name) in HTTP_PARTS
            return not is_api or await asyncio.to_thread(self._is_ready_for_clients)

        await part.wait_for_sign(serves)

    def _is_ready_for_clients(self) -> bool:
        """Whether the api says that nothing is missing."""
        return read_health(self._settings.reach_host, self._settings.port).code == HTTPStatus.OK

    def _write_applied(self) -> None:
        try:
            self._applied.write(self._settings.home)
        except OSError as error:
            log.warning("the state of the configuration cannot be written: %s", error)

    async def _keep_written(self) -> None:
        """Write the state again where it could not be written, or was damaged by somebody."""
        while True:
            await asyncio.sleep(STATE_CHECK_SECONDS)
            if read_state(self._settings.home) != self._state:
                self._write()


async def keep_on(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do this until it is cancelled; where it fails, again after a look."""
    while True:
        try:
            await work()
        except Exception:  # the process edge: the supervisor outlives a shortage
            log.exception("a watch failed, and begins again")
        await asyncio.sleep(LOOK_SECONDS)


async def _outcome(starting: asyncio.Task[None]) -> Exception | None:
    """None when the start went well or was called off, else what went wrong."""
    if not starting.done():
        starting.cancel()
    try:
        await starting
    except asyncio.CancelledError:
        return None
    except Exception as error:  # the process edge: noted in state.json, shown by `up`
        if not isinstance(error, Failed | LaunchError):
            log.exception("start failed")
        return error
    return None


def main(settings: Settings, kind: type[Supervisor] = Supervisor) -> int:
    """Supervise in the foreground; refuses when this home already has a supervisor."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    terminals.outlive_hangups()
    require_password(settings)
    open_home(settings)
    require_database(settings.home)
    lock = HomeLock(settings.home)
    if not lock.take():
        raise LaunchError(f"{settings.home} is already up: {settings.api_url}")
    close_home(settings)
    kill_leftovers(read_state(settings.home))
    return asyncio.run(kind(settings).run())
