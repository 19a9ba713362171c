"""What a plan may be asked for: what requests about agents, tools and servers could say."""

from __future__ import annotations

from typing import Any

import pytest

from libs.agent_document.desired import UNSET, DesiredAgent
from services.api.http.error_responses import Problem
from services.api.resources.agents.fleet_forms import check_forms


def check(**fields: Any) -> None:
    """Check an agent with these parts."""
    agent = {"name": "ada", "key": "ada", "file": "ada.toml", **fields}
    check_forms(DesiredAgent.model_validate(agent))


def test_what_requests_say_may_be_planned() -> None:
    said = {"tags": ["a"], "secrets": {"KEY": UNSET}, "model_settings": {"temperature": 0.5}}
    server = {"mcp_server_type": "sse", "server_url": "https://notes.example.com"}
    check(
        fields={**said, "agent_type": "letta_v1_agent", "description": None},
        own_tools=[{"name": "t", "source_code": "def t(): ...", "fields": {"tags": ["x"]}}],
        mcp_servers=[{"name": "notes", "config": server}],
        permissions={"tools": ["t"]},
    )


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"fields": {"nonsense": "hush"}}, "`fields` of agents have no 'nonsense'"),
        ({"fields": {"name": "hush"}}, "`fields` of agents have no 'name'"),
        ({"fields": {"metadata": {}}}, "`fields` of agents have no 'metadata'"),
        ({"fields": {"secrets": ["hush"]}}, "`fields.secrets`: Input should be a valid dictionary"),
        ({"fields": {"secrets": {"A": 5}}}, "`fields.secrets.A`: Input should be a valid string"),
        ({"fields": {"model_settings": "hush"}}, "`model_settings` should be an object"),
        ({"fields": {"max_files_open": 10**6}}, "max_files_open is 1000000, but at most"),
        (
            {"own_tools": [{"name": "t", "source_code": "", "fields": {"tags": 5}}]},
            "`own_tools.t.tags`: Input should be a valid list",
        ),
        (
            {"mcp_servers": [{"name": "m", "config": {"auth_token": "hush"}}]},
            "`mcp_servers.m.config`: Unable to extract tag",
        ),
        ({"permissions": {"tools": 5}}, "`permissions.tools`: Input should be a valid list"),
    ],
)
def test_what_no_request_says_is_refused(part: dict[str, Any], problem: str) -> None:
    with pytest.raises(Problem) as refused:
        check(**part)
    words = str(refused.value.body["detail"])
    assert words.startswith(f"ada.toml: {problem}")
    assert "hush" not in words
