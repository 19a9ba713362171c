"""The base address of a model's endpoint may have a login: it is used, and nowhere to be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.chosen import new_heeler
from tests.e2e.asking import CLAUDE, EMBEDDING, MODEL, SECONDS_MAX, says
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance

CANARIES = ("canary-password", "canary-key", "YWRhOmNhbmFyeS1wYXNzd29yZA==")
LOGS = (
    "select string_agg(e.payload::text, '') from agent.events e",
    "select string_agg(r::text, '') from agent.runs r",
    "select string_agg(m::text, '') from agent.models m",
    "select string_agg(a::text, '') from agent.agents a",
    "select string_agg(m::text, '') from agent.messages m",
)


def with_login(base_url: str) -> str:
    """The address with a login and a key."""
    return base_url.replace("//", f"//ada:{CANARIES[0]}@") + f"?api_key={CANARIES[1]}"


@pytest.fixture
def guarded(model: ScriptedModelProcess) -> Iterator[HeelerInstance]:
    env = {
        "OPENAI_API_BASE": with_login(model.base_url),
        "ANTHROPIC_BASE_URL": with_login(model.anthropic_base_url),
    }
    with new_heeler(env=env) as instance:
        yield instance


@pytest.mark.operation("GET /v1/models/")
def test_nothing_that_is_stored_or_shown_has_the_login_of_an_endpoint(
    guarded: HeelerInstance, model: ScriptedModelProcess
) -> None:
    shown = []
    with httpx.Client(base_url=guarded.base_url, timeout=SECONDS_MAX) as http:
        shown.append(http.get("/v1/models/").text)
        for handle in (MODEL, CLAUDE):
            assert f'"{handle}"' in shown[0], "the first answer has the models of every provider"
        for handle in (MODEL, CLAUDE):
            body = {"model": handle, "embedding": EMBEDDING}
            agent = http.post("/v1/agents/", json=body)
            assert agent.status_code == 200, agent.text
            messages = f"/v1/agents/{agent.json()['id']}/messages"
            answer = http.post(messages, json={"messages": says("SAY:Hello")})
            assert answer.json()["messages"][-1]["content"] == "Hello"
            failed = http.post(messages, json={"messages": says("FAIL:401")})
            assert failed.status_code == 401
            shown += [agent.text, answer.text, failed.text, http.get("/v1/runs/").text]
    stored = [str(guarded.psql(query)) for query in LOGS]
    logs = [path.read_text(errors="replace") for path in Path(guarded.home).rglob("*.log")]

    assert all(text not in ("[(None,)]", "") for text in stored)
    assert model.base_url in shown[0], "where it is, one may read"
    for canary in CANARIES:
        assert canary not in "".join([*shown, *stored, *logs])
