"""`python -m tests.fuzz`: hostile requests to a server of its own (or to --url)."""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.fuzz.fuzzer import FINDINGS_SHOWN_MAX, Report, fuzz
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance


async def against_own_server(seeds: list[int], requests: int) -> list[Report]:
    """Start a server with a scripted model, fuzz it with every seed, stop it."""
    async with ScriptedModelProcess() as model:
        env = {"OPENAI_API_BASE": model.base_url, "OPENAI_API_KEY": "any"}
        with HeelerInstance(env=env) as heeler:
            return await against(heeler.base_url, seeds, requests)


async def against(base_url: str, seeds: list[int], requests: int) -> list[Report]:
    """Fuzz a server with every seed."""
    reports = []
    for seed in seeds:
        report = await fuzz(base_url, seed=seed, requests=requests)
        print(f"seed {seed}: {report}", flush=True)
        for finding in report.findings[:FINDINGS_SHOWN_MAX]:
            print(finding, flush=True)
        reports.append(report)
    return reports


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from --first on")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--requests", type=int, default=10_000, help="requests of a seed")
    parser.add_argument("--url", help="a running server instead of one of its own")
    asked = parser.parse_args()
    seeds = list(range(asked.first, asked.first + asked.seeds))
    running = (
        against(asked.url, seeds, asked.requests)
        if asked.url
        else against_own_server(seeds, asked.requests)
    )
    return int(any(report.findings for report in asyncio.run(running)))


if __name__ == "__main__":
    sys.exit(main())
