"""Schemas of tools on their way to providers: each is read once, and the same is sent as ever."""

from __future__ import annotations

import json
from typing import Any

from libs.contracts.bus_messages import UNPROCESSABLE, Rejected
from libs.contracts.state_size_limits import AGENT_TOOLS_BYTES_MAX, size
from services.agent.adapters.models import anthropic_request
from services.agent.adapters.models.openai_request import openai_tool
from services.agent.adapters.models.rendered_tools import RenderedTools, json_around
from services.agent.adapters.tool_queries import tools_of_rows
from services.agent.domain.agents.agent_configuration import too_long_schemas
from services.agent.domain.tools.custom_tools import CustomTool
from tests.contract.examples import SYSTEM
from tests.processor_bounds import processor_time
from tests.unit.agent import anthropic_documents
from tests.unit.agent.asking import ask
from tests.unit.agent.openai_documents import body_of

INNER = {"type": "object", "properties": {f"k{n}": {"type": "string"} for n in range(10)}}
LONG: dict[str, Any] = {"type": "object", "properties": {f"p{n}": INNER for n in range(230)}}


def long_tools(count: int) -> list[CustomTool]:
    """Tools of about 70 kB each."""
    return [
        CustomTool.model_construct(id=f"tool-{n}", name=f"t{n}", parameters=LONG)
        for n in range(count)
    ]


async def test_what_a_tool_became_is_kept() -> None:
    kept = RenderedTools(openai_tool)
    tools = [tool.json_schema for tool in long_tools(30)]
    first = await kept.of(tools)
    with processor_time(0.2):
        assert await kept.of(tools) == first
    assert json.loads(first) == [openai_tool(tool) for tool in tools]


async def test_what_is_kept_has_a_bound() -> None:
    kept = RenderedTools(openai_tool, bytes_max=1 << 20)
    await kept.of([tool.json_schema for tool in long_tools(20)])
    assert kept.bytes == sum(len(said) + len(made) for said, made in kept.kept.items()) <= 1 << 20
    assert b'"t19"' in [*kept.kept][-1]


async def test_providers_are_sent_the_same_from_what_is_kept() -> None:
    request = ask(SYSTEM, tools=[long_tools(1)[0].json_schema, {"name": "a"}])
    around = anthropic_request.body_around_tools(request)
    tools = await RenderedTools(anthropic_request.anthropic_tool).of(request.tools)
    assert json.loads(json_around(around, tools)) == anthropic_documents.body_of(request)
    assert len(json.loads(json.dumps(body_of(request)))["tools"]) == 2


async def test_the_schemas_of_many_tools_are_read_soon() -> None:
    text = json.dumps({"name": "t", "parameters": LONG})
    rows = [(f"tool-{n}", 1, f"t{n}", "custom", text, "", None, None, None) for n in range(30)]
    with processor_time(0.2):
        assert (await tools_of_rows(rows))[29].parameters == LONG


def test_a_tool_with_which_the_schemas_of_all_are_too_long_is_refused() -> None:
    tools = long_tools(AGENT_TOOLS_BYTES_MAX // size(LONG) + 2)
    fitting = tools[: AGENT_TOOLS_BYTES_MAX // size(LONG) - 1]
    assert too_long_schemas(fitting) is None
    refused = too_long_schemas(tools)
    assert isinstance(refused, Rejected)
    assert refused.code == UNPROCESSABLE
    assert f"`{tools[-2].name}` does not fit" in refused.reason
    held = [tool.id for tool in tools]
    assert too_long_schemas(tools, held) is None, "it has them already"
    more = too_long_schemas([CustomTool(id="tool-new", name="new"), *tools], held)
    assert more
    assert "`new` does not fit" in more.reason
