"""The bus row sends commands that change nothing, each with an id of its own."""

import json

from benchmarks.agents import Agents
from benchmarks.client import Origin
from benchmarks.measure import Figures, measure
from benchmarks.rows import BusCommand
from libs.bus.clock_and_ids import RandomIds, SystemClock
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.contracts.bus_messages import Accepted, Rejected


async def figures_of(fake, reply):
    heard = []

    async def answer(incoming):
        heard.append(incoming)
        return reply

    bus = InMemoryBus(InMemoryNetwork())
    await bus.serve("memory", answer)
    origin = Origin.of(fake.origin)
    agents = Agents(origin, model="openai/any", embedding="openai/any")
    kind = BusCommand(agents, bus, RandomIds(), SystemClock())
    figures = Figures(row="bus-1", what=kind.what, concurrency=1)
    await measure(figures, kind, origin, seconds=0.05, meter=None)
    return figures, heard, agents


async def test_each_command_is_new_and_changes_nothing_of_a_block_that_exists(fake):
    figures, heard, agents = await figures_of(fake, Accepted())
    assert figures.errors == {}
    assert 0 < figures.operations < len(heard)
    assert len({each.context.message_id for each in heard}) == len(heard)
    assert {each.name for each in heard} == {"memory.block.update"}
    (payload,) = {each.payload for each in heard}
    assert json.loads(payload) == {"block_id": agents.blocks[0], "changes": {}}
    assert agents.blocks[0] in fake.blocks


async def test_a_refusal_is_an_error(fake):
    figures, _, _ = await figures_of(fake, Rejected(code="not_found", reason="gone"))
    assert figures.operations == 0
    assert list(figures.errors) == ["not_found"]
    assert figures.p50_ms is None
