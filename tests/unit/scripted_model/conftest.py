"""A scripted model for each test, and the OpenAI SDK in front of it."""

from collections.abc import AsyncIterator

import openai
import pytest

from tests.scripted_model import ScriptedModel


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as model:
        yield model


@pytest.fixture
async def client(model: ScriptedModel) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=model.base_url, api_key="sk-test", max_retries=0
    ) as client:
        yield client
