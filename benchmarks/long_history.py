"""python -m benchmarks.long_history: what an agent with a long history costs, beside empty ones.

Makes an agent with so many messages, and one whose window takes so many bytes, in a Heeler of our
own. Then each is asked in turn with agents that were never asked before, so that both see the same
machine. Prints the ratio of the latencies, and how many bytes there are of each agent: of its
window, of its snapshot, of what a process keeps of it, and of the ids that a client reads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass
from statistics import median

import psycopg
from pydantic_core import to_json

from benchmarks.agents import RunFailed, one_call
from benchmarks.client import Connection, Origin
from benchmarks.instance import start
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.all_messages import load_contracts
from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.event_decoding import replay
from libs.eventstore.postgres import PostgresEventStore
from services.agent.domain.conversations.conversation import Conversation
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance

RATIO_MAX = 1.2
MESSAGES_PER_REQUEST = 1_000
# After so many messages another empty agent is asked: it is not empty any more.
EMPTY_UNTIL = 10
FILL_CHARS = 60
LARGE_CHARS = 20_000
LARGE_WINDOW_TOKENS = 1_000_000
MODEL = "openai/gpt-4o-mini"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large an agent is, in bytes but for the counts."""

    history: int
    shown: int
    window: int
    snapshot: int
    cache: int
    message_ids: int

    def line(self, name: str) -> str:
        """The sizes of one agent, as a row."""
        counts = f"{self.history:>9,}{self.shown:>8,}"
        sizes = (self.window, self.snapshot, self.cache, self.message_ids)
        return f"{name:<26}{counts}" + "".join(f"{size / 1024:>12,.1f}" for size in sizes)


HEADING = (
    f"{'agent':<26}{'messages':>9}{'shown':>8}"
    f"{'window':>12}{'snapshot':>12}{'cache':>12}{'message_ids':>12}  (KiB)"
)


