"""Tools of the agent files that templates are made of: what becomes of them where that fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from libs.contracts.bus_messages import Accepted, Command
from libs.contracts.letta.template_requests import CreateTemplate
from libs.contracts.tools.tools import CreateTool, DeleteTool
from services.api.http.error_responses import Problem
from services.api.http.text_work import TextWorks
from services.api.resources.templates.template_sources import content_from
from tests.clock_and_ids import ManualClock

SCHEMA = {"name": "word", "description": "Say a word.", "parameters": {"type": "object"}}
TOOL = {
    "id": "tool-0",
    "name": "word",
    "tool_type": "custom",
    "source_type": "python",
    "source_code": 'def word() -> str:\n    """Say a word."""\n    return "word"\n',
    "json_schema": SCHEMA,
}
CLERK = {
    "id": "agent-0",
    "name": "clerk",
    "system": "Be kind.",
    "agent_type": "letta_v1_agent",
    "llm_config": {
        "model": "gpt-4o-mini",
        "model_endpoint_type": "openai",
        "context_window": 32_000,
        "handle": "openai/gpt-4o-mini",
    },
    "tool_ids": ["tool-0"],
    "messages": [],
}
NOTHING: dict[str, Any] = {
    name: [] for name in ("blocks", "groups", "files", "sources", "mcp_servers")
}
BODY = CreateTemplate(type="agent_file", agent_file={**NOTHING, "agents": [CLERK], "tools": [TOOL]})


async def refused(request: Any, status: int) -> None:
    """Make a template of the file, which is answered with a status."""
    async with content_from(request, BODY) as content:
        assert content.agents[0].fields["tool_ids"] == ["tool-1"]
        raise Problem(status, {"detail": "no"})


@pytest.mark.parametrize(("status", "deleted"), [(409, 1), (422, 1), (503, 0)])
async def test_tools_are_deleted_where_the_template_is_refused_not_where_nobody_knows(
    status: int, deleted: int
) -> None:
    sent: list[Command] = []

    async def send(_: Any, command: Any, **__: Any) -> Accepted:
        sent.append(command)
        return Accepted(result={"tool_id": "tool-1"})

    async def nothing(*_: Any) -> list[Any]:
        return []

    api = SimpleNamespace(
        new_id=lambda *_: "import-1",
        clock=ManualClock(),
        reads=SimpleNamespace(database=SimpleNamespace(fetch=nothing)),
        text_works=TextWorks(),
        send=send,
    )
    request: Any = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(api=api)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "services.api.resources.templates.template_sources.org_of", lambda _: "org-1"
        )
        with pytest.raises(Problem):
            await refused(request, status)
    assert sum(isinstance(command, CreateTool) for command in sent) == 1
    assert sum(isinstance(command, DeleteTool) for command in sent) == deleted
