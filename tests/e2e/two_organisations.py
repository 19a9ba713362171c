"""An api that knows two organisations by the keys of their requests, and what one of them has."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import nats

from libs.bus.service_runner import running
from libs.bus.service_settings import ServiceSettings
from libs.encryption.sealer import Sealer
from services.api.app import wire
from services.api.http.callers import AnyConnection, Caller
from services.api.http.error_responses import Problem
from services.api.projections import project
from services.api.settings import ApiSettings
from tests.e2e.asking import EMBEDDING, MODEL, NOBODY, SDK_HEADERS, says, unique
from tests.mcp_servers.changing import changing_server
from tests.ports import free_port
from tests.servers import HeelerInstance
from tests.waiting import wait_for

SECONDS_MAX = 30.0
OWNER, STRANGER = (
    Caller(f"org-{letter * 8}-0000-4000-8000-000000000000", f"user-{letter * 8}-0000-4000-8000-0")
    for letter in "ab"
)
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
WORD = "zanzibar"  # stands in everything that the owner has, and nowhere else


class ByKey:
    """Authenticates the two callers by a bearer key, and nobody else."""

    async def authenticate(self, connection: AnyConnection) -> Caller:
        for caller in (OWNER, STRANGER):
            if connection.headers.get("authorization") == f"Bearer key of {caller.org}":
                return caller
        raise Problem(401, {"detail": "Unauthorized"})


@asynccontextmanager
async def api_of_two(heeler: HeelerInstance) -> AsyncIterator[str]:
    """The address of one more api beside those of this Heeler."""
    port = free_port()
    environment = heeler.service_command("api", port=port).environment
    wiring = partial(
        wire,
        settings=ApiSettings.from_environment(environment),
        sealer=Sealer.from_environment(environment),
        authenticator=ByKey(),
    )
    settings = ServiceSettings.from_environment(environment)
    async with running("api", settings, project, wiring):
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def client_of(base_url: str, caller: Caller) -> AsyncIterator[httpx.AsyncClient]:
    """Bare HTTP with the key of a caller."""
    headers = {**SDK_HEADERS, "authorization": f"Bearer key of {caller.org}"}
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=SECONDS_MAX) as client:
        yield client


async def made(client: httpx.AsyncClient, method: str, path: str, **how: Any) -> Any:
    """The JSON of an answer that is no error."""
    answer = await client.request(method, path, **how)
    assert answer.status_code < 400, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


@asynccontextmanager
async def belongings(
    heeler: HeelerInstance, client: httpx.AsyncClient
) -> AsyncIterator[dict[str, str]]:
    """One of each kind of thing, made by this client: what each parameter of a path may name."""
    with changing_server() as mcp_server:
        names = await agent_and_what_it_has(client)
        names |= await conversation_of(client, names["agent_id"])
        names |= await batch_of(client, names["agent_id"])
        names |= await what_mcp_offers(client, mcp_server.url)
        names |= await sandbox_of(client)
        names |= await group_of(client, names["agent_id"])
        names |= await identity_and_project_of(client, names["agent_id"])
        names |= await template_of(client, names["agent_id"], names["project_id"])
        names |= await schedule_of(client, names["agent_id"])
        names |= await import_of(client)
        names |= await fleet_of(client)
        names["letter_id"] = await letter_of(heeler, client)
        try:
            yield names
        finally:  # health counts the letters of all organisations
            await client.delete(f"/v1/admin/dead-letters/{names['letter_id']}")


async def agent_and_what_it_has(client: httpx.AsyncClient) -> dict[str, str]:
    """An agent with a tool, a folder with a file, an archive with a passage, and a block."""
    folder = await made(client, "POST", "/v1/folders", json={"name": unique(WORD)})
    file = await made(
        client,
        "POST",
        f"/v1/folders/{folder['id']}/upload",
        files={"file": (f"{WORD}.txt", f"All about {WORD}".encode(), "text/plain")},
    )
    tool_name = f"roll_{unique(WORD).replace('-', '_')}"
    source = f'def {tool_name}() -> str:\n    """Roll a die."""\n    return "{WORD}"\n'
    tool = await made(client, "POST", "/v1/tools", json={"source_code": source})
    agent = await made(
        client,
        "POST",
        "/v1/agents",
        json={
            "name": unique(WORD),
            "model": MODEL,
            "embedding": EMBEDDING,
            "tags": [WORD],
            "memory_blocks": [{"label": "human", "value": f"From {WORD}"}],
            "tool_ids": [tool["id"]],
            "folder_ids": [folder["id"]],
            "secrets": {"KEY": WORD},
        },
    )
    agent_path = f"/v1/agents/{agent['id']}"
    archive = await made(client, "POST", "/v1/archives", json={"name": unique(WORD)})
    archive_path = f"/v1/archives/{archive['id']}"
    passage = await made(client, "POST", f"{archive_path}/passages", json={"text": WORD})
    await made(client, "PATCH", f"{agent_path}/archives/attach/{archive['id']}")
    await made(client, "POST", f"{agent_path}/tools/{tool_name}/run", json={"args": {}})
    [tool_run] = await made(client, "GET", "/v1/tool-runs")
    [block] = agent["blocks"]
    await made(client, "PUT", f"{agent_path}/permissions", json={"tools": [tool_name]})
    applied = {"file": f"{WORD}.toml", "fingerprint": WORD, "status": "applied"}
    await made(client, "PUT", f"{agent_path}/configuration", json=applied)
    await made(client, "PUT", "/v1/permissions/tools", json={"tools": [tool_name]})

    await made(client, "PUT", f"{agent_path}/capabilities/{WORD}")
    await made(client, "PUT", f"/v1/topics/{WORD}/subscribers/{agent['id']}")
    sent = {"pattern": "publish", "topic": WORD, "input": "SAY:hello"}
    message = await made(client, "POST", "/v1/routing/messages", json=sent)
    routed = {"capability": WORD, "topic": WORD, "routed_message_id": message["id"]}

    async def is_read() -> bool:
        return bool(await made(client, "GET", f"/v1/folders/{folder['id']}/passages"))

    await wait_for("the file has passages", is_read)
    return {
        "agent_id": agent["id"],
        **routed,
        "archive_id": archive["id"],
        "block_id": block["id"],
        "file_id": file["id"],
        "folder_id": folder["id"],
        "folder_name": folder["name"],
        "memory_id": passage["id"],
        "passage_id": passage["id"],
        "source_id": folder["id"],
        "tool_id": tool["id"],
        "tool_name": tool_name,
        "tool_run_id": tool_run["id"],
    }


async def conversation_of(client: httpx.AsyncClient, agent_id: str) -> dict[str, str]:
    """A conversation beside the agent's own, and a run in the background in each."""
    conversation = await made(client, "POST", f"/v1/conversations?agent_id={agent_id}", json={})
    said = {"messages": says(f"SAY:{WORD}")}
    await made(client, "POST", f"/v1/agents/{agent_id}/messages", json=said)
    run = await made(client, "POST", f"/v1/agents/{agent_id}/messages/async", json=said)
    path = f"/v1/runs/{run['id']}"

    async def is_over() -> bool:
        return bool((await made(client, "GET", path))["status"] == "completed")

    await wait_for("the run is over", is_over)
    [step] = await made(client, "GET", f"{path}/steps")
    replay = await made(client, "POST", f"{path}/replay", json={})
    message, *_ = await made(client, "GET", f"{path}/messages")
    return {
        "conversation_id": conversation["id"],
        "message_id": message["id"],
        "replay_id": replay["id"],
        "run_id": run["id"],
        "step_id": step["id"],
    }


