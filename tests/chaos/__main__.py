"""`make chaos`: the same faults as the tests, for longer, with a table of what was found."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time

from tests.chaos.network import networked
from tests.chaos.oracle import Verdict
from tests.chaos.scenarios import NETWORK_SCENARIOS, SCENARIOS, Scenario
from tests.chaos.world import World, started

MINUTES_DEFAULT = 2.0
CI_MINUTES = 0.5  # what a dose of the tests takes, roughly
ALL = sorted(SCENARIOS | NETWORK_SCENARIOS)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", default=",".join(ALL), help="ids, such as R01,R05")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES_DEFAULT, help="for each scenario, about"
    )
    parser.add_argument("--seed", type=int, default=None, help="of the times and the victims")
    return parser.parse_args()


async def run(only: list[str], minutes: float, seed: int) -> list[Verdict]:
    """The verdicts of the chosen scenarios, one after the other, those of a kind in one world."""
    verdicts: list[Verdict] = []
    chosen = {name: SCENARIOS[name] for name in only if name in SCENARIOS}
    if chosen:
        async with started(seed) as world:
            for name, scenario in chosen.items():
                verdicts.append(await run_one(world, name, scenario, minutes))
    on_wires = {name: NETWORK_SCENARIOS[name] for name in only if name in NETWORK_SCENARIOS}
    if on_wires:
        async with networked(seed) as network:
            for name, each in on_wires.items():
                verdicts.append(await run_one(network, name, each, minutes))
    return verdicts


async def run_one[W: World](world: W, name: str, scenario: Scenario[W], minutes: float) -> Verdict:
    """One scenario, with a line now and then to say that it lives."""
    verdict = await judged(world, name, scenario, minutes)
    print(verdict.report(), flush=True)
    return verdict


async def judged[W: World](world: W, name: str, scenario: Scenario[W], minutes: float) -> Verdict:
    """What a scenario found. A process edge: one that breaks off is a failed one."""
    dose = scenario.dose.times(max(1.0, minutes / CI_MINUTES))
    began = time.monotonic()
    print(f"{name} {scenario.title}: {dose.faults} faults, {dose.messages} messages", flush=True)

    async def progress() -> None:
        while True:
            await asyncio.sleep(10)
            print(
                f"  {time.monotonic() - began:4.0f} s, {len(world.kills)} kills so far",
                flush=True,
            )

    telling = asyncio.create_task(progress())
    try:
        return await scenario.run(world, dose)
    except Exception as error:
        broken = Verdict(name)
        broken.wrong.append(f"broke off: {type(error).__name__}: {error}")
        return broken
    finally:
        telling.cancel()


def table(verdicts: list[Verdict]) -> str:
    """One line for each scenario."""
    lines = [
        f"{'':9} {'kills':>6} {'messages':>9} {'lost':>5} {'doubled':>8} {'stuck':>6} {'wrong':>6}"
        f" {'slowest s':>10}  verdict"
    ]
    lines += [
        f"{verdict.scenario:9} {verdict.kills:6} {verdict.messages:9} {len(verdict.lost):5}"
        f" {len(verdict.doubled):8} {len(verdict.stuck):6} {len(verdict.wrong):6}"
        f" {verdict.recovery_seconds:10.1f}"
        f"  {'FAILED' if not verdict.passed else 'passed in part' if verdict.skipped else 'passed'}"
        for verdict in verdicts
    ]
    return "\n".join(lines)


def main() -> int:
    options = arguments()
    only = [name.strip().upper() for name in options.only.split(",")]
    unknown = [name for name in only if name not in ALL]
    if unknown:
        print(f"There is no {', '.join(unknown)}: choose from {', '.join(ALL)}.")
        return 2
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(3))
    print(f"seed {seed}", flush=True)
    verdicts = asyncio.run(run(only, options.minutes, seed))
    print(table(verdicts))
    return 0 if all(verdict.passed for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
