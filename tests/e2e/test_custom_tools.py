"""Tools that clients make: attached to agents, offered to models, run in a sandbox."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import httpx
import pytest
from letta_client import APIStatusError, AsyncLetta, Letta, NotFoundError
from pydantic import BaseModel

from tests.e2e.asking import EMBEDDING, MODEL, NOBODY, call_tool, says, tool_return, unique
from tests.e2e.conftest import ROLL, NewAgent, NewTool
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
from tests.waiting import wait_for


def calls(heeler: HeelerInstance, agent_id: str) -> list[str]:
    """How far the calls of an agent's tools are."""
    statement = f"select status from tools.tool_runs where agent_id = '{agent_id}'"
    return [str(status) for (status,) in heeler.psql(statement)]


@pytest.mark.operation("POST /v1/tools/run")
def test_source_is_run_once_without_becoming_a_tool(http: httpx.Client) -> None:
    source = ROLL.format(name="roll_once", body="print('rolling')\n    return str(sides - 2)")
    answer = http.post("/v1/tools/run", json={"source_code": source, "args": {"sides": 6}})
    failed = http.post("/v1/tools/run", json={"source_code": source, "args": {"sides": "six"}})

    assert answer.status_code == 200
    ran = answer.json()
    assert (ran["message_type"], ran["id"], ran["tool_call_id"]) == (
        "tool_return_message",
        "null",
        "null",
    )
    assert (ran["tool_return"], ran["status"], ran["stdout"], ran["stderr"]) == (
        "4",
        "success",
        ["rolling\n"],
        [],
    )
    assert ran["tool_returns"][0]["tool_return"] == "4"
    assert failed.json()["status"] == "error"
    assert "TypeError" in failed.json()["tool_return"]
    assert http.get("/v1/tools/", params={"name": "roll_once"}).json() == []
    refused = http.post("/v1/tools/run", json={"args": {}, "source_code": "nothing"})
    assert refused.status_code == 400
    assert "source_code" in refused.text
    packages = {"source_code": source, "args": {}, "pip_requirements": [{"name": "-r/etc/passwd"}]}
    hopeless = http.post("/v1/tools/run", json=packages)
    assert hopeless.status_code == 422, "no client tries again what cannot succeed"
    assert "pip_requirements" in hopeless.text


TYPED = '''
def {name}(count: int, loud: bool, kind: Literal["a", "b"], item: Item, sizes: list[int] = [7]):
    """Say what came.

    Args:
        count: how many
        loud: whether
        kind: which
        item: what
        sizes: how large
    """
    return repr((count + count, loud, kind, item.name, sizes))
'''


class Item(BaseModel):
    name: str


class Typed(BaseModel):
    count: int
    loud: bool
    kind: Literal["a", "b"]
    item: Item
    sizes: list[int] = [7]


@pytest.mark.parametrize("source_type", ["python", "json"])
def test_arguments_become_what_annotations_and_pydantic_models_say(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, source_type: str
) -> None:
    name = unique("typed").replace("-", "_")
    tool = letta.tools.create(
        source_code=TYPED.format(name=name),
        args_json_schema=Typed.model_json_schema(),
        source_type=source_type,
    )
    agent = new_agent(tool_ids=[str(tool.id)])
    sent: dict[str, Any] = {"count": "21", "loud": "false", "kind": "b"}
    for sizes, got in (({"sizes": "[1, 2]"}, [1, 2]), ({"sizes": None}, [7]), ({}, [7])):
        args = {**sent, **sizes, "item": '{"name": "tea"}'}
        ran = letta.agents.tools.run(name, agent_id=agent.id, args=args)
        assert (ran.status, ran.func_return) == ("success", repr((42, False, "b", "tea", got)))
    unfit = {"count": "five", "loud": "maybe", "kind": "c", "item": {}, "sizes": "many"}
    ran = letta.agents.tools.run(name, agent_id=agent.id, args=unfit)
    assert ran.status == "error"
    for words in ("`count`: give a whole number", "`loud`: give true", '`kind`: give one of "a"'):
        assert words in str(ran.func_return)
    assert "`item`: `name` is missing; `sizes`: give a list" in str(ran.func_return)
    http.delete(f"/v1/tools/{tool.id}")


