"""A home that an earlier release made starts under this one; its agents answer and remember."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.homes import ANSWERS, FOLDER
from tests.homes.restore import restore
from tests.servers import HeelerInstance

# None before the first release: until then nothing brings an earlier home forward.
HOMES = sorted(folder.name for folder in FOLDER.glob("*"))


def in_one_order(document: str) -> str:
    """A document with the fields of its objects in one order, and no other difference."""
    return json.dumps(json.loads(document), sort_keys=True)


@pytest.mark.parametrize("name", HOMES)
def test_a_recorded_home_starts_and_its_agents_answer_and_remember(name: str) -> None:
    recorded: dict[str, str] = json.loads((FOLDER / name / ANSWERS).read_text())
    heeler = HeelerInstance()
    restore(heeler.home, name)
    with (
        heeler,
        httpx.Client(base_url=heeler.base_url, timeout=60) as web,
    ):
        for path, answer in recorded.items():
            now = web.get(path).text
            # Fields may have another order: that of V1, where jsonb had its own. All else is so.
            assert in_one_order(now) == in_one_order(answer), path
            assert now == answer or not path.endswith("/runs/")
        [talker] = web.get("/v1/agents/", params={"name": "talker"}).json()
        before = len(talker["message_ids"])
        asked = {"messages": [{"role": "user", "content": "What is my favourite tea?"}]}
        answer = web.post(f"/v1/agents/{talker['id']}/messages", json=asked)
        assert answer.status_code == 200, answer.text
        spoken = [
            message["content"]
            for message in answer.json()["messages"]
            if message["message_type"] == "assistant_message"
        ]
        assert "lapsang souchong" in " ".join(spoken)
        told = web.get(f"/v1/agents/{talker['id']}/messages", params={"limit": 500}).json()
        orders = {(message["message_type"], tuple(message)) for message in told}
        types = {kind for kind, _ in orders}
        assert len(orders) == len(types) > 3, "what is older is told as what came now"
        [talker] = web.get("/v1/agents/", params={"name": "talker"}).json()
        assert len(talker["message_ids"]) > before
        # The state was made from all events and has a snapshot of today's form by now.
        assert heeler.psql("select count(*) from agent.snapshots") == [(1,)]
