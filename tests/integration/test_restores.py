"""`restore` deletes nothing that clients have made, and one that died leaves a home that starts."""

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
