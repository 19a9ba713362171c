"""Servers that were not written here, over all three transports, through an agent; and bad ones."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import APIStatusError, Letta

from tests.e2e.asking import (
    MODEL,
    NOBODY,
    SECONDS_MAX,
    call_tool,
    says,
    tool_call,
    tool_return,
    unique,
)
from tests.e2e.conftest import NewAgent
from tests.e2e.node import FOLDER, INSTALL_SECONDS_MAX, MODERN, Node, installed
from tests.mcp_servers import listed
from tests.mcp_servers.asking import PROGRAM, served
from tests.mcp_servers.listed import FOREIGN, NOT_HERE, TIME, everything, filesystem
from tests.mcp_servers.programs import living, programs_of
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance, wait_until
from tests.waiting import wait_for

LISTENING_SECONDS_MAX = 30.0

pytestmark = pytest.mark.timeout(INSTALL_SECONDS_MAX + 120)

DISCOVERY_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def foreign() -> None:
    """The packages of npm, or a skip that says why not."""
    installed(FOREIGN)
    if listed.node() == NOT_HERE:
        pytest.skip("no Node is here")


@contextmanager
def listening(transport: str) -> Iterator[int]:
    """The server of everything over HTTP, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    streams: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "PORT": str(port)}
    with subprocess.Popen([*everything(), transport], env=environment, **streams) as process:
        try:
            await_port(port)
            yield port
        finally:
            process.kill()


def await_port(port: int) -> None:
    until = time.monotonic() + LISTENING_SECONDS_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < until, "it does not listen"
            time.sleep(0.05)
        else:
            return


@pytest.fixture
def shared(heeler: HeelerInstance) -> Path:
    """The folder that the filesystem server has."""
    return Path(heeler.env["HEELER_MCP_COMMANDS"]).with_name("shared")


class Servers:
    """Adds MCP servers, and takes them away again."""

    def __init__(self, letta: Letta) -> None:
        self.letta = letta
        self.ids: list[str] = []

    def add(self, **config: Any) -> Any:
        server = self.letta.mcp_servers.create(server_name=unique("server"), config=config)
        self.ids.append(str(server.id))
        return server

    def program(self, argv: tuple[str, ...]) -> Any:
        return self.add(mcp_server_type="stdio", command=argv[0], args=list(argv[1:]))

    def at(self, kind: str, port: int, path: str) -> Any:
        return self.add(mcp_server_type=kind, server_url=f"http://127.0.0.1:{port}{path}")

    def tool(self, server: Any, name: str) -> Any:
        """A tool of a server, whose name is another one where two servers have the same. What was
        added while the machine is busy is discovered a little later."""
        tools: dict[str, Any] = {}

        def discovered() -> bool:
            listed = self.letta.mcp_servers.tools.list(server.id)
            tools.update({tool.metadata["mcp"]["tool_name"]: tool for tool in listed})
            return name in tools

        wait_until(f"{name} of {server}", discovered, DISCOVERY_SECONDS_MAX)
        return tools[name]


@pytest.fixture
def servers(letta: Letta) -> Iterator[Servers]:
    made = Servers(letta)
    yield made
    for server_id in made.ids:
        with suppress(APIStatusError):
            letta.mcp_servers.delete(server_id)


@pytest.mark.operation("POST /v1/mcp-servers/")
@pytest.mark.operation("GET /v1/mcp-servers/{mcp_server_id}/tools")
def test_one_server_over_all_three_transports(
    letta: Letta, servers: Servers, new_agent: NewAgent, foreign: None, shared: Path
) -> None:
    """TOOL-07, TOOL-08, TOOL-09, TOOL-10: `@modelcontextprotocol/server-everything`."""
    with listening("sse") as sse, listening("streamableHttp") as streamable:
        for server in (
            servers.program((*everything(), "stdio")),
            servers.at("sse", sse, "/sse"),
            servers.at("streamable_http", streamable, "/mcp"),
        ):
            echo = servers.tool(server, "echo")
            agent = new_agent(tool_ids=[echo.id])
            result = call_tool(letta, agent.id, echo.name, message="Hello")
            assert (result.status, result.tool_return) == ("success", "Echo: Hello")
            wrong = call_tool(letta, agent.id, echo.name, message=7)
            assert wrong.status == "error"
            letta.mcp_servers.delete(server.id)


