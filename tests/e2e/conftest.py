"""One Heeler with a scripted model, for all end-to-end tests; each test makes its own agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
from letta_client import AsyncLetta, Letta
from letta_client.types import AgentState

from tests.chosen import new_heeler
from tests.e2e.asking import (
    EMBEDDING,
    MODEL,
    SDK_HEADERS,
    SECONDS_MAX,
    says,
    unique,
    with_login,
)
from tests.e2e.node import Node, installed
from tests.e2e.web import Web, serving
from tests.heeler_command import HeelerCommand
from tests.mcp_servers.listed import write_list
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
from tests.wheels import wheel

PRICES = Path(__file__).with_name("prices.toml")


@pytest.fixture(scope="package")
async def model() -> AsyncIterator[ScriptedModelProcess]:
    async with ScriptedModelProcess() as process:
        yield process


@pytest.fixture(scope="package")
def web_pages() -> Iterator[Web]:
    """Pages that `fetch_webpage` may read, and what `web_search` asks."""
    with serving() as started:
        yield started


@pytest.fixture(scope="package")
def mcp_commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The programs that may be MCP servers, where the services find what is on this machine."""
    return {"HEELER_MCP_COMMANDS": str(write_list(tmp_path_factory.mktemp("mcp")))}


@pytest.fixture(scope="package")
def package_index(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where tools get packages from: a folder with one package in two versions."""
    folder = tmp_path_factory.mktemp("wheels")
    wheel(folder, "greeting", "1.0")
    wheel(folder, "greeting", "2.0")
    return {"HEELER_PACKAGE_INDEX": str(folder)}


@pytest.fixture(scope="package")
def heeler(
    model: ScriptedModelProcess,
    web_pages: Web,
    mcp_commands: dict[str, str],
    package_index: dict[str, str],
) -> Iterator[HeelerInstance]:
    env = {
        "OPENAI_API_BASE": model.base_url,
        "OPENAI_API_KEY": "any",
        "ANTHROPIC_BASE_URL": model.anthropic_base_url,
        "ANTHROPIC_API_KEY": "any",
        "HEELER_PING_SECONDS": "1",
        "HEELER_CALLBACK_HOSTS": "localhost",
        "HEELER_MCP_HOSTS": "127.0.0.1",
        "HEELER_PRICES": str(PRICES),
        "HEELER_FETCH_HOSTS": "localhost",
        "HEELER_WEB_SEARCH_URL": web_pages.url,
        "EXA_API_KEY": "key-of-the-operator",
        **mcp_commands,
        **package_index,
    }
    with new_heeler(env=env) as instance:
        yield instance
        checked = instance.command("rebuild", "--check")
        assert checked.returncode == 0, f"rows differ from what their events say: {checked.stdout}"


@dataclass(frozen=True, slots=True)
class Fragile:
    """A server whose processes die at each failpoint for which there is a file, with approvals that
    end after a few seconds, and with a login in the addresses of its models."""

    heeler: HeelerInstance
    failpoints: Path


@pytest.fixture(scope="package")
def fragile(
    model: ScriptedModelProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fragile]:
    """One for all files that need any of this: they run in one worker."""
    failpoints = tmp_path_factory.mktemp("failpoints")
    env = {
        "OPENAI_API_BASE": with_login(model.base_url),
        "ANTHROPIC_BASE_URL": with_login(model.anthropic_base_url),
        "HEELER_FAILPOINTS": str(failpoints),
        "HEELER_APPROVAL_SECONDS_MAX": "4",
    }
    with HeelerInstance(env=env) as instance:
        yield Fragile(instance, failpoints)


@pytest.fixture
def heeler_command(
    heeler: HeelerInstance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> HeelerCommand:
    """The command `heeler` in this process, which asks that server."""
    return HeelerCommand(monkeypatch, tmp_path, heeler.base_url)


@pytest.fixture(scope="package")
def letta(heeler: HeelerInstance) -> Iterator[Letta]:
    """The SDK as it is, told to check every reply against its own models."""
    with Letta(
        base_url=heeler.base_url,
        api_key="none",
        max_retries=0,
        timeout=SECONDS_MAX,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture(scope="package")
async def aletta(heeler: HeelerInstance) -> AsyncIterator[AsyncLetta]:
    """The same, for what goes on at the same time."""
    async with AsyncLetta(
        base_url=heeler.base_url,
        api_key="none",
        max_retries=0,
        timeout=SECONDS_MAX,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture(scope="package")
def http(heeler: HeelerInstance) -> Iterator[httpx.Client]:
    """Bare HTTP with the headers by which a server knows the SDK."""
    with httpx.Client(base_url=heeler.base_url, headers=SDK_HEADERS, timeout=SECONDS_MAX) as client:
        yield client


@pytest.fixture(scope="package")
async def ahttp(heeler: HeelerInstance) -> AsyncIterator[httpx.AsyncClient]:
    """The same as `http`, for tests that wait for what goes on at the same time."""
    async with httpx.AsyncClient(
        base_url=heeler.base_url, headers=SDK_HEADERS, timeout=SECONDS_MAX
    ) as client:
        yield client


@pytest.fixture(scope="package")
def legacy(heeler: HeelerInstance) -> Iterator[httpx.Client]:
    """Bare HTTP of a client from before SDK 1.0."""
    agent = {"user-agent": "letta-client/0.1.324"}
    with httpx.Client(base_url=heeler.base_url, headers=agent, timeout=SECONDS_MAX) as client:
        yield client


@pytest.fixture(scope="package")
def node() -> Node:
    """Node with both TypeScript clients, or a loud skip."""
    return installed()


class NewAgent(Protocol):
    def __call__(self, **fields: Any) -> AgentState: ...


@pytest.fixture(scope="package")
def new_agent(letta: Letta) -> NewAgent:
    """Makes an agent on the scripted model with a `human` and a `persona` block."""

    def make(**fields: Any) -> AgentState:
        wanted: dict[str, Any] = {
            "name": unique("agent"),
            "model": MODEL,
            "embedding": EMBEDDING,
            "memory_blocks": [
                {"label": "human", "value": "Name: Ada"},
                {"label": "persona", "value": "I am kind."},
            ],
        }
        return letta.agents.create(**{**wanted, **fields})

    return make


ROLL = '''
def {name}(sides: int) -> str:
    """Roll a die.

    Args:
        sides (int): how many sides it has
    """
    {body}
'''
NewTool = Callable[..., Any]


@pytest.fixture
def new_tool(letta: Letta, http: httpx.Client) -> Iterator[NewTool]:
    """Makes a tool whose code is this; it is gone when the test is over."""
    made: list[str] = []

    def make(body: str, **fields: Any) -> Any:
        name = unique("roll").replace("-", "_")
        source = ROLL.format(name=name, body=body.replace("\n", "\n    "))
        tool = letta.tools.create(source_code=source, **fields)
        made.append(str(tool.id))
        return tool

    yield make
    for tool_id in made:
        http.delete(f"/v1/tools/{tool_id}")


PAUSING: dict[str, Any] = {
    "agent_type": "memgpt_agent",
    "tools": ["send_message", "pause_heartbeats"],
    "include_base_tools": False,
}
PAUSE = 'CALL:pause_heartbeats:{"minutes": 0}'  # is clamped to one


@pytest.fixture(scope="package")
def paused(letta: Letta, new_agent: NewAgent) -> tuple[str, datetime]:
    """An agent that pauses, and since when: the minute passes while other tests run."""
    agent = new_agent(**PAUSING)
    since = datetime.now(UTC)
    answer = letta.agents.messages.create(agent.id, messages=says(PAUSE))
    called, returned = answer.messages[-2:]
    assert called.message_type == "tool_call_message"
    assert returned.message_type == "tool_return_message"
    assert "pause for 1 min" in str(returned.tool_return)
    assert answer.stop_reason.stop_reason == "end_turn", "a pause ends the run at once"
    return agent.id, since