def test_a_tool_that_cannot_run_is_kept_and_says_so_when_it_is_called(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    name = unique("plan").replace("-", "_")
    schema = {"name": name, "parameters": {"type": "object", "properties": {}}}
    tool = letta.tools.create(source_code="{}", source_type="json", json_schema=schema)
    assert tool.source_type == "json"
    agent = new_agent(tool_ids=[str(tool.id)])
    with pytest.raises(APIStatusError, match=r"`source_type` is 'json'.* no function in Python"):
        letta.agents.tools.run(name, agent_id=agent.id, args={})
    answer = letta.agents.messages.create(agent.id, messages=says(f"CALL:{name}:{{}} SAY:a pity"))
    result = tool_return(answer.messages)
    assert (result.status, "`source_type` is 'json'" in result.tool_return) == ("error", True)
    assert answer.messages[-1].content == "a pity"
    http.delete(f"/v1/tools/{tool.id}")


@pytest.mark.operation("POST /v1/agents/{agent_id}/tools/{tool_name}/run")
def test_a_tool_of_an_agent_is_run_by_name(
    letta: Letta, new_agent: NewAgent, new_tool: NewTool
) -> None:
    tool = new_tool("print(sides)\nreturn str(sides - 2)")
    agent = new_agent(tool_ids=[tool.id])
    ran = letta.agents.tools.run(tool.name, agent_id=agent.id, args={"sides": 6})

    assert (ran.status, ran.func_return, ran.stdout, ran.stderr) == ("success", "4", ["6\n"], [])
    assert [message.message_type for message in letta.agents.messages.list(agent.id)] == [
        "system_message"
    ]
    with pytest.raises(NotFoundError, match="no tool named 'unknown'"):
        letta.agents.tools.run("unknown", agent_id=agent.id)


@pytest.mark.operation("PATCH /v1/agents/{agent_id}/tools/attach/{tool_id}")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}/tools/detach/{tool_id}")
@pytest.mark.operation("GET /v1/agents/{agent_id}/tools")
def test_a_tool_is_attached_called_and_detached(
    letta: Letta, new_agent: NewAgent, new_tool: NewTool, legacy: httpx.Client
) -> None:
    agent = new_agent()
    tool = new_tool('print(f"a die with {sides} sides")\nreturn str(sides - 2)')
    own = [tool.id for tool in agent.tools]

    assert letta.agents.tools.attach(tool.id, agent_id=agent.id) is None
    held = letta.agents.tools.list(agent.id).items
    assert [item.id for item in held] == [*own, tool.id]
    assert held[-1].to_dict() == tool.to_dict()
    answer = letta.agents.messages.create(
        agent.id, messages=says(f'CALL:{tool.name}:{{"sides": 6}}')
    )

    result = tool_return(answer.messages)
    assert (result.tool_return, result.status, result.name) == ("4", "success", tool.name)
    assert (result.stdout, result.stderr) == (["a die with 6 sides\n"], [])
    assert result.tool_returns[0].stdout == ["a die with 6 sides\n"]
    assert answer.stop_reason.stop_reason == "end_turn"
    stored = letta.agents.messages.list(agent.id).items
    assert tool_return(stored).to_dict() == result.to_dict()

    detached = legacy.patch(f"/v1/agents/{agent.id}/tools/detach/{tool.id}").json()
    assert [tool["id"] for tool in detached["tools"]] == own
    assert letta.agents.tools.detach(tool.id, agent_id=agent.id) is None
    assert [tool.id for tool in letta.agents.tools.list(agent.id)] == own
    for verb in (letta.agents.tools.attach, letta.agents.tools.detach):
        with pytest.raises(NotFoundError, match=f"agent-{NOBODY}"):
            verb(tool.id, agent_id=f"agent-{NOBODY}")
    with pytest.raises(NotFoundError, match=f"tool-{NOBODY}"):
        letta.agents.tools.attach(f"tool-{NOBODY}", agent_id=agent.id)