async def identity_and_project_of(client: httpx.AsyncClient, agent_id: str) -> dict[str, str]:
    """An identity and a project of an agent."""
    body = {"identifier_key": WORD, "name": WORD, "identity_type": "user", "agent_ids": [agent_id]}
    identity = await made(client, "POST", "/v1/identities", json=body)
    project = await made(client, "POST", "/v1/projects", json={"name": WORD, "tags": [WORD]})
    path = f"/v1/projects/{project['id']}/agents"
    await made(client, "POST", path, json={"agent_ids": [agent_id]})
    return {"identity_id": identity["id"], "project_id": project["id"]}


async def template_of(client: httpx.AsyncClient, agent_id: str, project_id: str) -> dict[str, str]:
    """A template of an agent in a project, and an agent that was made from it."""
    body = {"type": "agent", "agent_id": agent_id, "name": unique(WORD)}
    path = f"/v1/templates/{project_id}"
    name = (await made(client, "POST", path, json=body))["name"]
    deployment = await made(client, "POST", f"{path}/{name}/agents", json={})
    names = dict.fromkeys(("template_name", "template_version", "name"), name)
    return {**names, "deployment_id": deployment["deployment_id"]}


async def import_of(client: httpx.AsyncClient) -> dict[str, str]:
    """An import of a file that has no agent."""
    file = {"file": (f"{WORD}.af", b"{}")}
    await client.post("/v1/agents/import", files=file)
    [found] = await made(client, "GET", "/v1/imports")
    return {"import_id": found["id"]}


async def fleet_of(client: httpx.AsyncClient) -> dict[str, str]:
    """A fleet of an agent that an apply has made, which has ended."""
    fields = {"key": unique(WORD), "name": WORD, "origin": f"/srv/{WORD}"}
    fleet = await made(client, "POST", "/v1/fleets", json=fields)
    path = f"/v1/fleets/{fleet['id']}"
    plan = await made(client, "POST", f"{path}/plans", json=wanted_agent(unique(WORD)))
    apply = await applied(client, fleet["id"], plan["id"])
    assert apply["counts"] == {"created": 1}
    return {"fleet_id": fleet["id"], "plan_id": plan["id"], "apply_id": apply["id"]}