class Driver:
    """Asks the agents of one instance."""

    def __init__(self, instance: HeelerInstance, model: ScriptedModelProcess) -> None:
        self.instance = instance
        self.origin = Origin.of(instance.base_url)
        self.connection = Connection(self.origin)
        self.model = model

    async def created(self, **fields: object) -> str:
        """A new agent."""
        body = {"model": MODEL, "memory_blocks": [{"label": "human", "value": "Sam"}], **fields}
        answer = json.loads(await self.call("POST", "/v1/agents/", body))
        return str(answer["id"])

    async def call(self, method: str, path: str, body: object = None) -> bytes:
        """The answer to a request. Raises RunFailed unless it is a success."""
        return await one_call(self.connection, self.origin.request(method, path, body))

    async def say(self, agent_id: str, *texts: str) -> float:
        """Send messages and wait for the answer; returns how many seconds it took."""
        messages = [{"role": "user", "content": text} for text in texts]
        began = time.perf_counter()
        await self.call("POST", f"/v1/agents/{agent_id}/messages", {"messages": messages})
        return time.perf_counter() - began

    async def fill(self, agent_id: str, count: int, chars: int) -> None:
        """Give an agent so many messages, as many at once as a request may hold."""
        per_request = min(MESSAGES_PER_REQUEST, max(1, 2_000_000 // chars))
        for begun in range(0, count, per_request):
            number = min(per_request, count - begun)
            texts = [f"message {begun + n} ".ljust(chars, "x") for n in range(number)]
            await self.say(agent_id, *texts)

    async def beside_empty(self, agent_id: str, rounds: int) -> tuple[float, float]:
        """The median seconds of a message to an agent, and to empty ones, in turn."""
        those: list[float] = []
        empties: list[float] = []
        empty = ""
        for number in range(rounds):
            if number % EMPTY_UNTIL == 0:
                empty = await self.created()
                await self.say(empty, "warm")
            those.append(await self.say(agent_id, "hello"))
            empties.append(await self.say(empty, "hello"))
        return median(those), median(empties)

    async def model_alone(self, rounds: int) -> tuple[float, float]:
        """The median seconds in which the model by itself answers what it was asked last: for the
        agent, and for the empty one."""
        origin = Origin.of(self.model.base_url)
        connection = Connection(origin)
        asked = [
            origin.request("POST", "/chat/completions", body)
            for body in await self.model.requests(last=2)
        ]
        took: list[list[float]] = [[], []]
        for _ in range(rounds):
            for request, seconds in zip(asked, took, strict=True):
                began = time.perf_counter()
                await one_call(connection, request)
                seconds.append(time.perf_counter() - began)
        connection.close()
        return median(took[0]), median(took[1])

    async def sizes(self, agent_id: str) -> Sizes:
        """How large an agent is by now."""
        conversation = main_conversation(agent_id)
        talk = await asyncio.to_thread(self.read_conversation, conversation)
        agent = json.loads(await self.call("GET", f"/v1/agents/{agent_id}"))
        [(history,)] = self.instance.psql(
            f"select count(*) from agent.messages where conversation_id = '{conversation}'"
        )
        [(snapshot,)] = self.instance.psql(
            "select coalesce(max(octet_length(state::text)), 0) from agent.snapshots"
            f" where aggregate_id = '{conversation}'"
        )
        window = sum(len(to_json(message)) for message in talk.state.window)
        ids = len(json.dumps(agent["message_ids"]))
        return Sizes(history, len(talk.state.window), window, snapshot, talk.payload_bytes, ids)

    def read_conversation(self, conversation_id: str) -> Conversation:
        """The conversation, as a process that knows nothing of it yet reads it."""

        async def read() -> Conversation:
            async with open_pool(self.instance.database_url) as pool:
                store = PostgresEventStore(Database(pool), "agent", "benchmark")
                version = Conversation.state_version()
                history = await store.load(conversation_id, 0, state_version=version)
                return replay("agent", Conversation, conversation_id, history)

        return asyncio.run(read())


async def measured(driver: Driver, name: str, agent_id: str, rounds: int) -> str:
    """One agent beside empty ones, as a line."""
    those, empties = await driver.beside_empty(agent_id, rounds)
    model, model_of_empty = await driver.model_alone(rounds)
    ratio = those / empties
    ours = (those - model) / (empties - model_of_empty)
    verdict = "ok" if ours <= RATIO_MAX else "above"
    figures = (those, empties, model, model_of_empty)
    return (
        f"{name:<26}" + "".join(f"{figure * 1e3:>10.2f}" for figure in figures) + f"{ratio:>9.2f}x"
        f"{ours:>11.2f}x  (goal <= {RATIO_MAX:g}x: {verdict})"
    )


async def run(options: argparse.Namespace) -> int:
    """Fill, measure, print."""
    load_contracts()
    async with ScriptedModelProcess() as model:
        given = {"OPENAI_API_BASE": model.base_url, "OPENAI_API_KEY": "sk-benchmark"}
        instance = HeelerInstance(env=given)
        try:
            await start(instance)
            await report(Driver(instance, model), options)
        finally:
            await asyncio.to_thread(instance.close)
    return 0


async def report(driver: Driver, options: argparse.Namespace) -> None:
    """Everything that is measured."""
    how = {"mode": "all", "model": MODEL}
    long = await driver.created(compaction_settings=how)
    began = time.perf_counter()
    await driver.fill(long, options.messages, FILL_CHARS)
    print(f"{options.messages:,} messages sent in {time.perf_counter() - began:.0f} s", flush=True)
    sizes = [HEADING, (await driver.sizes(await driver.created())).line("empty")]
    sizes.append((await driver.sizes(long)).line("long, as it was filled"))
    lines = [await measured(driver, "long, as it was filled", long, options.rounds)]
    await driver.call("POST", f"/v1/agents/{long}/summarize", {})
    lines.append(await measured(driver, "long, compacted", long, options.rounds))
    sizes.append((await driver.sizes(long)).line("long, compacted"))
    large = await driver.created(context_window_limit=LARGE_WINDOW_TOKENS, compaction_settings=how)
    await driver.fill(large, options.window_bytes // LARGE_CHARS, LARGE_CHARS)
    sizes.append((await driver.sizes(large)).line("large window"))
    lines.append(await measured(driver, "large window", large, options.rounds))
    await driver.call("POST", f"/v1/agents/{large}/summarize", {})
    lines.append(await measured(driver, "large window, compacted", large, options.rounds))
    sizes.append((await driver.sizes(large)).line("large window, compacted"))
    print(
        f"\n{'a message to, ms':<26}{'median':>10}{'empty':>10}{'model':>10}{'of empty':>10}"
        f"{'ratio':>10}{'without it':>12}"
    )
    print("\n".join(lines))
    print()
    print("\n".join(sizes), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_history", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, help="of the long agent")
    parser.add_argument("--window-bytes", type=int, default=2_000_000, help="of the large window")
    parser.add_argument("--rounds", type=int, default=200, help="messages to each")
    try:
        return asyncio.run(run(parser.parse_args()))
    except (RunFailed, psycopg.Error) as problem:
        print(f"cannot be measured: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
