"""A message that the model's provider refuses fails its run, and no other."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest
from letta_client import APIStatusError, Letta

from tests.e2e.asking import CLAUDE, MODEL, says, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess

HANDLES = pytest.mark.parametrize("handle", [MODEL, CLAUDE])
LEFT_OUT = "[A message of the user: left out here"


async def last_request(model: ScriptedModelProcess) -> str:
    """What the model was shown last."""
    return json.dumps((await model.requests(last=1))[0]["messages"], ensure_ascii=False)


def picture(secret: str) -> list[dict[str, Any]]:
    """An image with these bytes, and words."""
    data = base64.b64encode(secret.encode()).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    image = {"type": "image", "source": source}
    return [{"role": "user", "content": [{"type": "text", "text": "See?"}, image]}]


@HANDLES
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
async def test_the_next_message_is_answered_without_the_refused_one(
    letta: Letta, new_agent: NewAgent, model: ScriptedModelProcess, handle: str, stream: bool
) -> None:
    agent, bad = new_agent(model=handle), unique("bad-picture")
    letta.agents.messages.create(agent.id, messages=says("SAY:Hello"))
    await model.refuse(base64.b64encode(bad.encode()).decode())

    messages: Any = picture(bad)
    sending = letta.agents.messages
    with pytest.raises(APIStatusError, match=" answered 400: "):
        list((sending.stream if stream else sending.create)(agent.id, messages=messages))
    answer = letta.agents.messages.create(agent.id, messages=says("SAY:Still here."))

    assert answer.messages[-1].content == "Still here."
    shown = await last_request(model)
    assert LEFT_OUT in shown
    assert " answered 400: " in shown
    assert "SAY:Hello" in shown, "what was fine is still shown"
    if stream:
        with sending.stream(agent.id, messages=says("SAY:And again.")) as chunks:
            said = [c.content for c in chunks if c.message_type == "assistant_message"]
        assert said == ["And again."], "shown once more, and refused once more"
    else:
        answer = sending.create(agent.id, messages=says("SAY:And again."))
        assert answer.messages[-1].content == "And again."
    assert LEFT_OUT in await last_request(model)
    history = letta.agents.messages.list(agent.id, limit=100, order="asc").items
    [kept] = [
        message.content
        for message in history
        if getattr(message, "content", "") and "See?" in str(message)
    ]
    assert bad in base64.b64decode(kept[1].source.data).decode()


@HANDLES
async def test_a_result_that_is_refused_is_replaced_behind_its_call(
    letta: Letta, new_agent: NewAgent, model: ScriptedModelProcess, handle: str
) -> None:
    bad = unique("unspeakable")
    agent = new_agent(model=handle, memory_blocks=[{"label": "human", "value": f"{bad} two"}])
    before = (await model.stats())["validation_errors"]
    # The result of the tool has the words in another order than the system prompt.
    script = 'CALL:memory_insert:{"label": "human", "new_string": "three", "insert_line": 0}'
    await model.refuse(f"three\\\\n{bad}")
    with pytest.raises(APIStatusError) as raised:
        letta.agents.messages.create(agent.id, messages=says(script))
    assert raised.value.status_code == 400
    letta.agents.blocks.update("human", agent_id=agent.id, value="Name: Ada")
    answer = letta.agents.messages.create(agent.id, messages=says("SAY:Still here."))

    assert answer.messages[-1].content == "Still here."
    assert "[The result of this call: left out here" in await last_request(model)
    assert (await model.stats())["validation_errors"] == before


@HANDLES
@pytest.mark.operation("GET /v1/agents/{agent_id}/context/left-out")
@pytest.mark.operation("DELETE /v1/agents/{agent_id}/context/left-out")
async def test_an_agent_gets_out_when_old_content_is_refused_all_of_a_sudden(
    letta: Letta,
    ahttp: httpx.AsyncClient,
    new_agent: NewAgent,
    model: ScriptedModelProcess,
    handle: str,
) -> None:
    agent, old = new_agent(model=handle), unique("old-words")
    letta.agents.messages.create(agent.id, messages=says(f"SAY:I said {old}"))
    await model.refuse(old)
    for _ in range(3):
        with pytest.raises(APIStatusError):
            letta.agents.messages.create(agent.id, messages=says("SAY:Hm"))
    answer = letta.agents.messages.create(agent.id, messages=says("SAY:Free again."))
    assert answer.messages[-1].content == "Free again."
    assert "[The older messages: left out here" in await last_request(model)
    answer = letta.agents.messages.create(agent.id, messages=says("SAY:Still free."))
    assert answer.messages[-1].content == "Still free.", "shown once more, and refused once more"
    at = f"/v1/agents/{agent.id}/context/left-out"
    told = (await ahttp.get(at)).json()
    assert [part["what"] for part in told["left_out"]][-1] == "messages_before"
    assert all(" answered 400: " in part["reason"] for part in told["left_out"])
    await model.reset()
    for method in ("GET", "DELETE"):
        wrong = await ahttp.request(method, at, params={"conversation_id": "../UTC"})
        assert (wrong.status_code, "conv-" in wrong.text) == (422, True)
    assert (await ahttp.delete(at)).json() == {"left_out": [], "on_trial": False}
    letta.agents.messages.create(agent.id, messages=says("SAY:All back."))
    assert old in await last_request(model)