async def test_agents_are_made_with_tools_and_see_what_becomes_of_them(
    letta: Letta, new_agent: NewAgent, new_tool: NewTool, model: ScriptedModelProcess
) -> None:
    first, second = new_tool("return 'one'"), new_tool("return 'two'")
    agent = new_agent(tool_ids=[first.id], tools=[second.name], include_base_tools=False)
    assert {tool.id for tool in agent.tools} == {first.id, second.id}

    changed = letta.tools.update(first.id, description="Roll it twice.")
    assert changed.description == "Roll it twice."
    letta.tools.delete(second.id)
    said = unique("hello")
    answer = letta.agents.messages.create(agent.id, messages=says(f"SAY:{said}"))

    assert answer.messages[-1].content == said
    [asked] = [request for request in await model.requests(last=5) if said in json.dumps(request)]
    assert [tool["function"]["name"] for tool in asked["tools"]] == [first.name]
    assert [tool.id for tool in letta.agents.tools.list(agent.id)] == [first.id]


def test_an_error_of_a_tool_is_told_to_the_model(
    letta: Letta, new_agent: NewAgent, new_tool: NewTool
) -> None:
    tool = new_tool("return str(sides / 0)")
    agent = new_agent(tool_ids=[tool.id])
    answer = letta.agents.messages.create(
        agent.id, messages=says(f'CALL:{tool.name}:{{"sides": 6}} SAY:a pity')
    )

    result = tool_return(answer.messages)
    assert result.status == "error"
    assert result.tool_return.endswith(
        f"Error executing function {tool.name}: ZeroDivisionError: division by zero"
    )
    assert "ZeroDivisionError" in "".join(result.stderr)
    assert answer.messages[-1].content == "a pity"


async def test_twenty_agents_call_at_once_and_a_hog_costs_nobody_an_answer(
    aletta: AsyncLetta, new_tool: NewTool
) -> None:
    tool = new_tool("return str(sides)")
    hog = new_tool("hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 20))")

    async def one(n: int) -> Any:
        called = hog if n == 0 else tool
        agent = await aletta.agents.create(
            name=unique("agent"), model=MODEL, embedding=EMBEDDING, tool_ids=[called.id]
        )
        return tool_return(
            (
                await aletta.agents.messages.create(
                    agent.id, messages=says(f'CALL:{called.name}:{{"sides": {n}}}')
                )
            ).messages
        )

    hogged, *others = await asyncio.gather(*(one(n) for n in range(20)))

    assert [(other.status, other.tool_return) for other in others] == [
        ("success", str(n)) for n in range(1, 20)
    ]
    assert hogged.status == "error"


@pytest.mark.operation("POST /v1/tools/")
@pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
def test_a_long_result_is_cut_once_and_says_how_long_it_was(
    letta: Letta, new_agent: NewAgent, new_tool: NewTool
) -> None:
    tool = new_tool("return 'x' * 100_000", return_char_limit=1_000)
    agent = new_agent(tool_ids=[tool.id])

    answer = letta.agents.messages.create(
        agent.id, messages=says(f'CALL:{tool.name}:{{"sides": 6}}')
    )

    assert tool_return(answer.messages).tool_return == "x" * 1_000 + (
        "... [NOTE: function output was truncated since it exceeded the character limit"
        " (100000 > 1000)]"
    )


async def test_a_cancelled_run_stops_the_code(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent, new_tool: NewTool
) -> None:
    tool = new_tool("import time\ntime.sleep(3600)")
    agent = new_agent(tool_ids=[tool.id])
    run = letta.agents.messages.create_async(
        agent.id, messages=says(f'CALL:{tool.name}:{{"sides": 6}}')
    )
    await wait_for("the call", lambda: calls(heeler, agent.id) == ["running"])
    letta.agents.messages.cancel(agent.id)
    await wait_for("the end of the code", lambda: calls(heeler, agent.id) == ["stopped"])

    assert letta.runs.retrieve(run.id).status == "cancelled"
    answer = letta.agents.messages.create(agent.id, messages=says("SAY:still here"))
    assert answer.messages[-1].content == "still here"


