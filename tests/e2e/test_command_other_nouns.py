"""`heeler mcp`, `models`, `identities` and `projects` against a server."""

from __future__ import annotations

import httpx

from cli.exit_codes import ExitCode
from tests.e2e.asking import EMBEDDING, MODEL, unique
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand
from tests.mcp_servers.changing import changing_server, tool
from tests.servers import wait_until

SECONDS_MAX = 30.0


def test_models_are_listed_by_their_handles(heeler_command: HeelerCommand) -> None:
    assert MODEL in heeler_command("models", "list", "-q").out.splitlines()
    assert EMBEDDING in heeler_command("models", "list", "--embedding", "-q").out.splitlines()
    assert heeler_command.json("models", "list", "--provider", "nobody") == []


def test_an_mcp_server_is_added_refreshed_and_deleted(
    heeler_command: HeelerCommand, http: httpx.Client
) -> None:
    name, forecast = unique("weather"), unique("forecast").replace("-", "_")
    with changing_server() as weather:
        weather.tools = [tool(forecast)]
        added = heeler_command.json("mcp", "add", name, "--url", weather.url)
        path = f"/v1/mcp-servers/{added['id']}"
        wait_until(
            "its tools are known",
            lambda: http.get(path).json()["discovery"]["status"] == "ready",
            SECONDS_MAX,
        )
        assert [entry["name"] for entry in heeler_command.json("mcp", "tools", name)] == [forecast]
        weather.tools = []
        assert heeler_command.json("mcp", "refresh", name)["deleted"] == [forecast]
    assert "ready" in heeler_command("mcp", "get", name).out
    assert name in heeler_command("mcp", "list").out
    heeler_command("mcp", "delete", name, "--yes")
    assert http.get(path).status_code == 404


def test_an_mcp_server_that_is_a_program_must_be_one_that_is_listed(
    heeler_command: HeelerCommand,
) -> None:
    words = ("--command", "/bin/true", "--arg", "x", "--env", "A=b")
    refused = heeler_command.run("mcp", "add", unique("program"), *words)
    assert refused.code == ExitCode.REFUSED
    assert "HEELER_MCP_COMMANDS" in refused.err


def test_an_mcp_server_on_the_web_has_its_headers_and_token(
    heeler_command: HeelerCommand, http: httpx.Client
) -> None:
    name = unique("web")
    words = ("--url", "https://mcp.example.com/mcp", "--header", "X-Team=a", "--token")
    added = heeler_command.json("mcp", "add", name, *words, input="secret\n")
    document = http.get(f"/v1/mcp-servers/{added['id']}").json()
    assert document["custom_headers"] == {"X-Team": "a"}
    assert document["auth_token"] == "Bearer secret"
    heeler_command("mcp", "delete", name, "--yes")
    for wrong in (
        (),
        ("--url", "https://a", "--command", "b"),
        ("--url", "https://a", "--header", "x"),
    ):
        assert heeler_command.run("mcp", "add", name, *wrong).code == ExitCode.USAGE


def test_an_identity_is_made_shown_and_deleted(
    heeler_command: HeelerCommand, http: httpx.Client
) -> None:
    key = unique("user")
    made = heeler_command.json("identities", "create", key, "--name", "Ada", "--type", "org")
    assert (made["identifier_key"], made["identity_type"]) == (key, "org")
    assert heeler_command.json("identities", "get", key)["name"] == "Ada"
    assert key in heeler_command("identities", "list").out
    heeler_command("identities", "delete", key, "--yes")
    assert http.get(f"/v1/identities/{made['id']}").status_code == 404


def test_a_project_has_agents_and_is_deleted_with_them_or_without(
    heeler_command: HeelerCommand, new_agent: NewAgent, http: httpx.Client
) -> None:
    agent, name = new_agent(name=unique("ada")), unique("project")
    made = heeler_command.json("projects", "create", name, "--description", "Mine", "--tag", "a")
    assert (made["description"], made["tags"]) == ("Mine", ["a"])
    heeler_command("projects", "add", name, agent.name)
    agents = f"/v1/projects/{made['id']}/agents"
    assert [entry["id"] for entry in http.get(agents).json()] == [agent.id]
    heeler_command("projects", "remove", name, agent.name)
    assert http.get(agents).json() == []
    heeler_command("projects", "add", name, agent.name)
    assert name in heeler_command("projects", "list").out
    assert heeler_command.json("projects", "get", made["id"])["name"] == name
    heeler_command("projects", "delete", name, "--agents", "--yes")
    assert http.get(f"/v1/projects/{made['id']}").status_code == 404
    wait_until(
        "its agent is gone",
        lambda: http.get(f"/v1/agents/{agent.id}").status_code == 404,
        SECONDS_MAX,
    )
