"""The server that is fuzzed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance


@asynccontextmanager
async def fuzzed_server() -> AsyncIterator[HeelerInstance]:
    """A Heeler of its own with a scripted model."""
    async with ScriptedModelProcess() as model:
        env = {
            "OPENAI_API_BASE": model.base_url,
            "OPENAI_API_KEY": "any",
            "HEELER_MCP_HOSTS": "127.0.0.1",
            "HEELER_MCP_CONNECT_SECONDS_MAX": "0.2",  # nothing is there to be connected to
        }
        with HeelerInstance(env=env) as instance:
            yield instance