async def test_a_call_whose_service_is_killed_is_interrupted_and_the_agent_answers(
    heeler: HeelerInstance, aletta: AsyncLetta, new_agent: NewAgent, new_tool: NewTool
) -> None:
    tool = new_tool("import time\ntime.sleep(3600)")
    agent = new_agent(tool_ids=[tool.id])
    asked = asyncio.ensure_future(
        aletta.agents.messages.create(
            agent.id, messages=says(f'CALL:{tool.name}:{{"sides": 6}} SAY:what now')
        )
    )
    await wait_for("the call", lambda: calls(heeler, agent.id) == ["running"])
    heeler.wait_restarted("tools", heeler.kill9("tools"))
    answer = await asked

    result = tool_return(answer.messages)
    assert result.status == "error"
    assert "whether it took effect is not known" in result.tool_return
    await wait_for("the sweeper", lambda: calls(heeler, agent.id) == ["lost"])
    assert answer.messages[-1].content == "what now"


@pytest.mark.operation("POST /v1/sandbox-config/local/recreate-venv")
def test_a_tool_imports_the_packages_that_it_asks_for(
    letta: Letta, heeler: HeelerInstance, http: httpx.Client, new_agent: NewAgent
) -> None:
    """TOOL-21: installed at the first call, kept for the next, made anew on demand."""
    name = unique("greets").replace("-", "_")
    source = f"def {name}(who: str):\n    import greeting\n    return greeting.hello(who)\n"
    schema = {
        "name": name,
        "description": "Greet.",
        "parameters": {
            "type": "object",
            "properties": {"who": {"type": "string"}},
            "required": ["who"],
        },
    }
    fields: dict[str, Any] = {"source_code": source, "json_schema": schema}
    tool = letta.tools.create(**fields, pip_requirements=[{"name": "greeting", "version": "1.0"}])
    agent = new_agent(tool_ids=[tool.id])

    def greets() -> Any:
        return call_tool(letta, agent.id, name, who="Ada")

    assert greets().tool_return == "1.0 greets Ada"
    there = sorted(path.name for path in (heeler.home / "packages").iterdir())
    assert greets().tool_return == "1.0 greets Ada"
    assert sorted(path.name for path in (heeler.home / "packages").iterdir()) == there
    assert http.post("/v1/sandbox-config/local/recreate-venv").json()["type"] == "local"
    assert greets().tool_return == "1.0 greets Ada"
    anew = sorted(path.name for path in (heeler.home / "packages").iterdir())
    assert len(anew) == len(there) + 1

    http.patch(f"/v1/tools/{tool.id}", json={"pip_requirements": [{"name": "no-such-package"}]})
    failed = greets()
    assert failed.status == "error"
    assert "no-such-package" in failed.tool_return
    assert "pip_requirements" in failed.tool_return
    http.patch(f"/v1/tools/{tool.id}", json={"pip_requirements": []})
    assert "No module named 'greeting'" in greets().tool_return
    shared = {"use_venv": True, "pip_requirements": [{"name": "greeting"}]}
    config = http.post("/v1/sandbox-config/local", json=shared).json()
    assert greets().tool_return == "2.0 greets Ada"
    wrong = {"use_venv": True, "pip_requirements": [{"name": "greeting; rm"}]}
    refused = http.post("/v1/sandbox-config/local", json=wrong)
    assert (refused.status_code, "`pip_requirements`" in refused.text) == (422, True)
    assert greets().tool_return == "2.0 greets Ada"
    assert http.delete(f"/v1/sandbox-config/{config['id']}").status_code == 204
    assert "No module named 'greeting'" in greets().tool_return
    letta.tools.delete(str(tool.id))


STATEFUL = """
import asyncio

def helper(agent_state: AgentState, word: str) -> str:
    block = agent_state.memory.get_block("human")
    agent_state.memory.update_block_value(label="human", value=f"{block.value} {word}")
    return f"{agent_state.name}: {', '.join(agent_state.memory.list_block_labels())}"

async def NAME(word: str, agent_state: "AgentState"):
    \"\"\"Add a word to what is known of the human.

    Args:
        word: the word
    \"\"\"
    await asyncio.sleep(0)
    return helper(agent_state, word)
"""