def test_an_agent_works_with_files_and_clocks_of_foreign_servers(
    letta: Letta, servers: Servers, new_agent: NewAgent, foreign: None, shared: Path
) -> None:
    """TOOL-07: `@modelcontextprotocol/server-filesystem`, and `mcp-server-time` of PyPI."""
    files, clock = servers.program(filesystem(shared)), servers.program(TIME)
    write, read = (servers.tool(files, name) for name in ("write_file", "read_text_file"))
    convert = servers.tool(clock, "convert_time")
    agent = new_agent(tool_ids=[write.id, read.id, convert.id])
    path = str(shared / f"{unique('note')}.txt")
    written = call_tool(letta, agent.id, write.name, path=path, content="Hello")
    assert (written.status, Path(path).read_text()) == ("success", "Hello")
    found = call_tool(letta, agent.id, read.name, path=path)
    assert (found.status, found.tool_return) == ("success", "Hello")
    refused = call_tool(letta, agent.id, read.name, path="/etc/passwd")
    assert (refused.status, "denied" in refused.tool_return) == ("error", True)
    zones = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo", "time": "03:00"}
    assert "12:00" in call_tool(letta, agent.id, convert.name, **zones).tool_return


@pytest.mark.operation("POST /v1/mcp-servers/", client=MODERN)
@pytest.mark.operation("GET /v1/mcp-servers/{mcp_server_id}/tools", client=MODERN)
@pytest.mark.operation("POST /v1/mcp-servers/{mcp_server_id}/tools/{tool_id}/run", client=MODERN)
def test_the_same_from_typescript(
    heeler: HeelerInstance, node: Node, foreign: None, shared: Path
) -> None:
    """TOOL-10: the same server over the same transports."""
    program, *arguments = (*everything(), "stdio")
    with listening("sse") as sse, listening("streamableHttp") as streamable:
        at = "http://127.0.0.1"
        configs = [
            {"mcp_server_type": "stdio", "command": program, "args": arguments},
            {"mcp_server_type": "sse", "server_url": f"{at}:{sse}/sse"},
            {"mcp_server_type": "streamable_http", "server_url": f"{at}:{streamable}/mcp"},
        ]
        told = {
            "HEELER_TEST_URL": heeler.base_url,
            "HEELER_TEST_MCP_CONFIGS": json.dumps(configs),
        }
        done = subprocess.run(
            [node.node, "--test", "mcp_servers.mjs"],
            cwd=FOLDER,
            env={**node.environment, **told},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 0, done.stdout


def test_a_bad_server_costs_an_agent_that_call_and_nothing_else(
    letta: Letta, servers: Servers, new_agent: NewAgent, heeler: HeelerInstance, shared: Path
) -> None:
    """R30: crash in a call, garbage, 100 MB; a dead server leaves the agent its other tools."""
    good = servers.program(PROGRAM)
    with served() as port:
        bad = servers.at("streamable_http", port, "/mcp")
        *held, slow = (servers.tool(bad, name) for name in ("crash", "garbage", "large", "slow"))
        echo = servers.tool(good, "echo")
        agent = new_agent(tool_ids=[tool.id for tool in (*held, slow, echo)])
        for tool in held:
            result = call_tool(letta, agent.id, tool.name)
            assert (result.status, bad.server_name in result.tool_return) == ("error", True)
            assert "may have taken effect" in result.tool_return
            assert call_tool(letta, agent.id, echo.name, text="well").tool_return == "well"
    assert call_tool(letta, agent.id, slow.name, text="0").status == "error"
    assert call_tool(letta, agent.id, echo.name, text="still here").tool_return == "still here"


@pytest.mark.operation("POST /v1/mcp-servers/")
def test_what_else_a_server_offers_and_how_it_is(
    http: httpx.Client, servers: Servers, heeler: HeelerInstance
) -> None:
    """TOOL-11: the health of a server. TOOL-14: its resources and prompts."""
    with served() as port:
        server = servers.at("streamable_http", port, "/mcp")
        path = f"/v1/mcp-servers/{server.id}"
        assert http.get(f"{path}/health").json()["state"] == "healthy"
        [resource] = http.get(f"{path}/resources").json()
        assert resource["uri"] == "memo://one"
        [part] = http.get(f"{path}/resources/content", params={"uri": "memo://one"}).json()
        assert (part["uri"], part["text"], part["blob"]) == ("memo://one", "read", None)
        [prompt] = http.get(f"{path}/prompts").json()
        assert (prompt["name"], prompt["arguments"][0]["name"]) == ("greet", "who")
        asked = {"name": "greet", "arguments": {"who": "Ada"}}
        assert http.post(f"{path}/prompts", json=asked).json() == [
            {"role": "user", "text": "Greet Ada"}
        ]
        assert http.post(f"{path}/prompts", json={}).status_code == 422
    dead = http.get(f"{path}/health").json()
    assert (dead["state"], dead["failures"] > 0) == ("failing", True)
    assert "nobody answers there" in dead["last_error"]
    away = http.get(f"{path}/resources")
    assert (away.status_code, "nobody answers there" in away.text) == (502, True)
    nobody = f"/v1/mcp-servers/mcp_server-{NOBODY}"
    assert {http.get(f"{nobody}/{what}").status_code for what in ("health", "prompts")} == {404}


def sampled(letta: Letta, agent_id: str, tool: str, *said: str, **wanted: Any) -> Any:
    """What a server was told that asked a model, in one call of a tool of the scripted server."""
    messages = [{"role": "user", "content": {"type": "text", "text": text}} for text in said]
    text = json.dumps({**({"messages": messages} if said else {}), **wanted})
    result = call_tool(letta, agent_id, tool, text=text)
    assert result.status == "success"
    return [json.loads(line) for line in result.tool_return.splitlines()]


@pytest.mark.operation("PATCH /v1/mcp-servers/{mcp_server_id}")
@pytest.mark.operation("GET /v1/mcp-servers/{mcp_server_id}")
@pytest.mark.operation("POST /v1/mcp-servers/{mcp_server_id}/tools/{tool_id}/run")
def test_a_server_that_may_asks_the_model_of_the_agent_that_calls_its_tool(
    letta: Letta, http: httpx.Client, servers: Servers, new_agent: NewAgent, shared: Path
) -> None:
    """TOOL-14: sampling over all transports; off until somebody allows it, and again after."""
    with served() as port:
        for server in (
            servers.program(PROGRAM),
            servers.at("sse", port, "/sse"),
            servers.at("streamable_http", port, "/mcp"),
        ):
            tool = servers.tool(server, "sample")
            agent = new_agent(tool_ids=[tool.id])
            [refused] = sampled(letta, agent.id, tool.name)
            assert "not supported" in refused["message"]
            path = f"/v1/mcp-servers/{server.id}"
            assert http.get(path).json()["sampling"] is False
            config: Any = {"mcp_server_type": server.mcp_server_type, "sampling": True}
            letta.mcp_servers.update(server.id, config=config)
            assert http.get(path).json()["sampling"] is True
            [said] = sampled(letta, agent.id, tool.name, "SAY:Yes. Or no.", stopSequences=[" Or"])
            assert said["content"] == {"type": "text", "text": "Yes."}
            assert (said["role"], said["stopReason"]) == ("assistant", "stopSequence")
            assert said["model"] in MODEL
            [failed] = sampled(letta, agent.id, tool.name, "FAIL:401")
            assert "The model of the agent gave no answer" in failed["message"]
            many = sampled(letta, agent.id, tool.name, times=7)
            assert sum("content" in answer for answer in many) == 5
            assert sum("at most" in answer.get("message", "") for answer in many) == 2
            used = http.get(f"/v1/agents/{agent.id}/tools/usage").json()["sampling"]
            assert used["requests"] == 7
            assert min(used["prompt_tokens"], used["completion_tokens"]) > 0
            [*_, first, _] = http.get("/v1/tool-runs", params={"agent_id": agent.id}).json()
            assert first["usage"]["sampling"]["requests"] == 1
            run = letta.mcp_servers.tools.run
            alone = run(tool.id, mcp_server_id=server.id, args={}).func_return
            assert "No agent has called this tool" in str(alone)
            config["sampling"] = False
            letta.mcp_servers.update(server.id, config=config)
            [refused] = sampled(letta, agent.id, tool.name)
            assert "not supported" in refused["message"]


@pytest.mark.operation("POST /v1/mcp-servers/")
def test_a_foreign_server_asks_a_model(
    letta: Letta, servers: Servers, new_agent: NewAgent, foreign: None, shared: Path
) -> None:
    """TOOL-14: `@modelcontextprotocol/server-everything` shows its tool to those who let it ask."""
    program, *arguments = (*everything(), "stdio")
    with listening("sse") as sse, listening("streamableHttp") as streamable:
        at = "http://127.0.0.1"
        for server in (
            servers.add(mcp_server_type="stdio", command=program, args=arguments, sampling=True),
            servers.add(mcp_server_type="sse", server_url=f"{at}:{sse}/sse", sampling=True),
            servers.add(
                mcp_server_type="streamable_http",
                server_url=f"{at}:{streamable}/mcp",
                sampling=True,
            ),
        ):
            tool = servers.tool(server, "trigger-sampling-request")
            agent = new_agent(tool_ids=[tool.id])
            result = call_tool(letta, agent.id, tool.name, prompt="SAY:Six.", maxTokens=20)
            assert (result.status, result.tool_return[:19]) == ("success", "LLM sampling result")
            answer = json.loads(result.tool_return.partition(chr(10))[2])
            assert answer["content"] == {"type": "text", "text": "Six."}
            letta.mcp_servers.delete(server.id)


async def test_a_model_that_is_asked_while_its_service_dies_costs_the_answer_alone(
    letta: Letta,
    http: httpx.Client,
    servers: Servers,
    new_agent: NewAgent,
    heeler: HeelerInstance,
    model: ScriptedModelProcess,
) -> None:
    """TOOL-14: the run goes on as after every crash, and the server is told in words."""
    with served() as port:
        server = servers.add(
            mcp_server_type="streamable_http",
            server_url=f"http://127.0.0.1:{port}/mcp",
            sampling=True,
        )
        tool = servers.tool(server, "sample")
        agent = new_agent(tool_ids=[tool.id])
        slow = f"SLOW:60000 {unique('slow')}"
        content = {"type": "text", "text": slow}
        arguments = {"text": json.dumps({"messages": [{"role": "user", "content": content}]})}
        call = tool_call(tool.name, **arguments)
        run = letta.agents.messages.create_async(agent.id, messages=says(call))

        await model.wait_for_asked(slow, step=0, times=1)
        heeler.wait_restarted("agent", heeler.kill9("agent"))

        def ended() -> bool:
            return http.get(f"/v1/runs/{run.id}").json()["status"] == "completed"

        await wait_for("the end of the run", ended, SECONDS_MAX)
        result = tool_return(letta.agents.messages.list(agent.id))
        assert "interrupted" in str(result.tool_return)

        def told() -> bool:
            [call] = http.get("/v1/tool-runs", params={"agent_id": agent.id}).json()
            return "did not answer" in (call["tool_return"] or "")

        await wait_for("what the server was told", told, SECONDS_MAX)


def test_no_program_is_started_that_is_not_listed(letta: Letta, servers: Servers) -> None:
    """S11: refused before anything is stored or started."""
    for argv in (("/bin/sh", "-c", "id"), ("npx", "-y", "anything"), (*PROGRAM, "--pages", "same")):
        with pytest.raises(APIStatusError) as refused:
            servers.program(argv)
        assert refused.value.status_code == 422
        assert "HEELER_MCP_COMMANDS" in str(refused.value)
    with pytest.raises(APIStatusError, match="LD_PRELOAD"):
        servers.add(
            mcp_server_type="stdio",
            command=PROGRAM[0],
            args=list(PROGRAM[1:]),
            env={"LD_PRELOAD": "/tmp/evil.so"},
        )


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/mcp", "http://169.254.169.254/", "http://[::ffff:7f00:1]/", "file:///"]
)
def test_no_private_address_is_asked_as_a_server(servers: Servers, url: str) -> None:
    """S09: the address of a server is guarded."""
    for kind in ("sse", "streamable_http"):
        with pytest.raises(APIStatusError) as refused:
            servers.add(mcp_server_type=kind, server_url=url)
        assert refused.value.status_code == 422


async def test_programs_end_with_the_service_that_started_them(
    letta: Letta, servers: Servers, heeler: HeelerInstance, shared: Path
) -> None:
    """R30: after a kill -9 of the tools service nothing of them is left, and they are back when
    they are needed."""
    server = servers.program(PROGRAM)
    echo, fork = servers.tool(server, "echo"), servers.tool(server, "fork")
    run = letta.mcp_servers.tools.run
    assert run(fork.id, mcp_server_id=server.id, args={}).func_return == "forked"
    programs = programs_of(heeler.pid("tools"))
    assert programs
    heeler.kill9("tools")
    await wait_for("their end", lambda: not living(programs), 10.0)
    await wait_for("it is back", lambda: is_back(run, echo.id, server.id), 30.0)


def is_back(run: Any, tool_id: str, server_id: str) -> bool:
    try:
        ran = run(tool_id, mcp_server_id=server_id, args={"text": "back"})
    except APIStatusError:
        return False
    return bool(ran.func_return == "back")