def wanted_agent(name: str, **how: Any) -> dict[str, Any]:
    """What files want that describe one agent."""
    file = f"{WORD}.toml"
    fields = {"model": MODEL, "system": f"You are from {WORD}."}
    agent = {"name": name, "key": file, "file": file, "fields": fields}
    return {"agents": [agent], "present": {file: name}, "folders": [""], **how}


async def applied(client: httpx.AsyncClient, fleet_id: str, plan_id: str) -> Any:
    """An apply of a plan, once it has ended."""
    path = f"/v1/fleets/{fleet_id}/applies"
    apply = await made(client, "POST", path, json={"plan_id": plan_id, "by": WORD})

    async def ended() -> Any:
        found = await made(client, "GET", f"{path}/{apply['id']}")
        return found if found["status"] != "running" else None

    return await wait_for("the apply is over", ended)


async def batch_of(client: httpx.AsyncClient, agent_id: str) -> dict[str, str]:
    """A batch that has ended, whose item was answered."""
    path = f"/v1/agents/{agent_id}/messages/batch"
    batch = await made(client, "POST", path, json={"items": [f"SAY:{WORD}"]})

    async def is_over() -> bool:
        found = await made(client, "GET", f"{path}/{batch['id']}")
        return found["completed_at"] is not None

    await wait_for("the batch is over", is_over)
    return {"batch_id": batch["id"]}


async def what_mcp_offers(client: httpx.AsyncClient, url: str) -> dict[str, str]:
    """An MCP server with a tool."""
    config = {"mcp_server_type": "streamable_http", "server_url": url}
    fields = {"server_name": unique(WORD), "config": config}
    server = await made(client, "POST", "/v1/mcp-servers", json=fields)
    [tool, *_] = await made(client, "GET", f"/v1/mcp-servers/{server['id']}/tools")
    return {
        "mcp_server_id": server["id"],
        "mcp_server_name": server["server_name"],
        "mcp_tool_id": tool["id"],
        "mcp_tool_name": tool["name"],
    }


async def sandbox_of(client: httpx.AsyncClient) -> dict[str, str]:
    """The settings of a sandbox with a variable."""
    config = await made(client, "POST", "/v1/sandbox-config/local", json={"venv_name": WORD})
    path = f"/v1/sandbox-config/{config['id']}/environment-variable"
    variable = await made(client, "POST", path, json={"key": WORD, "value": WORD})
    return {"sandbox_config_id": config["id"], "env_var_id": variable["id"]}


async def group_of(client: httpx.AsyncClient, agent_id: str) -> dict[str, str]:
    """A group of an agent."""
    fields = {"name": WORD, "agent_ids": [agent_id], "shared_state": {"word": WORD}}
    group = await made(client, "POST", "/v1/agent-groups", json=fields)
    path = f"/v1/groups/{group['id']}/messages/async"
    run = await made(client, "POST", path, json={"messages": says(f"SAY:{WORD}")})
    return {"group_id": group["id"], "group_run_id": await ended_run_of(client, run)}


async def ended_run_of(client: httpx.AsyncClient, run: dict[str, Any]) -> str:
    """The id of a run of a group, once it has ended."""
    path = f"/v1/groups/{run['group_id']}/runs/{run['id']}"

    async def ended() -> bool:
        return bool((await made(client, "GET", path))["status"] == "completed")

    await wait_for("the run of the group", ended)
    return str(run["id"])


async def schedule_of(client: httpx.AsyncClient, agent_id: str) -> dict[str, str]:
    """A schedule of an agent, which is never due while tests run."""
    fields = {"message": WORD, "schedule_type": "recurring", "recurrence_rule": "0 0 29 2 *"}
    path = f"/v1/agents/{agent_id}/schedule"
    schedule = await made(client, "POST", path, json={**fields, "name": WORD})
    return {"scheduled_message_id": schedule["id"]}


async def letter_of(heeler: HeelerInstance, client: httpx.AsyncClient) -> str:
    """A message of the client's organisation that no process can read."""
    bus = await nats.connect(heeler.nats_url)
    subject = f"agent.command.agent.update.{OWNER.org}.{WORD}"
    payload = json.dumps({"how": WORD}).encode()
    await bus.publish(
        subject, payload, headers={"ce-id": unique("message"), "heeler-org": OWNER.org}
    )
    await bus.close()

    async def letters() -> Any:
        return await made(client, "GET", "/v1/admin/dead-letters")

    [letter] = await wait_for("it is parked", letters)
    return str(letter["id"])


def nobodys(names: Mapping[str, str]) -> dict[str, str]:
    """Names like these that nothing has."""
    return {
        parameter: UUID.sub(NOBODY, name) if UUID.search(name) else "nothing_like_it"
        for parameter, name in names.items()
    }
