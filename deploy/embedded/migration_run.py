"""The migrations, in a process of their own."""

from __future__ import annotations

import asyncio
import signal

from deploy.embedded.process_activity import LOOK_AGAIN_SECONDS, Allowance, OwnTime
from deploy.embedded.subprocesses import Child, Command, signal_group, start_program
from deploy.embedded.supervised_process import Failed, Part

MIGRATES_WITHIN = OwnTime(processor_seconds=3600.0, idle_seconds=600.0)  # of millions of events


async def run_migrations(command: Command, store: Part | None) -> None:
    """Return when they are done. Raises Failed where they fail, or where they and Postgres, which
    does their work, have had more time of their own than they may."""
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
