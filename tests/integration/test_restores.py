"""`restore` deletes nothing that clients have made, one that died leaves a home that starts, and
what happens after a restore comes after what happened before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.servers import HeelerInstance

MADE = {
    "blocks": ("/v1/blocks/", {"label": "human", "value": "Ada"}),
    "archives": ("/v1/archives/", {"name": "papers"}),
    "folders": ("/v1/folders/", {"name": "files"}),
    "tools": ("/v1/tools/", {"source_code": "def one() -> int:\n    '''One.'''\n    return 1"}),
    "MCP servers": (
        "/v1/mcp-servers/",
        {
            "server_name": "clock",
            "config": {"mcp_server_type": "sse", "server_url": "http://127.0.0.1:9/sse"},
        },
    ),
    "sandbox settings": ("/v1/sandbox-config/local", {"use_venv": True}),
}
SETTINGS = {"HEELER_PROCESSES": "one", "HEELER_MCP_HOSTS": "127.0.0.1"}
LIMIT = "select datconnlimit from pg_database where datname = 'heeler'"


@pytest.fixture(scope="module")
def heeler() -> Iterator[HeelerInstance]:
    with HeelerInstance(env=SETTINGS) as instance:
        yield instance


@pytest.fixture
def new_home() -> Iterator[HeelerInstance]:
    with HeelerInstance(env=SETTINGS) as instance:
        yield instance


def test_a_home_without_agents_that_has_anything_else_is_not_restored_into(
    heeler: HeelerInstance, tmp_path: Path
) -> None:
    dump = tmp_path / "heeler.dump"
    assert heeler.command("dump", str(dump)).returncode == 0
    for path, body in MADE.values():
        made = httpx.post(f"{heeler.base_url}{path}", json=body, timeout=60)
        assert made.status_code < 300, made.text

    refused = heeler.command("restore", str(dump))

    assert refused.returncode == 1
    assert f"This home has {', '.join(MADE)}, and a restore would delete them" in refused.stderr
    blocks = httpx.get(f"{heeler.base_url}/v1/blocks/").json()
    assert [block["value"] for block in blocks] == ["Ada"]


def test_a_home_that_a_dying_restore_has_closed_starts(heeler: HeelerInstance) -> None:
    heeler.psql("alter database heeler connection limit 0")
    heeler.down()
    heeler.up()
    assert heeler.psql(LIMIT) == [(-1,)]
    assert heeler.is_healthy()


# So many transactions, one after the other, that a new cluster has not come as far.
TRANSACTIONS = """
do $$ begin for n in 1..5000 loop perform pg_current_xact_id(); commit; end loop; end $$"""
NEWEST = """
select aggregate_id || '.' || version from (
    select aggregate_id, version, commit_order from agent.events
    union all select aggregate_id, version, commit_order from memory.events) e
order by commit_order desc, version desc limit 1"""


def values_of_blocks(heeler: HeelerInstance, agent_id: str, at: str | None = None) -> list[str]:
    """What stands in the blocks of an agent, now or at an event."""
    path = f"{heeler.base_url}/v1/agents/{agent_id}/core-memory/blocks"
    found = httpx.get(path, params={"at": at} if at else {}, timeout=60)
    assert found.status_code == 200, found.text
    return [block["value"] for block in found.json()]


def test_the_order_of_commits_goes_on_after_a_restore_into_another_cluster(
    heeler: HeelerInstance, new_home: HeelerInstance, tmp_path: Path
) -> None:
    heeler.psql(TRANSACTIONS)
    body = {
        "name": "Ada",
        "model": "demo/offline",
        "memory_blocks": [{"label": "human", "value": "first"}],
    }
    made = httpx.post(f"{heeler.base_url}/v1/agents/", json=body, timeout=60)
    assert made.status_code == 200, made.text
    agent_id = made.json()["id"]
    path = f"/v1/agents/{agent_id}/core-memory/blocks/human"

    def write(home: HeelerInstance, value: str) -> str:
        """The event that wrote it."""
        done = httpx.patch(f"{home.base_url}{path}", json={"value": value}, timeout=60)
        assert done.status_code == 200, done.text
        [(event,)] = home.psql(NEWEST)
        return str(event)

    first = f"{agent_id}.1"
    second = write(heeler, "second")
    assert values_of_blocks(heeler, agent_id, first) == ["first"]
    dump = tmp_path / "heeler.dump"
    assert heeler.heeler("admin", "backup", str(dump)).returncode == 0

    restored = new_home.heeler("admin", "restore", str(dump))  # which starts it again
    assert restored.returncode == 0, restored.stderr
    third = write(new_home, "third")

    assert third.startswith("block-"), "it comes after all that was restored"
    seen = [values_of_blocks(new_home, agent_id, at) for at in (first, second, third, None)]
    assert seen == [["first"], ["second"], ["third"], ["third"]]
    past = new_home.psql("select count(*) from memory_as_of.moments")
    assert past == [(3,)], "what was read of the past is not in a dump"
