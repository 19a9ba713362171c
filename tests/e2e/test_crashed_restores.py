"""An api that dies in the middle of a restore: the next one takes it to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from letta_client import Letta

from tests.e2e.asking import MODEL, SECONDS_MAX
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
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


async def test_a_restore_goes_on_after_the_death_of_its_process(
    model: ScriptedModelProcess, tmp_path: Path
) -> None:
    env = {
        "OPENAI_API_BASE": model.base_url,
        "OPENAI_API_KEY": "any",
        "HEELER_FAILPOINTS": str(tmp_path),
    }
    with (
        HeelerInstance(env=env) as heeler,
        Letta(
            base_url=heeler.base_url, api_key="none", max_retries=0, timeout=SECONDS_MAX
        ) as letta,
        httpx.Client(base_url=heeler.base_url, timeout=SECONDS_MAX) as http,
    ):
        blocks = [{"label": label, "value": "one"} for label in ("human", "persona")]
        agent = letta.agents.create(model=MODEL, memory_blocks=blocks)
        path = f"/v1/agents/{agent.id}"
        at = events(http, path)[0]["id"]
        letta.agents.update(agent.id, description="Wise")
        for block in agent.memory.blocks:
            letta.blocks.update(block.id, value="two")
        wanted = {"at": at, "what": ["configuration", "blocks"]}
        (tmp_path / POINT).touch()
        answer = await wait_for(
            "the restore is done",
            lambda: answer_of(http, f"{path}/restore", wanted),
            seconds_max=120.0,
        )
        assert not (tmp_path / POINT).exists(), "a process died there"
        assert answer.status_code == 200, answer.text
        assert answer.json()["description"] is None
        assert {block["value"] for block in answer.json()["blocks"]} == {"one"}
        changes = [event for event in events(http, path) if event["topic"] == "block.changed"]
        assert len(changes) == 4, "each block is restored once"