def test_a_tool_takes_its_agent_and_changes_its_memory(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    """TOOL-21: `agent_state` is no argument for models; changed blocks are changed, by the call,
    and what cannot be changed is an error."""
    name = unique("remembers").replace("-", "_")
    tool = letta.tools.create(source_code=STATEFUL.replace("NAME", name))
    assert [*((tool.json_schema or {})["parameters"]["properties"])] == ["word"]  # type: ignore[index, misc, call-overload]
    blocks = [{"label": "human", "value": "Ada", "limit": 20}, {"label": "persona", "value": "me"}]
    agent = new_agent(tool_ids=[tool.id], memory_blocks=blocks)

    def called(word: str) -> Any:
        return call_tool(letta, agent.id, name, word=word)

    assert called("tea").tool_return == f"{agent.name}: human, persona"
    block = letta.agents.blocks.retrieve("human", agent_id=agent.id)
    assert block.value == "Ada tea"
    [newest] = http.get(f"/v1/blocks/{block.id}/history", params={"limit": 1}).json()
    assert name in str(newest)
    shown = http.get(f"/v1/agents/{agent.id}/context").json()
    assert "Ada tea" in shown["core_memory"]
    full = called("x" * 100)
    assert full.status == "error"
    assert "not all made: 'human'" in full.tool_return
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Ada tea"
    ran = letta.agents.tools.run(name, agent_id=agent.id, args={"word": "pie"})
    assert ran.status == "success"
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Ada tea pie"
    letta.tools.delete(str(tool.id))


@pytest.mark.operation("POST /v1/agents/{agent_id}/tools/{tool_name}/run")
def test_a_client_calls_memory_tools_of_an_agent_itself(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(tools=["archival_memory_insert", "archival_memory_search", "memory"])
    tools = letta.agents.tools

    insert: dict[str, object] = {"label": "human", "new_string": "Likes tea"}
    edited = tools.run("memory_insert", agent_id=agent.id, args=insert)
    assert (edited.status, edited.func_return) == ("success", "Name: Ada\nLikes tea")
    block = letta.agents.blocks.retrieve("human", agent_id=agent.id)
    assert block.value == "Name: Ada\nLikes tea"
    again = http.post(
        f"/v1/agents/{agent.id}/tools/memory_insert/run",
        json={"args": insert},
        headers={"idempotency-key": agent.id},
    )
    repeated = http.post(
        f"/v1/agents/{agent.id}/tools/memory_insert/run",
        json={"args": insert},
        headers={"idempotency-key": agent.id},
    )
    assert again.json() == repeated.json()
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value.count("tea") == 2
    create: dict[str, object] = {"command": "create", "path": "/memories/plan"}
    made = tools.run("memory", agent_id=agent.id, args={**create, "description": "Plans"})
    assert made.status == "success", made.func_return
    assert "plan" in {block.label for block in letta.agents.blocks.list(agent.id)}
    tools.run("archival_memory_insert", agent_id=agent.id, args={"content": "A cat called Tom"})
    found = tools.run("archival_memory_search", agent_id=agent.id, args={"query": "cat"})
    assert "A cat called Tom" in str(found.func_return)
    assert tools.run("conversation_search", agent_id=agent.id, args={"query": "x"}).status == (
        "success"
    )
    unfit = tools.run("memory_insert", agent_id=agent.id, args={"label": "human"})
    assert unfit.status == "error"
    assert "new_string" in str(unfit.func_return)
    [entry, *_] = http.get(f"/v1/blocks/{block.id}/history", params={"order": "desc"}).json()
    assert (entry["tool_name"], entry["run_id"]) == ("memory_insert", None)


@pytest.mark.operation("POST /v1/agents/{agent_id}/tools/{tool_name}/run")
def test_a_tool_that_acts_in_a_conversation_is_not_called_without_one(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(agent_type="memgpt_v2_agent")
    refused = http.post(
        f"/v1/agents/{agent.id}/tools/send_message/run", json={"args": {"message": "Hi"}}
    )
    assert refused.status_code == 501
    assert refused.headers["x-should-retry"] == "false"
    assert "send_message" in refused.json()["detail"]
