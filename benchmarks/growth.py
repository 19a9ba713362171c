"""python -m benchmarks.growth: what requests read where there are 1,000 agents, and 20,000.

Fills a Heeler of our own, and asks an api in this process, on its database, for every route that
lists, counts or retrieves, with each of its parameters alone, and for words in messages. Prints
how many blocks Postgres reads for each, and how many times as many with the more agents. A request
that reads more than 1.5 times as much is named last; the exit status is 1 where there is any.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

import httpx

from benchmarks.filled_home import Prototype, make_prototype
from benchmarks.instance import start
from libs.eventstore.connection_pool import open_pool
from tests.asked_routes import AskedApi, questions
from tests.servers import HeelerInstance

AGENTS = (1_000, 20_000)
RATIO_MAX = 1.5
ROOM_BLOCKS = 10  # an index has one more level
NOTHING = "00000000-0000-4000-8000-000000000000"
# What parameters are asked with: what only the first agent has, or what nobody has.
ASKED = {
    "connected_to_agents_count_gt": "1",
    "end_date": "2020-01-01T00:00:00Z",
    "label": "nowhere",
    "since": "2020-01-01T00:00:00Z",
    "start_date": "2020-01-01T00:00:00Z",
    "until": "2020-01-01T00:00:00Z",
    "version": "1",
}
# Where a route names a thing, the list in which the first agent has one, by the thing's parameter.
LISTED = {
    "archive_id": "/v1/archives?agent_id={agent_id}",
    "block_id": "/v1/agents/{agent_id}/core-memory/blocks",
    "conversation_id": "/v1/conversations?agent_id={agent_id}",
    "group_id": "/v1/agents/{agent_id}/groups",
    "message_id": "/v1/agents/{agent_id}/messages",
    "run_id": "/v1/runs?agent_id={agent_id}",
    "step_id": "/v1/steps?agent_id={agent_id}",
    "tool_run_id": "/v1/tool-runs?agent_id={agent_id}",
}


class Ids(dict[str, str]):
    """The ids of what the first agent has; of what it has not, one that nobody has."""

    def __missing__(self, name: str) -> str:
        return f"{name.removesuffix('_id')}-{NOTHING}"


def ids_of(base_url: str, prototype: Prototype) -> Ids:
    """The ids of what the first agent has."""
    ids = Ids(agent_id=prototype.agent_id, tool_id=prototype.tool_id, version="1")
    with httpx.Client(base_url=base_url, follow_redirects=True) as client:
        for name, path in LISTED.items():
            found: Any = client.get(path.format(**ids)).json()
            if found:
                ids[name] = found[0]["id"]
    return ids


async def blocks_read(database_url: str, ids: Mapping[str, str]) -> dict[str, int]:
    """How many blocks each question reads."""
    read: dict[str, int] = {}
    async with open_pool(database_url) as pool:
        api = AskedApi(pool)
        for question in questions(ids, {**ids, **ASKED}):
            await api.ask(question)
            read[str(question)] = api.database.blocks
    return read


async def measure(counts: list[int]) -> dict[int, dict[str, int]]:
    """The blocks of each question, by how many agents there are."""
    instance = HeelerInstance()
    try:
        await start(instance)
        url = instance.database_url
        prototype = await asyncio.to_thread(make_prototype, instance.base_url, url)
        ids = await asyncio.to_thread(ids_of, instance.base_url, prototype)
        read = {}
        for count in counts:
            await asyncio.to_thread(prototype.fill, count)
            read[count] = await blocks_read(url, ids)
        return read
    finally:
        await asyncio.to_thread(instance.close)


def grown(read: dict[int, dict[str, int]]) -> list[str]:
    """The questions that read more where there are more agents."""
    few, many = read[min(read)], read[max(read)]
    return [name for name in many if many[name] > RATIO_MAX * few[name] + ROOM_BLOCKS]


def main() -> int:
    """Print the table, and what grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, nargs="+", default=[*AGENTS])
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file, too")
    options = parser.parse_args()
    read = asyncio.run(measure(options.agents))
    few, many = min(read), max(read)
    print(f"{'request':<90}{few:>12,}{many:>12,}{'ratio':>8}")
    for name, blocks in read[many].items():
        ratio = blocks / max(read[few][name], 1)
        print(f"{name[:89]:<90}{read[few][name]:>12,}{blocks:>12,}{ratio:>8.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(read, file)
    more = grown(read)
    print(f"{len(more)} of {len(read[many])} requests read more:", *more, sep="\n  ")
    return int(bool(more))


if __name__ == "__main__":
    sys.exit(main())
