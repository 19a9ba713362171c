"""An api that dies in the middle of a restore: the next one takes it to its end."""

from __future__ import annotations

from typing import Any

import httpx
from letta_client import Letta

from tests.e2e.asking import MODEL, SECONDS_MAX
from tests.e2e.conftest import Fragile
from tests.waiting import wait_for

POINT = "restore.part_sent"


def events(http: httpx.Client, path: str) -> Any:
    return http.get(f"{path}/events").json()


def answer_of(http: httpx.Client, path: str, body: Any) -> httpx.Response | None:
    """The answer to the same request each time; None where the connection is lost."""
    try:
        return http.post(path, json=body, headers={"idempotency-key": "the only one"})
    except httpx.TransportError:
        return None


async def test_a_restore_goes_on_after_the_death_of_its_process(fragile: Fragile) -> None:
    point, base_url = fragile.failpoints / POINT, fragile.heeler.base_url
    with (
        Letta(base_url=base_url, api_key="none", max_retries=0, timeout=SECONDS_MAX) as letta,
        httpx.Client(base_url=base_url, timeout=SECONDS_MAX) as http,
    ):
        blocks = [{"label": label, "value": "one"} for label in ("human", "persona")]
        agent = letta.agents.create(model=MODEL, memory_blocks=blocks)
        path = f"/v1/agents/{agent.id}"
        at = events(http, path)[0]["id"]
        letta.agents.update(agent.id, description="Wise")
        for block in agent.memory.blocks:
            letta.blocks.update(block.id, value="two")
        wanted = {"at": at, "what": ["configuration", "blocks"]}
        point.touch()
        answer = await wait_for(
            "the restore is done",
            lambda: answer_of(http, f"{path}/restore", wanted),
            seconds_max=120.0,
        )
        assert not point.exists(), "a process died there"
        assert answer.status_code == 200, answer.text
        assert answer.json()["description"] is None
        assert {block["value"] for block in answer.json()["blocks"]} == {"one"}
        changes = [event for event in events(http, path) if event["topic"] == "block.changed"]
        assert len(changes) == 4, "each block is restored once"
