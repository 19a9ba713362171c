"""Folders and files of a world that the scripted model embeds, as a client of the api sees them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.chaos.world import World
from tests.waiting import wait_for

# The scripted model embeds: at once, and always in the same way.
MODEL, OTHER_MODEL = "openai/text-embedding-3-small", "openai/text-embedding-3-large"
SECONDS_MAX = 120.0
ENDED = ("completed", "error")


@asynccontextmanager
async def http(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the api."""
    async with httpx.AsyncClient(base_url=world.heeler.base_url, timeout=SECONDS_MAX) as client:
        yield client


async def asked(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> Any:
    """What the api answers, however long it is away."""

    async def answer() -> httpx.Response | None:
        with contextlib.suppress(httpx.TransportError):
            found = await client.request(method, path, **options)
            return None if found.status_code >= 500 else found
        return None

    response = await wait_for(f"{method} {path} is answered", answer, SECONDS_MAX)
    assert response.is_success, f"{method} {path}: {response.status_code} {response.text[:300]}"
    return response.json() if response.content else None


async def new_folder(world: World, client: httpx.AsyncClient) -> str:
    """A folder whose files the scripted model embeds, as soon as that is known."""

    async def known() -> bool:
        models = await asked(client, "GET", "/v1/models/embedding")
        return {MODEL, OTHER_MODEL} <= {model["handle"] for model in models}

    await wait_for("the models that embed are known", known, SECONDS_MAX)
    body = {"name": world.new_name("FILES"), "embedding": MODEL}
    return str((await asked(client, "POST", "/v1/folders/", json=body))["id"])


async def ended(client: httpx.AsyncClient, folder: str, file_id: str) -> dict[str, Any]:
    """A file when it is processed, one way or the other, with its text."""
    path = f"/v1/folders/{folder}/files/{file_id}"

    async def found() -> dict[str, Any] | None:
        file: dict[str, Any] = await asked(client, "GET", path)
        return file if file["processing_status"] in ENDED else None

    await wait_for(f"{file_id} is processed", found, SECONDS_MAX)
    whole: dict[str, Any] = await asked(client, "GET", path, params={"include_content": True})
    return whole
