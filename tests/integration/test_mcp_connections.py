"""TOOL-07 to TOOL-11, TOOL-14, R30: MCP servers over every transport, good ones and bad ones."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from libs.egress import checked_addresses
from libs.egress.address_guard import MCP_HOSTS, AddressGuard
from libs.telemetry.metrics import REGISTRY
from services.tools.adapters.mcp.circuit_breaker import FAILURES_MAX
from services.tools.adapters.mcp.connections import McpConnections
from services.tools.adapters.mcp.failures import AnsweredWithError, failure_of, session_lost
from services.tools.adapters.mcp.ports import (
    McpFailed,
    McpServerConfig,
    Sampler,
    SamplingAnswer,
    SamplingRequest,
)
from services.tools.adapters.mcp.sampling import REQUEST_BYTES_MAX
from services.tools.adapters.process_sandbox import ProcessSandbox
from services.tools.domain.mcp_tool import OfferedTool, problem_of
from tests.mcp_servers.asking import (
    ANSWER_SECONDS,
    CALL_SECONDS,
    HERE,
    PROGRAM,
    allowed,
    answers,
    children_of_pools,
    config,
    failure,
    new_connections,
    said,
    served,
)
from tests.mcp_servers.behaviours import MENDED_TOOLS, TOOLS
from tests.mcp_servers.changing import changing_server
from tests.waiting import wait_for

COUNTED = "heeler_mcp_sampling_requests"
HUNDRED_SECONDS = 240.0


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as port:
        yield port


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[ProcessSandbox]:
    one = ProcessSandbox(idle_min=0)
    await one.start()
    yield one
    await one.close()


@pytest.fixture(params=["streamable_http", "sse", "stdio"])
def server(request: pytest.FixtureRequest, port: int, sandbox: ProcessSandbox) -> McpServerConfig:
    if request.param == "stdio" and sandbox.refusal:
        pytest.skip(sandbox.refusal)
    return config(request.param, port)


STARTS = tuple(allowed("--start", start) for start in ("crash", "hang", "garbage", "600"))


@pytest.fixture
async def connections(sandbox: ProcessSandbox) -> AsyncIterator[McpConnections]:
    seconds = {"connect_seconds": ANSWER_SECONDS, "list_seconds": ANSWER_SECONDS}
    commands = (allowed(environment=frozenset({"KEY"})), *STARTS)
    one = new_connections(HERE, sandbox, commands, **seconds)
    yield one
    await one.close()


async def test_a_server_is_listed_page_by_page_and_its_tools_called(
    connections: McpConnections, server: McpServerConfig
) -> None:
    tools = await connections.list_tools(server)
    assert {tool.name: tool.description for tool in tools} == TOOLS
    assert tools[0].input_schema["properties"] == {"text": {"type": "string"}}
    assert await said(connections, server, "echo", "héllo") == "héllo"
    assert connections.health("one").state == "healthy"


async def test_resources_and_prompts_are_offered(
    connections: McpConnections, server: McpServerConfig
) -> None:
    """TOOL-14: resources and prompts."""
    assert [resource["uri"] for resource in await connections.list_resources(server)] == [
        "memo://one"
    ]
    [part] = await connections.read_resource(server, "memo://one")
    assert (part["uri"], part["text"]) == ("memo://one", "read")
    [prompt] = await connections.list_prompts(server)
    assert (prompt["name"], prompt["arguments"][0]["name"]) == ("greet", "who")
    [message] = await connections.get_prompt(server, "greet", {"who": "Ada"})
    assert message == {"role": "user", "text": "Greet Ada"}


async def test_an_error_of_a_tool_is_what_the_call_came_to(
    connections: McpConnections, server: McpServerConfig
) -> None:
    outcome = await connections.call_tool(server, "fail", {}, seconds=ANSWER_SECONDS)
    assert (outcome.status, outcome.text) == ("error", "it failed")
    unknown = await connections.call_tool(server, "no such tool", {}, seconds=ANSWER_SECONDS)
    assert (unknown.status, "no such tool" in unknown.text) == ("error", True)
    assert connections.health("one").state == "healthy"


async def test_headers_of_the_configuration_are_sent(
    connections: McpConnections, server: McpServerConfig
) -> None:
    """TOOL-08: a bearer and custom headers."""
    if server.transport == "stdio":
        told = replace(server, env={"KEY": "sesame"})
        assert await said(connections, told, "environment", "KEY") == "sesame"
        return
    told = replace(server, headers={"Authorization": "Bearer sesame", "X-Team": "blue"})
    headers = json.loads(await said(connections, told, "headers", ""))
    assert (headers["authorization"], headers["x-team"]) == ("Bearer sesame", "blue")


async def test_a_server_that_asks_for_a_model_is_refused_in_words(
    connections: McpConnections, server: McpServerConfig
) -> None:
    """TOOL-14: sampling, where nobody has allowed it."""
    assert "not supported" in await said(connections, server, "sample", "")


def sampled(outcome: str) -> float:
    """How often a server was answered so."""
    return REGISTRY.get_sample_value(f"{COUNTED}_total", {"outcome": outcome}) or 0.0


async def capital(request: SamplingRequest) -> SamplingAnswer:
    """A model that says in capitals what it is told last."""
    content = request.messages[-1].content
    assert isinstance(content, list)
    text = content[-1]["text"].upper()  # type: ignore[index,call-overload,union-attr]
    return SamplingAnswer(text=text, model="shouting", stop_reason="endTurn")


async def sample(
    connections: McpConnections, server: McpServerConfig, tool: str = "sample", **wanted: Any
) -> list[dict[str, Any]]:
    """What a server that may ask a model is told in the course of a call."""
    outcome = await connections.call_tool(
        replace(server, sampling=True, agent_id="agent-1"),
        tool,
        {"text": json.dumps(wanted)},
        seconds=ANSWER_SECONDS,
        sampler=capital,
    )
    return [json.loads(line) for line in outcome.text.splitlines()]


async def test_a_server_that_may_asks_a_model_in_the_course_of_a_call(
    connections: McpConnections, server: McpServerConfig
) -> None:
    """TOOL-14: sampling is announced to those who may, and to nobody else."""
    before = sampled("answered")
    answers = await sample(connections, server, times=2)
    text = {"type": "text", "text": "HI"}
    told = {"role": "assistant", "content": text, "model": "shouting", "stopReason": "endTurn"}
    assert answers == [told, told]
    assert sampled("answered") == before + 2
    may = replace(server, sampling=True)
    assert json.loads(await said(connections, may, "capabilities", "")) == {"sampling": {}}
    assert "while a tool" in await said(connections, may, "sample", "")
    may_not = replace(server, version=2)
    assert json.loads(await said(connections, may_not, "capabilities", "")) == {}


@pytest.mark.parametrize("server", ["sse", "stdio"], indirect=True)
async def test_a_server_asks_a_model_in_the_course_of_a_call_and_not_later(
    connections: McpConnections, server: McpServerConfig
) -> None:
    """Over streamable HTTP it cannot: its stream ends with the call."""
    before = sampled("outside_of_a_call")
    may = replace(server, sampling=True, agent_id="agent-1")
    outcome = await connections.call_tool(
        may, "sample_later", {}, seconds=ANSWER_SECONDS, sampler=capital
    )
    assert outcome.text == "later"
    await wait_for("a refusal", lambda: sampled("outside_of_a_call") > before)


@pytest.mark.parametrize(
    ("wanted", "outcome", "words"),
    [
        ({"messages": []}, "unsupported", "`messages`"),
        ({"maxTokens": 0}, "unsupported", "`maxTokens`"),
        ({"temperature": 9}, "unsupported", "`temperature`"),
        ({"stopSequences": ["x"] * 17}, "unsupported", "`stopSequences`"),
        ({"systemPrompt": "x" * REQUEST_BYTES_MAX}, "too_large", "bytes"),
        (
            {"messages": [{"role": "user", "content": {
                "type": "audio", "data": "AAAA", "mimeType": "audio/wav"}}]},
            "unsupported",
            "images",
        ),
    ],
    ids=["messages", "maxTokens", "temperature", "stopSequences", "large", "audio"],
)  # fmt: skip
async def test_what_no_model_is_asked_is_refused_in_words(
    connections: McpConnections,
    port: int,
    wanted: dict[str, Any],
    outcome: str,
    words: str,
) -> None:
    before = sampled(outcome)
    [answer] = await sample(connections, config("streamable_http", port), **wanted)
    assert words in answer["message"]
    assert sampled(outcome) == before + 1


async def test_a_server_of_a_later_protocol_asks_by_its_answer(connections: McpConnections) -> None:
    before = sampled("answered")
    with changing_server() as later:
        may = McpServerConfig(
            id="later", org="org", name="later", transport="streamable_http", version=1,
            url=later.url, sampling=True, agent_id="agent-1",
        )  # fmt: skip
        call = connections.call_tool(may, "ask", {}, seconds=ANSWER_SECONDS, sampler=capital)
        assert (await call).text == "HI"
        assert sampled("answered") == before + 1
        may_not = replace(may, sampling=False, agent_id="")
        refused = await connections.call_tool(may_not, "ask", {}, seconds=ANSWER_SECONDS)
        assert (refused.status, "not supported" in refused.text) == ("error", True)


async def test_nobody_waits_for_a_model_when_the_call_is_over(
    connections: McpConnections, server: McpServerConfig
) -> None:
    asked, over = asyncio.Event(), asyncio.Event()

    async def hang(_: SamplingRequest) -> SamplingAnswer:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.set()
        raise AssertionError

    may = replace(server, sampling=True, agent_id="agent-1")
    call = asyncio.ensure_future(
        connections.call_tool(may, "sample", {}, seconds=ANSWER_SECONDS, sampler=hang)
    )
    await asyncio.wait_for(asked.wait(), ANSWER_SECONDS)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(over.wait(), ANSWER_SECONDS)


async def test_each_agent_has_a_session_of_its_own_with_a_server_that_may_ask_models(
    connections: McpConnections, server: McpServerConfig
) -> None:
    """So the model of one agent is never asked for what another one does."""
    asked: list[str] = []

    def model_of(agent: str) -> Sampler:
        async def model(_: SamplingRequest) -> SamplingAnswer:
            asked.append(agent)
            return SamplingAnswer(text=agent, model="own", stop_reason="endTurn")

        return model

    agents = [f"agent-{number}" for number in range(3)]
    outcomes = await asyncio.gather(
        *(
            connections.call_tool(
                replace(server, sampling=True, agent_id=agent),
                "sample",
                {},
                seconds=ANSWER_SECONDS,
                sampler=model_of(agent),
            )
            for agent in agents
        )
    )
    assert [json.loads(outcome.text)["content"]["text"] for outcome in outcomes] == agents
    assert len(connections.pool.sessions) == len(agents)
    await connections.forget("one")
    assert connections.pool.sessions == connections.pool.kinds == {}


@pytest.mark.parametrize(
    ("tool", "kinds"),
    [
        ("hang", {"timeout"}),
        ("crash", {"unreachable", "timeout"}),
        ("garbage", {"protocol"}),
        ("large", {"too_large"}),
        ("notify", {"too_large", "timeout"}),  # as fast as they are counted
    ],
)
async def test_a_call_that_goes_wrong_ends_in_its_time_and_the_server_is_asked_again(
    connections: McpConnections, server: McpServerConfig, tool: str, kinds: set[str]
) -> None:
    """R30: crash in a call, hang, garbage, 100 MB, notifications without end."""
    seconds = CALL_SECONDS if "timeout" in kinds else ANSWER_SECONDS
    assert await said(connections, server, "echo", "hello") == "hello"  # the deadline is the call's
    failed = await failure(connections, server, tool, seconds=seconds)
    assert failed.kind in kinds
    assert failed.may_have_taken_effect
    # What was said unasked until the call ended may end its session later.
    await wait_for("an answer", lambda: answers(connections, server), ANSWER_SECONDS)


@pytest.mark.parametrize("server", ["sse", "stdio"], indirect=True)
async def test_a_line_that_is_no_message_does_not_cost_the_answer(
    connections: McpConnections, server: McpServerConfig
) -> None:
    """Programs write their logs where they should not."""
    assert await said(connections, server, "log", "") == "logged"


async def test_an_answer_that_is_no_message_ends_its_call_at_once_or_soon(
    connections: McpConnections, server: McpServerConfig
) -> None:
    """It used to hang until the deadline of the call."""
    assert await said(connections, server, "echo", "hello") == "hello"
    for tool in ("broken", "words"):
        failed = await failure(connections, server, tool, "{{ sorry")
        assert (failed.kind, "no MCP" in failed.words) == ("protocol", True)
        assert failed.may_have_taken_effect
    assert await said(connections, server, "echo", "hello") == "hello"


async def test_half_a_surrogate_pair_is_replaced(
    connections: McpConnections, server: McpServerConfig
) -> None:
    assert await said(connections, server, "half", "") == "half a pair: \ufffd"
    whole = "\U0001f600 \\ud83d"
    assert await said(connections, server, "echo", whole) == whole


async def test_one_odd_tool_does_not_cost_the_others(connections: McpConnections) -> None:
    with served("--pages", "odd") as port:
        listed = await connections.list_tools(config("streamable_http", port))
    problems = {
        tool.name: problem_of(
            OfferedTool(tool.name, tool.description, tool.input_schema, tool.problem)
        )
        for tool in listed
    }
    usable = ["echo", *MENDED_TOOLS]
    assert [name for name, problem in problems.items() if not problem] == usable
    assert problems["array"] == "its schema is of type 'array': arguments are an object"
    assert "`properties` of its schema" in problems["properties"]
    unusable = {"array", "list", "described", "properties", ""}
    assert set(problems) - set(usable) == unusable


async def test_a_call_that_hangs_does_not_hold_up_another(
    connections: McpConnections, server: McpServerConfig
) -> None:
    assert await said(connections, server, "echo", "hello") == "hello"
    hanging = asyncio.create_task(failure(connections, server, "hang", seconds=100 * CALL_SECONDS))
    for number in range(20):
        assert await said(connections, server, "echo", str(number)) == str(number)
    assert not hanging.done()
    hanging.cancel()
    late = await failure(connections, server, "hang", seconds=CALL_SECONDS)
    assert late.kind == "timeout"
    assert connections.health("one").failures == 0, "it answers, and was only too slow"


async def test_a_call_is_not_sent_twice_though_its_connection_is_lost(
    connections: McpConnections, port: int
) -> None:
    """TOOL-09: the answer is asked for again, by the id of the last event."""
    assert await said(connections, config("streamable_http", port), "resume", "") == "resumed"


@pytest.mark.parametrize(
    ("start", "kinds"),
    [
        ("crash", {"unreachable", "timeout"}),
        ("hang", {"timeout"}),
        ("garbage", {"unreachable", "protocol", "timeout"}),
        ("600", {"timeout"}),
    ],
)
async def test_a_server_that_does_not_say_hello_is_given_up_in_time(
    connections: McpConnections, start: str, kinds: set[str]
) -> None:
    """R30: crash in start, hang, garbage, a start of ten minutes."""
    with served("--start", start) as port:
        servers = [config("streamable_http", port, id="http")]
        if start != "garbage":  # over SSE it is a call that says garbage
            servers.append(config("sse", port, id="sse"))
        if not connections.processes.refusal():
            command = replace(config("stdio", port, id="stdio"))
            servers.append(replace(command, args=(*PROGRAM[1:], "--start", start)))
        for failed in await asyncio.gather(
            *[failure(connections, server, "echo", seconds=CALL_SECONDS) for server in servers]
        ):
            assert failed.kind in kinds
            assert not failed.may_have_taken_effect
    for server in servers:
        await connections.forget(server.id)
    await wait_for("their end", lambda: not children_of_pools(connections))


@pytest.mark.parametrize("pages", ["endless", "same"])
async def test_a_list_without_an_end_is_given_up(connections: McpConnections, pages: str) -> None:
    with served("--pages", pages) as port, pytest.raises(McpFailed) as failed:
        await connections.list_tools(config("streamable_http", port))
    assert failed.value.kind == "too_large"


async def test_nobody_there_is_tried_a_few_times_and_then_left_alone(
    connections: McpConnections, server: McpServerConfig
) -> None:
    """TOOL-08: after failures in a row nobody is asked for a while."""
    away = replace(server, url="http://127.0.0.1:1/")
    if server.transport == "stdio":
        away = replace(server, args=(*PROGRAM[1:], "--start", "crash"))
    for _ in range(FAILURES_MAX):
        with pytest.raises(McpFailed) as failed:
            await connections.list_tools(away)
        assert failed.value.kind in ("unreachable", "timeout")
    assert connections.health("one").state == "open"
    began = time.monotonic()
    with pytest.raises(McpFailed) as failed:
        await connections.list_tools(away)
    assert (failed.value.kind, time.monotonic() - began < 0.2) == ("breaker_open", True)
    assert await said(connections, replace(server, version=2), "echo", "new") == "new"
    assert connections.health("one").state == "healthy"


async def test_a_server_that_comes_back_is_found_again(connections: McpConnections) -> None:
    """TOOL-11: a dead server is noticed, and one that is back is used."""
    with served() as port:
        there = config("streamable_http", port)
        assert await said(connections, there, "echo", "one") == "one"
    assert (await failure(connections, there, "echo")).kind == "unreachable"
    assert connections.health("one").state == "failing"
    with served("--port", str(port)):
        assert await said(connections, there, "echo", "two") == "two"


async def test_a_server_that_was_started_anew_is_called_in_a_new_session(
    connections: McpConnections,
) -> None:
    """TOOL-11: that it knows the session no more is neither an answer nor a failure of a call."""
    with served() as port:
        there = config("streamable_http", port)
        assert await said(connections, there, "echo", "one") == "one"
    with served("--port", str(port), "--session", "two"):
        assert await said(connections, there, "echo", "two") == "two"
    with served("--port", str(port), "--session", "three"):
        assert {tool.name for tool in await connections.list_tools(there)} == set(TOOLS)
    assert connections.health("one").state == "healthy"


@pytest.mark.parametrize(
    ("code", "words", "status", "kind"),
    [
        (-32000, "the disk is full", None, AnsweredWithError),
        (-32001, "no such resource", None, AnsweredWithError),
        (-32000, "Connection closed", None, McpFailed),
        (-32001, "Request 'tools/call' timed out", None, McpFailed),
    ],
)
def test_a_code_of_the_sdk_is_a_servers_own_where_its_words_are(
    code: int, words: str, status: int | None, kind: type[McpFailed]
) -> None:
    assert type(failure_of(MCPError(code, words), status)) is kind


def test_a_session_is_lost_where_the_server_says_so() -> None:
    assert session_lost(MCPError(-32600, "Session terminated"), 404) is not None
    assert session_lost(MCPError(-32000, "Bad Request: No valid session ID provided"), 400)
    assert session_lost(MCPError(-32000, "Bad Request: Mcp-Session-Id header is required"), 400)
    assert session_lost(MCPError(-32601, "Not Found"), 404) is None
    assert session_lost(MCPError(-32000, "your session has no such cart"), 400) is None
    assert session_lost(MCPError(-32000, "there is no session of parliament"), None) is None


async def test_a_login_that_is_refused_is_said_and_not_shown(connections: McpConnections) -> None:
    with served("--token", "right") as port:
        for transport in ("streamable_http", "sse"):
            wrong = config(transport, port, headers={"Authorization": "Bearer wrong-secret"})
            for _ in range(FAILURES_MAX + 1):  # who may let it be used is never kept from asking
                failed = await failure(connections, replace(wrong, id=transport), "echo")
                assert failed.kind == "unauthorized"
            assert connections.health(transport).state == "failing"
            assert "wrong-secret" not in failed.words
            right = config(transport, port, headers={"Authorization": "Bearer right"}, version=2)
            assert await said(connections, replace(right, id=transport), "echo", "in") == "in"


async def test_a_server_that_repeats_a_secret_does_not_spread_it(
    connections: McpConnections, server: McpServerConfig
) -> None:
    """S12: neither in what a model reads, nor in the health of the server."""
    secret = "sesame-open-up"
    told = replace(server, headers={"Authorization": f"Bearer {secret}"}, env={"KEY": secret})
    outcome = await connections.call_tool(told, secret, {}, seconds=ANSWER_SECONDS)
    assert (outcome.status, outcome.text) == ("error", "it refused: unknown: ***")
    if server.transport == "stdio":
        return
    named = replace(told, url=f"http://{secret}.invalid/", id="named")
    assert secret not in (await failure(connections, named, "echo")).words
    assert secret not in connections.health("named").last_error


async def test_an_organisation_that_asks_for_everything_leaves_room_for_others(
    port: int,
) -> None:
    connections = new_connections()
    greedy = [
        connections.call_tool(
            config("streamable_http", port, id=f"server-{number % 20}"), "hang", {}, seconds=3
        )
        for number in range(300)
    ]
    tasks = [asyncio.create_task(call) for call in greedy]  # type: ignore[arg-type]
    await asyncio.sleep(0.5)
    other = config("streamable_http", port, id="other", org="another")
    outcome = await connections.call_tool(other, "echo", {"text": "me too"}, seconds=20)
    assert outcome.text == "me too"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await connections.close()


async def test_a_hundred_servers_at_once(port: int) -> None:
    """TOOL-18: each with a session of its own, however long a busy machine takes for a hundred."""
    connections = new_connections(connect_seconds=HUNDRED_SECONDS, call_seconds=HUNDRED_SECONDS)
    servers = [config("streamable_http", port, id=f"server-{number}") for number in range(100)]
    calls = [
        connections.call_tool(server, "echo", {"text": server.id}, seconds=HUNDRED_SECONDS)
        for server in servers
    ]
    assert [outcome.text for outcome in await asyncio.gather(*calls)] == [
        server.id for server in servers
    ]
    assert len(connections.pool.sessions) == 100
    await connections.close()


async def test_a_server_that_is_forgotten_is_known_no_more(
    connections: McpConnections, server: McpServerConfig
) -> None:
    await said(connections, server, "echo", "one")
    await connections.forget("one")
    assert connections.pool.sessions == {}
    assert connections.health("one").state == "unknown"
    await connections.forget("one")


async def test_private_addresses_are_asked_only_where_they_are_listed(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S10: the host that is listed works, its neighbour does not; S09: nor behind a redirect."""
    monkeypatch.setattr(checked_addresses, "look_up", lambda *_: ["127.0.0.1"])
    listed = new_connections(AddressGuard(frozenset({f"127.0.0.1:{port}"}), MCP_HOSTS))
    here = config("streamable_http", port)
    assert await said(listed, here, "echo", "here") == "here"
    with served() as neighbour:
        there = config("streamable_http", neighbour, id="two")
        assert "HEELER_MCP_HOSTS" in listed.refusal_of(there)
        assert (await failure(listed, there, "echo")).kind == "refused"
        local = replace(there, url=f"http://localhost:{neighbour}/mcp")
        assert "HEELER_MCP_HOSTS" in listed.refusal_of(local)
        named = replace(there, url=f"http://tools.example.com:{neighbour}/mcp")
        assert not listed.refusal_of(named), "a name is looked up when it is asked"
        assert (await failure(listed, named, "echo")).kind == "refused"
        with served("--to", f"http://127.0.0.1:{neighbour}/mcp") as redirecting:
            both = new_connections(AddressGuard(frozenset({f"127.0.0.1:{redirecting}"}), MCP_HOSTS))
            leads = replace(here, url=f"http://127.0.0.1:{redirecting}/redirect")
            assert (await failure(both, leads, "echo")).kind in ("protocol", "refused")
            await both.close()
    await listed.close()


@pytest.mark.parametrize("headers", [{"X-Key": "two\nlines"}, {"X-Key": "ключ"}, {"": "nameless"}])
async def test_a_header_that_cannot_be_sent_is_refused_at_once(
    connections: McpConnections, port: int, headers: dict[str, str]
) -> None:
    assert "header" in connections.refusal_of(config("sse", port, headers=headers))
