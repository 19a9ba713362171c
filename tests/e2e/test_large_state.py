"""Large state: numbers keep their form, too much is refused, and nothing stops the relay."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from libs.contracts.letta.request_size_limits import BLOCK_VALUE_CHARS_MAX
from libs.contracts.state_size_limits import AGENT_BYTES_MAX, BLOCK_BYTES_MAX, NEW_BLOCKS_BYTES_MAX
from libs.eventstore.backlog_counts import RELAY_LAG
from tests.e2e.asking import MODEL, says, unique
from tests.servers import HeelerInstance, wait_until

NUMBERS: list[Any] = [1e308, -1e308, 5e-324, 1.0, 0.1, -0.0, 1, 0, 12345678901234567890123]
PUBLISHED_SECONDS_MAX = 20.0
BIG = "x" * (BLOCK_VALUE_CHARS_MAX - 10_000)


def made(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    """An agent that is made."""
    answer = http.post("/v1/agents/", json={"model": MODEL, "name": unique("big"), **fields})
    assert answer.status_code == 200, answer.text
    agent: dict[str, Any] = answer.json()
    return agent


def numbers_of(document: dict[str, Any]) -> str:
    """The numbers as they are written: 1 is not 1.0, and 1e308 no row of digits."""
    return repr(document["metadata"]["numbers"])


def wait_published(heeler: HeelerInstance) -> None:
    """Wait until everything that happened is on the bus."""

    def published() -> bool:
        lags = [
            heeler.psql(RELAY_LAG.format(schema=schema))[0][0] for schema in ("agent", "memory")
        ]
        return lags == [0, 0]

    wait_until("everything is published", published, PUBLISHED_SECONDS_MAX)


def refusal(answer: httpx.Response) -> str:
    """Why a request is unprocessable."""
    assert answer.status_code == 422, answer.text[:500]
    return str(answer.json()["detail"])


def test_numbers_of_an_agent_are_read_back_in_the_form_in_which_they_came(
    http: httpx.Client, heeler: HeelerInstance
) -> None:
    metadata = {"numbers": NUMBERS}
    agent = made(http, metadata=metadata)
    path = f"/v1/agents/{agent['id']}"
    assert numbers_of(agent) == repr(NUMBERS)
    changed = http.patch(path, json={"description": "changed"})
    assert numbers_of(changed.json()) == repr(NUMBERS)
    [listed] = http.get("/v1/agents/", params={"name": agent["name"]}).json()
    assert numbers_of(listed) == numbers_of(http.get(path).json()) == repr(NUMBERS)
    rows = heeler.psql(
        "select payload->'config'->'metadata'->>'numbers' from agent.events"
        f" where aggregate_id = '{agent['id']}' and payload->'config' is not null"
    )
    assert len(rows) == 2
    assert [repr(json.loads(text)) for (text,) in rows] == [repr(NUMBERS)] * 2
    assert all(len(text) < 120 for (text,) in rows)


def test_numbers_of_a_block_are_read_back_in_the_form_in_which_they_came(
    http: httpx.Client,
) -> None:
    fields = {"label": "sums", "value": "v", "metadata": {"numbers": NUMBERS}}
    block = http.post("/v1/blocks/", json=fields).json()
    path = f"/v1/blocks/{block['id']}"
    agent = made(http, block_ids=[block["id"]])
    assert http.patch(path, json={"value": "w"}).json()["value"] == "w"
    of_agent = http.get(f"/v1/agents/{agent['id']}", params={"include": "agent.blocks"}).json()
    memory = http.get(f"/v1/agents/{agent['id']}/core-memory").json()
    listed = http.get(f"/v1/agents/{agent['id']}/core-memory/blocks").json()
    read = http.get(path)
    found = [block, read.json(), *of_agent["blocks"], *of_agent["memory"]["blocks"], *listed]
    found += [*memory["blocks"], *agent["blocks"]]
    assert [numbers_of(block) for block in found] == [repr(NUMBERS)] * 7
    assert len(read.content) < 1_000
    assert http.patch(path, json={"metadata": None}).json()["metadata"] is None
    again = http.patch(path, json={"metadata": {"numbers": NUMBERS[:1]}}).json()
    assert numbers_of(again) == "[1e+308]"


def test_numbers_that_are_long_in_full_stop_nothing(
    http: httpx.Client, heeler: HeelerInstance
) -> None:
    """168 kB of 1e308 were an event of 8.6 MB, which the relay tried to publish for ever."""
    numbers = [1e308] * 28_000
    agent = made(http, metadata={"numbers": numbers})
    wait_published(heeler)
    read = http.get(f"/v1/agents/{agent['id']}")
    assert repr(read.json()["metadata"]["numbers"]) == repr(numbers)
    assert len(read.content) < 300_000


def test_an_agent_that_would_be_too_large_is_refused_at_once(http: httpx.Client) -> None:
    name = unique("huge")
    body = b'{"name":"%s","model":"%s","metadata":{"numbers":[%s]}}' % (
        name.encode(),
        MODEL.encode(),
        b",".join([b"1e308"] * 1_000_000),
    )
    assert "at most" in refusal(http.post("/v1/agents/", content=body))
    assert http.get("/v1/agents/", params={"name": name}).json() == []


def test_an_agent_does_not_become_too_large_by_steps(http: httpx.Client) -> None:
    agent = made(http, system="s" * 600_000)
    path = f"/v1/agents/{agent['id']}"
    why = refusal(http.patch(path, json={"metadata": {"more": "m" * 600_000}}))
    assert "metadata" in why
    why = refusal(http.patch(path, json={"metadata": {"more": "m" * 500_000}}))
    assert why.startswith(f"An agent without its blocks may have at most {AGENT_BYTES_MAX} bytes")
    assert "shorten `system`" in why
    assert http.get(path).json()["metadata"] == agent["metadata"]
    assert http.patch(path, json={"system": "small"}).json()["system"] == "small"


@pytest.mark.parametrize("field", ["value", "description", "metadata"])
def test_a_block_that_would_be_too_large_is_refused_at_once(http: httpx.Client, field: str) -> None:
    large: Any = "x" * 5_000_000
    fields = {"label": unique("large"), "value": "v", "limit": 6_000_000}
    large = {"a": large} if field == "metadata" else large
    why = refusal(http.post("/v1/blocks/", json={**fields, field: large}))
    assert f"'{field}'" in why
    assert "at most" in why
    assert http.get("/v1/blocks/", params={"label": fields["label"]}).json() == []
    block = http.post("/v1/blocks/", json=fields).json()
    assert field in refusal(http.patch(f"/v1/blocks/{block['id']}", json={field: large}))


def test_a_block_does_not_become_too_large_by_steps(http: httpx.Client) -> None:
    fields = {"label": unique("large"), "value": BIG, "limit": 6_000_000}
    block = http.post("/v1/blocks/", json=fields).json()
    why = refusal(http.patch(f"/v1/blocks/{block['id']}", json={"description": "d" * 90_000}))
    assert why.startswith(f"A block may have at most {BLOCK_BYTES_MAX} bytes as JSON")
    assert "shorten `value`" in why


def test_the_blocks_of_a_new_agent_are_bounded_one_by_one_and_together(http: httpx.Client) -> None:
    def block(number: int, value: str, **fields: str) -> dict[str, Any]:
        return {"label": f"block-{number}", "value": value, "limit": 6_000_000, **fields}

    large = block(1, BIG, description="d" * 90_000)
    one = {"model": MODEL, "memory_blocks": [block(0, "v"), large]}
    assert "`memory_blocks[1]`: A block may have" in refusal(http.post("/v1/agents/", json=one))
    many = {"model": MODEL, "memory_blocks": [block(number, BIG) for number in range(5)]}
    why = refusal(http.post("/v1/agents/", json=many))
    assert f"The blocks of a new agent may have at most {NEW_BLOCKS_BYTES_MAX} bytes" in why


def test_an_agent_with_more_in_its_blocks_than_a_message_holds_answers(
    http: httpx.Client, heeler: HeelerInstance
) -> None:
    """Its system message is larger than NATS' limit; the relay goes on, and so do the others."""
    agent = made(http, context_window_limit=10_000_000)
    path = f"/v1/agents/{agent['id']}"
    for number in range(9):
        fields = {"label": f"part-{number}", "value": BIG, "limit": 2_000_000}
        block = http.post("/v1/blocks/", json=fields).json()
        attached = http.patch(f"{path}/core-memory/blocks/attach/{block['id']}")
        assert attached.status_code == 200
    answer = http.post(f"{path}/messages", json={"messages": says("Hello")})
    assert answer.status_code == 200, answer.text[:500]
    assert answer.json()["stop_reason"]["stop_reason"] == "end_turn"
    wait_published(heeler)
    [[largest]] = heeler.psql(
        "select max(length(payload::text)) from agent.events where topic = 'system_prompt.rebuilt'"
    )
    assert largest > 8 << 20


def test_messages_that_the_bus_cannot_carry_are_refused(http: httpx.Client) -> None:
    """A few bytes of a message are many in a command: it was a 503, each time."""
    agent = made(http)
    answer = http.post(f"/v1/agents/{agent['id']}/messages", json={"messages": says("a") * 40_000})
    assert answer.status_code in (413, 422), answer.text[:500]
    assert "retry-after" not in answer.headers
    assert http.get(f"/v1/agents/{agent['id']}/messages").status_code == 200
