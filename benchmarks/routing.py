"""python -m benchmarks.routing: what it takes to route a message, beside one that names its agent.

`route` is a message in the background: when the answer comes, the agents are found and it is
durable which one gets the message. `plain` and `routed` are the same message to the same agent, by
turns, until its answer is there; the overhead is the difference of their medians.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

import httpx
import uvloop

from benchmarks.instance import own_instance
from benchmarks.sandbox import percentile

MESSAGES = 300
AGENTS = 100  # that are there; one in five can do what is asked for
MESSAGES_OF_AN_AGENT = 20  # so that contexts stay short
SECONDS_MAX = 60.0
ROUTE_MS_MAX = 10.0
OVERHEAD_MS_MAX = 2.0
SAID = {"input": "hello"}


def new_agent(client: httpx.Client, *capabilities: str) -> str:
    """An agent that declares some capabilities."""
    body = {
        "model": "openai/gpt-4o-mini",
        "embedding": "openai/text-embedding-3-small",
        "include_base_tools": False,
        "capabilities": [*capabilities],
    }
    made = client.post("/v1/agents/", json=body)
    made.raise_for_status()
    return str(made.json()["id"])


def milliseconds(client: httpx.Client, path: str) -> float:
    """How long one message took."""
    began = time.perf_counter()
    answer = client.post(path, json=SAID)
    took = (time.perf_counter() - began) * 1e3
    answer.raise_for_status()
    return took


def wait_until_idle(client: httpx.Client) -> None:
    """Let what goes on in the background end, so that it is not measured."""
    while client.get("/v1/routing/messages", params={"status": "active", "limit": 1}).json():
        time.sleep(0.01)


def routes(client: httpx.Client, count: int) -> list[float]:
    """Times of messages that are routed in the background, one after another."""
    for number in range(AGENTS):
        new_agent(client, *(["common"] if number % 5 == 0 else []))
    taken = []
    for _ in range(count):
        taken.append(milliseconds(client, "/v1/capabilities/common/messages/async"))
        wait_until_idle(client)
    return taken


def pairs(client: httpx.Client, count: int) -> tuple[list[float], list[float]]:
    """Times of messages to an agent by its id and by a capability that only it has."""
    plain: list[float] = []
    routed: list[float] = []
    while len(plain) < count:
        name = f"only-{len(plain)}"
        agent_id = new_agent(client, name)
        for turn in range(min(MESSAGES_OF_AN_AGENT, count - len(plain))):
            both = [
                (plain, f"/v1/agents/{agent_id}/messages"),
                (routed, f"/v1/capabilities/{name}/messages"),
            ]
            for taken, path in both if turn % 2 else reversed(both):
                taken.append(milliseconds(client, path))
    return plain, routed


def row(name: str, taken: list[float]) -> str:
    """One row of the table."""
    p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
    return f"{name:<10}{len(taken):>6}{p50:>9.2f}{p99:>9.2f}{max(taken):>9.2f}"


def judged(value: float, bound: float) -> str:
    """Whether a figure keeps to its bound."""
    return f"{value:.2f} ms, bound {bound:g} ms: {'ok' if value <= bound else 'MISSED'}"


def measure(base_url: str, count: int) -> None:
    """Print what each kind takes, and whether the bounds are kept."""
    with httpx.Client(base_url=base_url, timeout=SECONDS_MAX) as client:
        agent_id = new_agent(client, "first")
        for path in ("/v1/capabilities/first/messages", f"/v1/agents/{agent_id}/messages"):
            milliseconds(client, path)  # the first one of its kind
        found = routes(client, count)
        plain, routed = pairs(client, count)
    print(f"{'row':<10}{'times':>6}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}")
    for name, taken in (("route", found), ("plain", plain), ("routed", routed)):
        print(row(name, taken))
    overhead = percentile(routed, 0.5) - percentile(plain, 0.5)
    print(f"route, discovery included, p99: {judged(percentile(found, 0.99), ROUTE_MS_MAX)}")
    print(f"routed over plain, p50: {judged(overhead, OVERHEAD_MS_MAX)}")


async def run(count: int) -> int:
    """Measure an instance of its own."""
    async with own_instance() as subject:
        origin = subject.origin
        await asyncio.to_thread(measure, f"http://{origin.host}:{origin.port}", count)
    return 0


def main() -> int:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.routing", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help="of each row")
    return uvloop.run(run(parser.parse_args().messages))


if __name__ == "__main__":
    sys.exit(main())
