"""python -m benchmarks.idle: what a Heeler of our own reads of Postgres while nobody asks.

Fills it with copies of one agent, behind a deletion that erasure still has to wait for, and counts
the blocks that each statement reads in some minutes without a request; then again with more agents.
What runs when nobody asks reads what is new: the figures must be the same, within 10 %. Exit code 1
where they are not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import psycopg

from benchmarks.filled_home import Prototype, make_prototype
from tests.servers import HeelerInstance

RATIO_MAX = 1.10
# What was begun by filling, and the looks that follow a start, are over then.
SETTLED_SECONDS = 90.0
STATEMENTS_SHOWN = 12
PRELOAD = "alter system set shared_preload_libraries = 'pg_stat_statements'"
# Postgres counts a statement once for all schemas if its tables have the same names. The role says
# which service's it is.
BLOCKS = """
select r.rolname, left(regexp_replace(s.query, '\\s+', ' ', 'g'), 90),
       s.shared_blks_hit + s.shared_blks_read
from pg_stat_statements s join pg_roles r on r.oid = s.userid
where s.toplevel and r.rolname like 'heeler\\_%'"""


@dataclass(slots=True)
class Idle:
    """The blocks that were read in a minute, by service and statement."""

    agents: int
    statements: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def blocks(self) -> float:
        """All blocks that were read in a minute."""
        return sum(self.statements.values())

    @property
    def services(self) -> Counter[str]:
        """The same by service."""
        found: Counter[str] = Counter()
        for (service, _), blocks in self.statements.items():
            found[service] += blocks
        return found

    def print(self) -> None:
        """Print it as a table."""
        print(f"\n{self.agents:,} agents: {self.blocks:,.0f} blocks per idle minute")
        for service, blocks in self.services.most_common():
            print(f"  {service:<12}{blocks:>12,.0f}")
        for (service, statement), blocks in self.statements.most_common(STATEMENTS_SHOWN):
            print(f"  {blocks:>12,.0f}  {service}: {statement}")
        sys.stdout.flush()


def measure(prototype: Prototype, agents: int, seconds: float) -> Idle:
    """What is read while nobody asks, when there are so many agents."""
    began = time.monotonic()
    prototype.fill(agents)
    print(f"{agents:,} agents after {time.monotonic() - began:.0f} s", flush=True)
    time.sleep(SETTLED_SECONDS)
    with psycopg.connect(prototype.database_url, autocommit=True) as connection:
        connection.execute("select pg_stat_statements_reset()")
        time.sleep(seconds)
        rows = connection.execute(BLOCKS).fetchall()
    found = Idle(agents)
    for role, statement, blocks in rows:
        found.statements[role.removeprefix("heeler_"), statement] += round(blocks * 60 / seconds)
    found.print()
    return found


def compare(counts: list[int], seconds: float) -> bool:
    """Measure with each number of agents; whether the first and the last are equal enough."""
    with HeelerInstance() as instance:
        instance.psql(PRELOAD)
        instance.down()
        instance.up()
        instance.psql("create extension pg_stat_statements")
        prototype = make_prototype(instance.base_url, instance.database_url)
        found = [measure(prototype, count, seconds) for count in counts]
    ratio = found[-1].blocks / found[0].blocks
    verdict = "ok" if ratio <= RATIO_MAX else "MISSED"
    print(f"\n{ratio:.2f} times as many blocks (goal <= {RATIO_MAX:g}): {verdict}")
    return ratio <= RATIO_MAX


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle", description=__doc__)
    parser.add_argument("--agents", type=int, nargs="+", default=[1_000, 20_000])
    parser.add_argument("--seconds", type=float, default=600.0, help="without a request, for each")
    given = parser.parse_args()
    try:
        return 0 if compare(given.agents, given.seconds) else 1
    except (AssertionError, TimeoutError, psycopg.Error) as problem:
        print(f"python -m benchmarks.idle: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
