"""`python -m tests.fuzz`: hostile requests to a server of its own."""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.fuzz.corpus import things
from tests.fuzz.fuzzer import FINDINGS_SHOWN_MAX, Report, fuzz
from tests.fuzz.openapi import fuzz_document
from tests.fuzz.servers import fuzzed_server


async def run(seeds: range, requests: int, examples: int) -> list[Report]:
    """Ask everything with every seed, and print what came of it."""
    reports: list[Report] = []

    def done(name: str, report: Report) -> None:
        print(f"{name}: {report}", *report.findings[:FINDINGS_SHOWN_MAX], sep="\n", flush=True)
        reports.append(report)

    async with fuzzed_server() as heeler:
        for seed in seeds:
            if requests:
                report = await fuzz(heeler.base_url, seed=seed, requests=requests)
                done(f"mutations, seed {seed}", report)
            if examples:
                ids = await things(heeler.base_url)
                url = heeler.base_url
                report = await asyncio.to_thread(
                    fuzz_document, url, ids, seed=seed, examples=examples
                )
                done(f"document, seed {seed}", report)
    return reports


def main() -> int:
    """1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--requests", type=int, default=10_000, help="mutations of a seed")
    parser.add_argument("--examples", type=int, default=10, help="of the document, per operation")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.seeds)
    reports = asyncio.run(run(seeds, asked.requests, asked.examples))
    print(f"total: {sum((report.statuses.total() for report in reports), 0)} requests")
    return int(any(report.findings for report in reports))


if __name__ == "__main__":
    sys.exit(main())
