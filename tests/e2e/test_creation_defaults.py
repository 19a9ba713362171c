"""What new agents, blocks, archives and folders have is the operator's to say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

import httpx
import pytest

from libs.bus.configuration_file import read_configuration
from libs.bus.service_runner import running
from libs.bus.service_settings import ServiceSettings
from libs.embeddings.bundled_model_config import HANDLE, LETTA_FREE
from libs.encryption.sealer import Sealer
from services.api.app import wire
from services.api.http.callers import SingleOrganisation
from services.api.projections import project
from services.api.settings import ApiSettings
from tests.e2e.asking import MODEL, SDK_HEADERS, unique
from tests.servers import HeelerInstance, free_port
from tests.waiting import wait_for

BLOCK = {"label": "human", "value": ""}
AGENT = {"model": MODEL, "memory_blocks": [BLOCK, {**BLOCK, "label": "persona", "limit": 70}]}


@pytest.fixture
async def with_defaults(
    heeler: HeelerInstance, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[httpx.AsyncClient]:
    """One more api, whose configuration file has defaults."""
    file = tmp_path_factory.mktemp("defaults") / "heeler.toml"
    file.write_text(f"[defaults]\nembedding = '{LETTA_FREE}'\nblock_limit_chars = 60\n")
    port = free_port()
    given = heeler.service_command("api", port=port).environment
    environment = read_configuration(given, file).environment
    wiring = partial(
        wire,
        settings=ApiSettings.from_environment(environment),
        sealer=Sealer.from_environment(environment),
        authenticator=SingleOrganisation(),
    )
    url = f"http://127.0.0.1:{port}"
    async with (
        running("api", ServiceSettings.from_environment(environment), project, wiring),
        httpx.AsyncClient(base_url=url, headers=SDK_HEADERS) as client,
    ):

        async def listens() -> bool:
            with suppress(httpx.ConnectError):
                return (await client.get("/livez")).is_success
            return False

        await wait_for("it listens", listens)
        yield client


async def create(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def limits(agent: Any) -> dict[str, int]:
    return {block["label"]: block["limit"] for block in agent["memory"]["blocks"]}


async def test_the_defaults_of_the_file_count_where_a_request_says_nothing(
    with_defaults: httpx.AsyncClient, ahttp: httpx.AsyncClient
) -> None:
    agent = await create(with_defaults, "/v1/agents/", AGENT)
    assert agent["embedding_config"]["handle"] == LETTA_FREE
    assert limits(agent) == {"human": 60, "persona": 70}
    assert (await create(with_defaults, "/v1/blocks/", BLOCK))["limit"] == 60
    assert (await create(with_defaults, "/v1/blocks/", {**BLOCK, "limit": 70}))["limit"] == 70
    for path in ("/v1/archives/", "/v1/folders/"):
        made = await create(with_defaults, path, {"name": unique("new")})
        assert made["embedding_config"]["handle"] == LETTA_FREE
        asked = {"name": unique("new"), "embedding": HANDLE}
        assert (await create(with_defaults, path, asked))["embedding_config"]["handle"] == HANDLE
    asked = {**AGENT, "embedding": HANDLE}
    agent = await create(with_defaults, "/v1/agents/", asked)
    assert agent["embedding_config"]["handle"] == HANDLE
    too_long = await with_defaults.post("/v1/blocks/", json={**BLOCK, "value": "x" * 61})
    assert too_long.status_code == 422

    agent = await create(ahttp, "/v1/agents/", AGENT)
    assert agent["embedding_config"] is None
    assert limits(agent) == {"human": 100_000, "persona": 70}
