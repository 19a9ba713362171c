"""MCP servers: added, discovered, called, changed and deleted, with the servers in memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    UNPROCESSABLE,
    Accepted,
    Rejected,
)
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.mcp_servers import (
    DeleteMcpServer,
    ListMcpTools,
    McpConfigChanges,
    RefreshMcpServer,
    UpdateMcpServer,
    mcp_listing_deltas,
    sealed_fields,
)
from libs.contracts.tools.tools import CreateTool
from services.tools.adapters.mcp.ports import McpFailed, McpOutcome
from services.tools.domain.mcp_server import RETRY_SECONDS
from services.tools.engine.mcp_config_secrets import open_config
from tests.unit.tools.mcp_world import (
    ORG,
    OTHER_ORG,
    OTHER_SERVER,
    SERVER,
    URL,
    McpProcess,
    McpWorld,
    config,
    create,
    tool,
)
from tests.waiting import wait_for

FORECAST = tool("forecast", "The weather of tomorrow.")
CUSTOM = "tool-cccccccc-1111-4111-8111-111111111111"


@pytest.fixture
def world() -> McpWorld:
    made = McpWorld()
    made.connections.at(URL).tools = [FORECAST, tool("now")]
    return made


@pytest.fixture
def process(world: McpWorld) -> McpProcess:
    return McpProcess(world)


def refusal(reply: Accepted | Rejected, code: str, *words: str) -> None:
    assert isinstance(reply, Rejected), reply
    assert reply.code == code
    assert all(word in reply.reason for word in words), reply.reason


def tool_id(world: McpWorld, name: str = "forecast") -> str:
    return str(world.tools()[name]["id"])


async def test_a_server_is_there_at_once_and_its_tools_follow(
    world: McpWorld, process: McpProcess
) -> None:
    """API-13: discovery is a state: pending, then ready."""
    gate = asyncio.Event()
    world.connections.at(URL).broken = gate.wait

    reply = await process.tell(create(world))

    assert isinstance(reply, Accepted)
    assert (world.discovery()["status"], world.tools()) == ("pending", {})
    gate.set()
    await process.idle()
    assert world.discovery()["status"] == "ready"
    assert world.discovery()["report"]["added"] == ["forecast", "now"]
    assert world.story() == ["mcp_server.created", "mcp_server.tools_discovered"]
    row = world.tools()["forecast"]
    assert (row["tool_type"], row["tags"]) == ("external_mcp", ["mcp:weather"])
    assert row["fields"]["description"] == "The weather of tomorrow."
    assert row["json_schema"] == {
        "name": "forecast",
        "description": "The weather of tomorrow.",
        "parameters": {**FORECAST.input_schema, "required": []},
    }
    assert row["metadata_"]["mcp"]["server_id"] == SERVER
    assert world.server()["tools"] == {
        "forecast": row["id"],
        "now": tool_id(world, "now"),
    }


async def test_a_call_reaches_the_server_and_its_answer_the_caller(
    world: McpWorld, process: McpProcess
) -> None:
    """TOOL-13: the result of a call is integrated."""
    await process.done(create(world, auth_token="t0ken", headers={"X-Team": "a"}))
    server = world.connections.at(URL)
    server.answer = lambda name, arguments: McpOutcome(status="success", text="sunny " * 20_000)

    result = await process.call(tool_id(world), city="Paris")

    assert server.calls == [("forecast", {"city": "Paris"})]
    assert (result["status"], result["text"][:12]) == ("success", "sunny sunny ")
    assert len(result["text"]) < 51_000
    headers = world.connections.configs[-1].headers
    assert headers == {"X-Team": "a", "Authorization": "Bearer t0ken"}


async def test_secrets_stand_nowhere_in_plain(world: McpWorld, process: McpProcess) -> None:
    """S12: events and rows hold sealed texts, or none."""
    secrets = {
        "auth_token": "canary-token",
        "headers": {"X-Key": "canary-header"},
        "env": {"KEY": "canary-env"},
        "url": "https://weather.example.com/mcp?api_key=canary-url",
    }
    world.connections.at(str(secrets["url"])).tools = [FORECAST]
    await process.done(create(world, **secrets))

    stored = str([event.payload_json for event in world.schema.streams[SERVER]])
    assert "canary" not in stored
    assert "canary" not in json.dumps(world.server())
    assert world.discovery()["status"] == "ready"
    document = world.server()["document"]
    sealer = world.sealer
    assert sealer.open(document["auth_token"]) == "canary-token"
    assert sealer.open(document["custom_headers"]["X-Key"]) == "canary-header"
    assert sealer.open(document["server_url"]) == secrets["url"]


async def test_a_change_keeps_what_it_does_not_name(world: McpWorld, process: McpProcess) -> None:
    """API-13: a partial update keeps the other fields."""
    await process.done(create(world, auth_token="old", headers={"A": "1", "B": "2"}))
    fields = sealed_fields(world.sealer.seal, {"headers": {"A": "1", "C": "3"}})
    changes = McpConfigChanges.model_validate({"transport": "streamable_http", **fields})

    await process.done(UpdateMcpServer(server_id=SERVER, changes=changes))

    used = world.connections.configs[-1]
    assert used.headers == {"A": "1", "C": "3", "Authorization": "Bearer old"}
    assert (used.url, used.version) == (URL, 2)
    assert world.story()[2:] == ["mcp_server.changed", "mcp_server.tools_discovered"]
    other = McpConfigChanges(transport="stdio", command="/bin/x")
    reply = await process.tell(UpdateMcpServer(server_id=SERVER, changes=other))
    refusal(reply, INVALID, "mcp_server_type")


async def test_a_server_that_moves_makes_other_tools_of_its_own(
    world: McpWorld, process: McpProcess
) -> None:
    """S17: an approval of a call holds for the revision that was there."""
    await process.done(create(world))
    before = world.tools()["forecast"]["revision"]
    token = sealed_fields(world.sealer.seal, {"auth_token": "new"})
    kept = McpConfigChanges.model_validate({"transport": "streamable_http", **token})
    await process.done(UpdateMcpServer(server_id=SERVER, name="sky", changes=None))
    renamed = world.tools()["forecast"]["revision"]
    await process.done(UpdateMcpServer(server_id=SERVER, changes=kept))
    assert world.tools()["forecast"]["revision"] == renamed
    moved = McpConfigChanges(transport="streamable_http", url="https://else.where/mcp")
    world.connections.at("https://else.where/mcp").tools = [FORECAST, tool("now")]

    await process.done(UpdateMcpServer(server_id=SERVER, changes=moved))

    assert world.tools()["forecast"]["revision"] > renamed >= before
    assert (await process.call(tool_id(world)))["status"] == "success"


async def test_what_changes_nothing_is_no_event(world: McpWorld, process: McpProcess) -> None:
    await process.done(create(world))
    changes = McpConfigChanges(transport="streamable_http", url=URL)
    reply = await process.done(UpdateMcpServer(server_id=SERVER, name="weather", changes=changes))

    assert isinstance(reply, Accepted)
    assert len(world.story()) == 2


async def test_names_are_unique_in_an_organisation(world: McpWorld, process: McpProcess) -> None:
    await process.done(create(world))
    taken = await process.tell(create(world, server_id=OTHER_SERVER))
    refusal(taken, CONFLICT, "weather")
    elsewhere = await process.done(create(world, server_id=OTHER_SERVER), OTHER_ORG)
    assert isinstance(elsewhere, Accepted)


async def test_a_renamed_server_keeps_its_tools_which_say_its_new_name(
    world: McpWorld, process: McpProcess
) -> None:
    await process.done(create(world))
    before = tool_id(world)

    await process.done(UpdateMcpServer(server_id=SERVER, name="sky"))

    row = world.tools()["forecast"]
    assert (row["id"], row["tags"]) == (before, ["mcp:sky"])
    assert row["metadata_"]["mcp"]["server_name"] == "sky"
    assert world.connections.at(URL).lists == 1
    assert (await process.call(before))["status"] == "success"
    again = await process.done(create(world, server_id=OTHER_SERVER))
    assert isinstance(again, Accepted), "the old name is free"


async def test_a_deleted_server_takes_its_tools_along(world: McpWorld, process: McpProcess) -> None:
    await process.done(create(world))
    gone = tool_id(world)

    reply = await process.done(DeleteMcpServer(server_id=SERVER))

    assert isinstance(reply, Accepted)
    assert (world.tools(), world.schema.rows("mcp_servers")) == ({}, [])
    await wait_for("its session to end", lambda: world.connections.forgotten == [SERVER])
    assert world.schema.streams[gone][-1].topic == "tool.deleted"
    refusal(await process.tell(DeleteMcpServer(server_id=SERVER)), NOT_FOUND, SERVER)
    mine = ToolState(id=CUSTOM, source_code='def forecast():\n    """Mine."""\n')
    assert isinstance(await process.tell(CreateTool(tool=mine)), Accepted), "the name is free"


async def test_a_failed_discovery_says_why_and_is_attempted_again(
    world: McpWorld, process: McpProcess
) -> None:
    """API-13, TOOL-12: failed and why; retries with backoff, until it works."""
    server = world.connections.at(URL)
    server.broken = McpFailed("unreachable", "connection refused")
    await process.done(create(world))
    seen = world.discovery()
    assert (seen["status"], seen["kind"], seen["reason"]) == (
        "failed", "unreachable", "connection refused",
    )  # fmt: skip
    assert seen["attempts"] == 1

    await process.discoveries.sweep()
    assert not process.discoveries.tasks, "it is not due yet"
    world.clock.seconds += RETRY_SECONDS[0]
    await process.discoveries.sweep()
    await process.idle()
    assert world.discovery()["attempts"] == 2

    server.broken = None
    world.clock.seconds += RETRY_SECONDS[1]
    await process.discoveries.sweep()
    await process.idle()
    assert world.discovery()["status"] == "ready"
    assert set(world.tools()) == {"forecast", "now"}


async def test_retries_end_and_what_does_not_mend_is_not_retried(
    world: McpWorld, process: McpProcess
) -> None:
    server = world.connections.at(URL)
    server.broken = McpFailed("timeout", "too slow")
    await process.done(create(world))
    for _ in range(len(RETRY_SECONDS) + 3):
        world.clock.seconds += max(RETRY_SECONDS)
        await process.discoveries.sweep()
        await process.idle()
    assert world.discovery()["attempts"] == len(RETRY_SECONDS) + 1
    assert world.discovery()["retry_at"] is None

    server.broken = None
    server.tools.append(tool("new"))
    assert world.tools() == {}
    await process.done(RefreshMcpServer(server_id=SERVER))
    assert set(world.tools()) == {"forecast", "now", "new"}
    server.broken = McpFailed("unauthorized", "401")
    await process.done(RefreshMcpServer(server_id=SERVER))
    assert (world.discovery()["kind"], world.discovery()["retry_at"]) == ("unauthorized", None)


async def test_a_server_that_was_given_up_is_discovered_again_when_it_answers(
    world: McpWorld, process: McpProcess
) -> None:
    """TOOL-12: rediscovery when a server is back."""
    await process.done(create(world))
    server = world.connections.at(URL)
    server.broken = McpFailed("unreachable", "connection refused")
    await process.done(RefreshMcpServer(server_id=SERVER))
    for _ in range(len(RETRY_SECONDS)):
        world.clock.seconds += max(RETRY_SECONDS)
        await process.discoveries.sweep()
        await process.idle()
    assert world.discovery()["retry_at"] is None
    server.broken, server.tools = None, [FORECAST, tool("new")]

    assert (await process.call(tool_id(world)))["status"] == "success"

    assert world.discovery()["status"] == "ready"
    assert set(world.tools()) == {"forecast", "new"}


async def test_a_discovery_whose_process_died_is_made_by_another(world: McpWorld) -> None:
    dead, other = McpProcess(world), McpProcess(world, "tools-2")
    never = asyncio.Event()
    server = world.connections.at(URL)
    server.broken = never.wait
    await dead.tell(create(world))
    await wait_for("the question", lambda: world.connections.configs)
    await other.discoveries.sweep()
    assert not other.discoveries.tasks

    server.broken = None
    world.clock.seconds += 11
    await other.discoveries.sweep()
    await other.idle()

    assert world.discovery()["status"] == "ready"
    never.set()
    await dead.idle()
    assert world.story().count("mcp_server.tools_discovered") == 1


async def test_a_bug_in_asking_a_server_fails_its_discovery_with_pauses(
    world: McpWorld, process: McpProcess
) -> None:
    async def bug() -> None:
        raise ZeroDivisionError

    world.connections.at(URL).broken = bug
    await process.done(create(world))
    assert (world.discovery()["status"], world.discovery()["kind"]) == ("failed", "protocol")
    assert world.discovery()["retry_at"] is not None


async def test_a_dead_server_leaves_the_calls_of_others_alone(
    world: McpWorld, process: McpProcess
) -> None:
    """TOOL-12, TOOL-13: what fails is told in words, and the rest works."""
    other = "https://other.example.com/mcp"
    world.connections.at(other).tools = [tool("alive")]
    await process.done(create(world))
    await process.done(create(world, "other", OTHER_SERVER, url=other))
    world.connections.at(URL).broken = McpFailed("unreachable", "connection refused")

    dead, alive = await asyncio.gather(
        process.call(tool_id(world)), process.call(tool_id(world, "alive"))
    )

    assert (dead["status"], "connection refused" in dead["text"]) == ("error", True)
    assert alive["status"] == "success"


async def test_a_call_that_hangs_ends_at_its_deadline(world: McpWorld, process: McpProcess) -> None:
    """R30: nothing waits longer than its deadline."""
    await process.done(create(world))
    world.connections.at(URL).broken = asyncio.Event().wait

    result = await process.call(tool_id(world), seconds_max=0.05)

    assert (result["status"], "0.05 seconds" in result["text"]) == ("timeout", True)


async def test_a_server_that_may_not_be_connected_to_is_refused(
    world: McpWorld, process: McpProcess
) -> None:
    """S11: what is not on the list never becomes a server."""
    world.connections.refusal = "`command`: '/bin/sh' is not on the list"
    reply = await process.tell(create(world, transport="stdio", url="", command="/bin/sh"))
    refusal(reply, UNPROCESSABLE, "/bin/sh")
    assert world.story() == []

    world.connections.refusal = ""
    await process.done(create(world))
    world.connections.refusal = "not on the list any more"
    result = await process.call(tool_id(world))
    assert (result["status"], "any more" in result["text"]) == ("error", True)
    assert world.connections.at(URL).calls == []


async def test_another_organisation_sees_and_calls_nothing(
    world: McpWorld, process: McpProcess
) -> None:
    await process.done(create(world))
    for command in (
        RefreshMcpServer(server_id=SERVER),
        UpdateMcpServer(server_id=SERVER, name="mine"),
        DeleteMcpServer(server_id=SERVER),
        ListMcpTools(listing_id="mcp_listing-1", server_id=SERVER),
    ):
        refusal(await process.tell(command, OTHER_ORG), NOT_FOUND, SERVER)
    assert (await process.call(tool_id(world), OTHER_ORG))["status"] == "refused"
    assert len(world.story()) == 2


async def test_two_things_wanted_at_once_are_both_done(
    world: McpWorld, process: McpProcess
) -> None:
    gate = asyncio.Event()
    world.connections.at(URL).broken = gate.wait
    await process.tell(create(world))
    other = "https://other.example.com/mcp"
    world.connections.at(other).tools = [tool("elsewhere")]
    changes = McpConfigChanges(transport="streamable_http", url=other)
    await process.tell(UpdateMcpServer(server_id=SERVER, changes=changes))
    gate.set()
    await process.idle()

    assert set(world.tools()) == {"elsewhere"}
    assert world.discovery()["number"] == 2


async def test_a_list_of_tools_is_told_and_nothing_is_recorded(
    world: McpWorld, process: McpProcess
) -> None:
    told: list[Any] = []
    listing = "mcp_listing-dddddddd-1111-4111-8111-111111111111"
    await process.ports.bus.subscribe_deltas(
        mcp_listing_deltas(ORG, listing), lambda _, sent: told.append(json.loads(sent))
    )
    await process.done(ListMcpTools(listing_id=listing, name="new", config=config(world)))
    await process.done(
        ListMcpTools(listing_id=listing, name="new", config=config(world, url="https://no.where"))
    )

    await wait_for("both answers", lambda: len(told) == 2)
    assert [tool["name"] for tool in told[0]["tools"]] == ["forecast", "now"]
    assert told[1]["failed"]["kind"] == "unreachable"
    assert world.connections.forgotten == [listing, listing]
    assert (world.tools(), world.schema.rows("mcp_servers")) == ({}, [])


async def test_another_process_ends_its_session_when_a_server_changes(world: McpWorld) -> None:
    one, other = McpProcess(world), McpProcess(world, "tools-2")
    await one.done(create(world))
    await other.call(tool_id(world))
    other.sessions.changed_somewhere()
    await wait_for("the look", lambda: other.sessions.looking and other.sessions.looking.done())
    assert world.connections.forgotten == []

    await one.done(DeleteMcpServer(server_id=SERVER))
    other.sessions.changed_somewhere()
    both = [SERVER, SERVER]
    await wait_for("the end of both sessions", lambda: world.connections.forgotten == both)


async def test_a_look_at_others_ends_no_session_that_began_meanwhile(
    world: McpWorld, process: McpProcess
) -> None:
    """Servers that are made one after the other, and one that is only tried."""
    await process.done(create(world))
    known, look, looked = process.sessions.queries.versions, asyncio.Event(), asyncio.Event()

    async def slow(orgs: list[str], server_ids: list[str]) -> dict[str, int]:
        versions = await known(orgs, server_ids)
        looked.set()
        await look.wait()
        return versions

    process.sessions.queries.versions = slow  # type: ignore[method-assign]
    process.sessions.changed_somewhere()
    await looked.wait()
    await process.done(create(world, "other", OTHER_SERVER))
    tried = open_config(
        world.sealer, config(world), server_id="mcp_listing-1", org=ORG, name="new", version=1
    )
    process.sessions.connections_for(tried)
    look.set()
    process.sessions.changed_somewhere()
    await wait_for("the look", lambda: process.sessions.looking and process.sessions.looking.done())

    assert world.connections.forgotten == []
    assert set(process.sessions.known) == {SERVER, OTHER_SERVER}
