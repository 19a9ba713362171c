"""The migrations, in a process of their own."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import signal
from collections.abc import Mapping

from deploy.embedded.process_activity import LOOK_AGAIN_SECONDS, Allowance, OwnTime
from deploy.embedded.service_commands import python_command
from deploy.embedded.service_environment import of_server
from deploy.embedded.settings import Settings
from deploy.embedded.subprocesses import Child, signal_group, start_program
from deploy.embedded.supervised_process import Failed, Part

log = logging.getLogger("heeler.supervisor")

MIGRATES_WITHIN = OwnTime(processor_seconds=3600.0, idle_seconds=600.0)  # of millions of events


async def run_migrations(
    settings: Settings,
    store: Part | None,
    *,
    nats_url: str,
    database_url: str,
    passwords: Mapping[str, str],
) -> None:
    """Return when they are done, at once where there are none. Raises Failed where they fail, or
    where they and Postgres, which does their work, have had more time of their own than they may.
    `passwords` are those of the services."""
    module = settings.migrations_module
    if not module_exists(module):
        log.info("no module %s: no migrations", module)
        return
    command = python_command(
        settings,
        "migrate",
        module,
        of_server(),
        HEELER_NATS_URL=nats_url,
        HEELER_ADMIN_DATABASE_URL=database_url,
        HEELER_SERVICE_PASSWORDS=json.dumps(dict(passwords)),
    )
    process = await start_program(command)
    try:
        code = await exit_code(process, store)
    finally:
        if process.returncode is None:
            signal_group(process.pid, signal.SIGKILL)
            await process.wait()
    if code != 0:
        raise Failed("migrate", f"the migrations ended with exit code {code}.")


async def exit_code(process: Child, store: Part | None) -> int:
    """The exit code of the migrations. Raises Failed where it does not come in time."""
    ended = asyncio.ensure_future(process.wait())
    own = Allowance(MIGRATES_WITHIN)
    of_store = store.allowance(MIGRATES_WITHIN) if store else own
    while not (await asyncio.wait([ended], timeout=LOOK_AGAIN_SECONDS))[0]:
        if all((own.is_spent(process.pid), of_store.is_spent(store.pid if store else None))):
            late = f"the migrations took more than {MIGRATES_WITHIN} and were ended."
            raise Failed("migrate", late)
    return ended.result()


def module_exists(module: str) -> bool:
    """Whether there is a module of this name to run."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
