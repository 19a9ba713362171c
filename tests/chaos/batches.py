"""BATCH: the agent service is killed, again and again, in the middle of a batch."""

from __future__ import annotations

import asyncio
from typing import Any

from libs.contracts.agent.batches import ITEMS_MAX
from tests.chaos.dose import Dose
from tests.chaos.oracle import Verdict
from tests.chaos.workload import Workload
from tests.chaos.world import World
from tests.waiting import wait_for

THINKS_MS = 300
ENDED_SECONDS_MAX = 120.0
AGENT = "agent"


async def each_item_once(world: World, dose: Dose) -> Verdict:
    """A batch of `messages` items, and `faults` kills; each item has one run, one answer in its
    conversation, and is not asked again once that was recorded."""
    await world.restored()
    verdict = Verdict("BATCH")
    name = world.new_name("BATCH")
    workload = Workload(world.client(), name)
    await workload.create_agents(1)
    [agent] = workload.agents
    texts = [f"SLOW:{THINKS_MS} SAY:{name} {n}." for n in range(min(dose.messages, ITEMS_MAX))]
    path = f"/v1/agents/{agent}/messages/batch"
    body = {"items": texts, "keep": True}
    answer = await world.client().send("POST", path, body, key=f"batch-{name}")
    assert answer.status == 202, answer.body
    batch = f"{path}/{answer.json()['id']}"
    for kill in range(dose.faults):
        # Spread over the batch: each kill finds some items answered, some running, some waiting.
        answered = (kill + 1) * len(texts) // (dose.faults + 2)
        await wait_for("items are answered", lambda least=answered: has_ended(world, batch, least))
        await world.kill9(AGENT)
    await wait_for(
        "the batch has ended",
        lambda: has_ended(world, batch, len(texts)),
        ENDED_SECONDS_MAX,
    )
    items = await world.client().get(f"{batch}/items")
    await check_items(world, verdict, name, items, texts, dose.faults)
    runs = await world.client().get(f"/v1/runs?batch_id={answer.json()['id']}&limit=1000")
    verdict.check(len(runs) == len(texts), f"{len(runs)} runs for {len(texts)} items")
    verdict.kills, verdict.messages = dose.faults, len(texts)
    return verdict


async def has_ended(world: World, batch: str, least: int) -> bool:
    """Whether so many items have ended; of all of them, whether the batch has."""
    found = await world.client().get(batch)
    counts: Any = found["counts"]
    ended = counts["total"] - counts["pending"] - counts["running"]
    return bool(ended >= least and (least < counts["total"] or found["completed_at"]))


async def check_items(
    world: World,
    verdict: Verdict,
    name: str,
    items: list[dict[str, Any]],
    texts: list[str],
    deaths: int,
) -> None:
    """Each item has its answer, once; a step that was asked n times needs n - 1 deaths."""
    histories = await asyncio.gather(
        *(
            world.client().get(f"/v1/conversations/{item['conversation_id']}/messages")
            for item in items
        )
    )
    for item, history, text in zip(items, histories, texts, strict=True):
        number = item["number"]
        said = [
            message["content"]
            for message in history
            if message["message_type"] in ("user_message", "assistant_message")
        ]
        verdict.check(item["status"] == "completed", f"item {number} is {item['status']}: {item}")
        verdict.check(
            sorted(said) == sorted([text, f"{name} {number}."]), f"item {number} has {said}"
        )
        asked = await world.model.asked(text)
        verdict.check(asked.keys() == {0}, f"item {number} was asked {asked}")
        verdict.check(
            max(asked.values(), default=0) <= 1 + deaths,
            f"item {number} was asked {asked}, with {deaths} deaths",
        )
