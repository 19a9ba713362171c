"""The base address of a model's endpoint may have a login: it is used, and nowhere to be read."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.e2e.asking import CLAUDE, EMBEDDING, LOGIN, MODEL, SECONDS_MAX, says
from tests.e2e.conftest import Fragile
from tests.scripted_model import ScriptedModelProcess

CANARIES = (*LOGIN, "YWRhOmNhbmFyeS1wYXNzd29yZA==")
LOGS = (
    "select string_agg(e.payload::text, '') from agent.events e",
    "select string_agg(r::text, '') from agent.runs r",
    "select string_agg(m::text, '') from agent.models m",
    "select string_agg(a::text, '') from agent.agents a",
    "select string_agg(m::text, '') from agent.messages m",
)


@pytest.mark.operation("GET /v1/models/")
def test_nothing_that_is_stored_or_shown_has_the_login_of_an_endpoint(
    fragile: Fragile, model: ScriptedModelProcess
) -> None:
    guarded, shown = fragile.heeler, []
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
