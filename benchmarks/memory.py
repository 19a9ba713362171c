"""python -m benchmarks.memory: the idle memory of a Heeler, by process, in both ways to run it."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.cpu import roots_of_home, tree
from deploy.embedded.settings import PROCESSES
from tests.servers import HeelerInstance

PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
SETTLE_SECONDS = 5.0
TARGETS_MB = {"one": 250.0, "each": 420.0}


def pss_bytes(pid: int) -> int:
    """Proportional set size: what it has alone, and its share of what it shares; 0 when it is gone.

    The kernel tells it to the owner of the process and to root.
    """
    try:
        found = PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found.group(1)) * 1024 if found else 0


def measured(roots: Mapping[str, int]) -> dict[str, int]:
    """PSS bytes by the name of each process tree. A process in two trees, as all below the
    supervisor are, counts in the one that is named first."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    for name, pid in roots.items():
        fresh = {process.pid for process in tree(pid)} - seen
        seen |= fresh
        found[name] = sum(map(pss_bytes, fresh))
    return found


async def idle(processes: str, seconds: float) -> dict[str, int]:
    """What a fresh instance needs after so long without work; gone afterwards."""
    instance = HeelerInstance(env={"HEELER_PROCESSES": processes})
    try:
        await asyncio.to_thread(instance.up)
        await asyncio.sleep(seconds)
        return measured(roots_of_home(instance.home)())
    finally:
        await asyncio.to_thread(instance.close)


def table(processes: str, found: Mapping[str, int]) -> str:
    """One line for each process and one for all of them."""
    total, wanted = sum(found.values()) / 1e6, TARGETS_MB[processes]
    verdict = "ok" if total <= wanted else "MISSED"
    lines = [f"HEELER_PROCESSES={processes}: PSS in MB"]
    lines += [f"  {name:<12}{bytes_ / 1e6:>8.1f}" for name, bytes_ in found.items()]
    lines += [f"  {'all':<12}{total:>8.1f}  goal <= {wanted:.0f} MB {verdict}"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SETTLE_SECONDS, help="idle before")
    parser.add_argument("--processes", choices=PROCESSES, action="append", help="only this way")
    options = parser.parse_args()
    for processes in options.processes or PROCESSES:
        print(table(processes, asyncio.run(idle(processes, options.seconds))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
