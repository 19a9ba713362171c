"""Remove folders that programs have written into, whatever these have made there."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL

REMOVE_SECONDS_MAX = 60.0


async def remove_folder(path: str) -> None:
    """Remove a folder with all that is in it; one that is not there is removed. Raises OSError for
    what cannot be removed now."""
    # These go down as far as folders do, which no walk in Python does. The first is for what a
    # program has made unreadable for its own user.
    await exit_status("chmod", "-R", "u+rwX", path)
    if await exit_status("rm", "-rf", path) != 0:
        raise OSError(f"{path} could not be removed")


async def exit_status(*command: str) -> int:
    """Run a command; returns its exit status."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        async with asyncio.timeout(REMOVE_SECONDS_MAX):
            return await process.wait()
    except TimeoutError:
        raise OSError(f"{command[0]} took more than {REMOVE_SECONDS_MAX:g} seconds") from None
    finally:
        if process.returncode is None:
            process.kill()
