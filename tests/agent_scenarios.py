"""An agent with a scenario, in files."""

from __future__ import annotations

from pathlib import Path

import httpx

AGENT = """
name = "tested"
description = "Made for tests of tests."
system_prompt = "Be kind."
tools = ["memory_insert"]
include_base_tools = false

[[memory]]
label = "human"
description = "Who it talks to."
"""
SCENARIO = """
[scenario]
name = "keeps what it is told"
agent = "agent.toml"

[[model]]
tool_calls = [{ name = "memory_insert", arguments = { label = "human", new_string = "Likes tea" } }]

[[model]]
text = "Noted."

[[turns]]
message = "I like tea."

[turns.expect]
contains = "Noted"
memory.human.contains = "tea"
"""


MOCK = """
[[mocks]]
tool = "memory_insert"
arguments = { label = "human" }
returns = { kept = true }
"""


def agent_folder(parent: Path) -> Path:
    """A folder with the agent and its scenario, which passes."""
    folder = parent / "agent"
    folder.mkdir()
    (folder / "agent.toml").write_text(AGENT)
    (folder / "keeps.toml").write_text(SCENARIO)
    return folder


def agents_left(http: httpx.Client) -> list[str]:
    """The agents of tests that are still there."""
    listed = http.get("/v1/agents/", params={"tags": "heeler-test"}).json()
    return [agent["name"] for agent in listed]
