"""The valid requests that the fuzzer begins with: every operation, and the recorded ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx

from libs.contracts.letta import all_request_bodies
from services.api.app import HANDLERS
from services.api.openapi.operation import Description
from tests.fuzz.mutations import Request, field_names

RECORDED = Path(__file__).parent.parent / "recorded"
MODEL = "openai/gpt-4o-mini"
AGENT: dict[str, Any] = {
    "name": "fuzzed",
    "model": MODEL,
    "system": "Be kind.",
    "memory_blocks": [{"label": "human", "value": "Ada"}, {"label": "persona", "value": "Kind"}],
    "tags": ["a", "b"],
    "metadata": {"colour": "red", "deep": {"list": [1, 2.5, None]}},
    "description": "An agent",
    "timezone": "Europe/Berlin",
}
LLM_CONFIG: dict[str, Any] = {
    "model": "gpt-4o-mini",
    "model_endpoint_type": "openai",
    "context_window": 128_000,
    "handle": MODEL,
    "temperature": 0.5,
    "max_tokens": 1_000,
}
MESSAGES: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "hi", "otid": None, "name": "n", "sender_id": "s"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
    ],
    "max_steps": 3,
}
BLOCK: dict[str, Any] = {
    "label": "note",
    "value": "text",
    "limit": 5_000,
    "description": "A block",
    "metadata": {"a": 1},
    "tags": ["x"],
}
TOOL_SOURCE = 'def roll(sides: int):\n    """Roll.\n\n    Args:\n        sides: how many\n    """\n'
TOOL: dict[str, Any] = {
    "source_code": TOOL_SOURCE,
    "source_type": "python",
    "description": "Rolls",
    "tags": ["dice"],
    "json_schema": {
        "name": "roll",
        "description": "Roll.",
        "parameters": {"type": "object", "properties": {"sides": {"type": "integer"}}},
    },
    "args_json_schema": {"properties": {"sides": {"type": "integer"}}},
    "pip_requirements": [{"name": "numpy", "version": "2.0.0"}],
    "return_char_limit": 100,
    "default_requires_approval": False,
}
# Nothing listens there: each question is answered at once.
MCP_CONFIG = {
    "mcp_server_type": "streamable_http",
    "server_url": "http://127.0.0.1:9/mcp",
    "auth_header": "Authorization",
    "auth_token": "Bearer x",
    "custom_headers": {"X-Team": "a"},
}
MCP_SERVER = {"server_name": "weather", "config": MCP_CONFIG}
NAMED_MCP_SERVER = {
    "server_name": "other",
    "type": "sse",
    "server_url": "http://127.0.0.1:9/sse",
    "auth_token": "x",
}
LOCAL_SANDBOX = {
    "sandbox_dir": "/tmp",
    "use_venv": True,
    "venv_name": "venv",
    "pip_requirements": [{"name": "numpy", "version": "2.0.0"}],
}
SCHEDULE = {
    "message": "hi",
    "schedule_type": "recurring",
    "recurrence_rule": "0 0 29 2 *",
    "timezone": "Europe/Berlin",
}
IDENTITY = {
    "identifier_key": "ada",
    "name": "Ada",
    "identity_type": "user",
    "project_id": None,
    "agent_ids": [],
    "block_ids": [],
    "properties": [{"key": "language", "value": "de", "type": "string"}],
}
PROJECT = {"name": "voyage", "description": "d", "tags": ["a"], "owner_id": "user-1"}
SNAPSHOT = {
    "type": "classic",
    "version": "1",
    "agents": [
        {
            "entityId": "agent-1",
            "model": MODEL,
            "systemPrompt": "Be kind.",
            "toolVariables": {"version": "1", "data": [{"key": "KEY", "type": "string"}]},
            "properties": {"max_tokens": 1_000, "temperature": 0.5},
        }
    ],
    "blocks": [{"entityId": "block-1", "label": "human", "value": "Called {{name}}"}],
    "relationships": [{"agentEntityId": "agent-1", "blockEntityId": "block-1"}],
    "configuration": {"maxTurns": 3},
}
OF_DEPLOYMENT = {
    "template_id": "template-1",
    "base_template_id": "template-2",
    "deployment_id": "deployment-1",
}
TEMPLATE_AGENT = {"type": "agent", "agent_id": "agent-00000000-0000-4000-8000-000000000000"}
SAVED = {"message": "m", "migrate_agents": True, "block_reconciliation_strategy": "reconcile-all"}
FILE = "ada.toml"
WANTED = {
    "agents": [
        {
            "name": "planned",
            "key": FILE,
            "file": FILE,
            "fields": {"model": MODEL, "system": "Be kind.", "secrets": {"KEY": "x"}},
            "metadata": {"a": 1},
            "blocks": [{"label": "human", "value": "Ada"}, {"label": "house", "shared": True}],
            "own_tools": [{"name": "roll", "source_code": TOOL_SOURCE}],
            "mcp_servers": [{"name": "sky", "config": MCP_CONFIG}],
            "schedules": [{"name": "daily", "fields": SCHEDULE}],
            "groups": [{"group": "team"}],
            "approvals": {"roll": True},
        }
    ],
    "rejected": [{"key": "b.toml", "file": "b.toml", "fingerprint": "1", "problems": []}],
    "present": {FILE: "planned"},
    "folders": [""],
    "prune_max": 1,
}
BODIES: dict[str, list[Any]] = {
    "create_fleet": [{"key": "k", "name": "shop", "origin": "/srv"}],
    "plan_fleet_changes": [
        {},
        WANTED,
        {**WANTED, "adopt": True, "reset_memory": ["planned"]},
        {"undo": "apply-00000000-0000-4000-8000-000000000000"},
    ],
    "apply_fleet_plan": [{"plan_id": "plan-00000000-0000-4000-8000-000000000000", "by": "ada"}],
    "create_template": [TEMPLATE_AGENT, {"type": "agent_file", "agent_file": {"agents": []}}],
    "create_template_in_project": [TEMPLATE_AGENT],
    "update_template": [{"agent_file_json": {"agents": []}, "save_existing_changes": True}],
    "update_template_in_project": [{"agent_file_json": {"agents": []}}],
    "save_version": [SAVED],
    "save_version_in_project": [{}],
    "roll_back_template": [{"version": "1"}, {"version": "latest"}],
    "roll_back_template_in_project": [{"version": "1"}],
    "replace_snapshot": [SNAPSHOT],
    "fork_template": [{}],
    "rename_template": [{"new_name": "x"}],
    "describe_template": [{"description": "x"}],
    "migrate_deployment": [{"version": "1", "memory_variables": {"name": "Ada"}}],
    "create_agents_from_template": [
        {"agent_name": "n", "tags": ["a"], "tool_variables": {"KEY": "x"}},
        {"memory_variables": {"name": "Ada"}, "initial_message_sequence": MESSAGES["messages"]},
    ],
    "create_agents_from_template_in_project": [{}],
    "create_template_agent": [{**AGENT, **OF_DEPLOYMENT, "entity_id": "a"}],
    "create_template_block": [{**BLOCK, **OF_DEPLOYMENT, "entity_id": "b"}],
    "create_template_blocks": [[{**BLOCK, **OF_DEPLOYMENT, "entity_id": "b"}]],
    "create_template_group": [{"description": "g", "agent_ids": [], **OF_DEPLOYMENT}],
    "create_project": [PROJECT],
    "update_project": [PROJECT],
    "add_agents_to_project": [{"agent_ids": ["agent-00000000-0000-4000-8000-000000000000"]}],
    "create_identity": [IDENTITY],
    "upsert_identity": [IDENTITY],
    "update_identity": [IDENTITY],
    "upsert_properties": [IDENTITY["properties"]],
    "create_mcp_server": [
        MCP_SERVER,
        {"server_name": "s", "config": {"mcp_server_type": "stdio", "command": "x", "args": []}},
    ],
    "update_mcp_server": [{"server_name": "sky", "config": MCP_CONFIG}],
    "run_tool_of_mcp_server": [{"args": {"city": "Rome"}}],
    "add_mcp_server": [NAMED_MCP_SERVER],
    "update_mcp_server_by_name": [{"server_name": "sky", "token": "x", "custom_headers": {}}],
    "make_mcp_prompt": [{"name": "greet", "arguments": {"who": "Ada"}}],
    "execute_mcp_tool": [{"args": {"city": "Rome"}}],
    "test_mcp_server": [NAMED_MCP_SERVER],
    "connect_described_mcp_server": [NAMED_MCP_SERVER],
    "create_sandbox_config": [{"config": LOCAL_SANDBOX}, {"config": {"template": "x"}}],
    "create_custom_local_sandbox_config": [LOCAL_SANDBOX],
    "update_sandbox_config": [{"config": LOCAL_SANDBOX}],
    "create_sandbox_env_var": [{"key": "API_KEY", "value": "x", "description": "y"}],
    "update_sandbox_env_var": [{"key": "OTHER", "value": "x"}],
    "create_agent": [
        AGENT,
        {**AGENT, "llm_config": LLM_CONFIG, "model": None},
        {
            **AGENT,
            "model_settings": {"provider_type": "openai", "temperature": 0.1},
            "compaction_settings": {"model": MODEL, "sliding_window_percentage": 0.3},
            "response_format": {"type": "json_schema", "json_schema": {"name": "x"}},
            "initial_message_sequence": MESSAGES["messages"],
        },
    ],
    "create_archive": [{"name": "a", "description": "d"}],
    "change_archive_embedding": [{"embedding": "letta/letta-free"}],
    "change_folder_embedding": [{"embedding": "letta/letta-free"}],
    "update_archive": [{"name": "b", "description": None}],
    "create_agent_passage": [{"text": "Likes tea", "tags": ["a"], "created_at": "2026-01-01"}],
    "create_passage": [{"text": "Likes tea", "tags": ["a"], "metadata": {"a": 1}}],
    "create_passages": [{"passages": [{"text": "Likes tea"}, {"text": "b", "tags": []}]}],
    "search_passages": [{"query": "tea", "tags": ["a"], "limit": 5}],
    "update_agent": [{"name": "other"}, {**AGENT, "llm_config": LLM_CONFIG}, {"tags": ["c"]}],
    "create_block": [BLOCK],
    "update_block": [BLOCK, {"value": "other"}],
    "update_agent_block": [BLOCK, {"value": "other"}],
    "send_message": [MESSAGES, {"input": "hi"}],
    "stream_message": [MESSAGES, {"input": "hi", "stream_tokens": True, "background": True}],
    "send_message_async": [MESSAGES],
    "cancel_runs": [{}, {"run_ids": []}],
    "resume_stream": [{"starting_after": 0}],
    "update_conversation": [{"summary": "other"}],
    "send_conversation_message": [MESSAGES, {"input": "hi", "streaming": False}],
    "resume_conversation_stream": [{"starting_after": 0}],
    "preview_conversation_request": [MESSAGES],
    "preview_model_request": [MESSAGES],
    "search_all_messages": [{"query": "hi"}],
    "search_messages": [{"query": "hi"}],
    "rate_step": [{"feedback": "positive"}],
    "replay_run": [{"from_step": 1, "mode": "recorded"}, {"model": MODEL, "background": True}],
    "create_tool": [TOOL, {"source_code": TOOL_SOURCE}],
    "upsert_tool": [TOOL, {"source_code": TOOL_SOURCE}],
    "update_tool": [{"source_code": TOOL_SOURCE, "metadata": {"a": 1}}, {"tags": ["b"]}],
    "search_tools": [{"query": "roll dice", "tool_types": ["custom"], "tags": ["dice"]}],
    "generate_json_schema": [{"code": TOOL_SOURCE}],
    "undo_block_change": [{"to_version": 1}, {}],
    "create_native_agent": [
        {
            "name": "ada",
            "system_prompt": "You are kind.",
            "model": MODEL,
            "tags": ["a"],
            "memory": [{"label": "human", "value": "Ada"}],
            "metadata": {"a": 1},
        },
    ],
    "send_native_message": [{"message": "hi"}],
    "report_configuration": [
        {"file": "ada.toml", "fingerprint": "1", "status": "applied"},
        {
            "file": "ada.toml",
            "fingerprint": "2",
            "status": "rejected",
            "problems": [{"line": 1, "column": 1, "code": "a", "message": "b", "suggestion": "c"}],
        },
    ],
    "restore_agent": [{"at": "2999-01-01", "what": ["blocks", "configuration", "context"]}],
    "mcp": [{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}],
    "add_group_member": [{"agent_id": "agent-00000000-0000-4000-8000-000000000000"}],
    "cancel_group_runs": [{}],
    "create_agent_group": [{"description": "g", "agent_ids": [], "name": "crew"}],
    "create_group": [{"description": "g", "agent_ids": []}],
    "modify_group": [{"description": "other"}],
    "update_agent_group": [{"name": "other", "shared_state_mode": "merge"}],
    "update_group_state": [{"state": {"a": {"b": [1]}}, "version": 1}],
    "send_group_message": [MESSAGES, {"input": "hi"}],
    "send_group_message_async": [MESSAGES],
    "stream_group_message": [MESSAGES],
    "create_batch": [{"items": ["hi", {"input": "hi"}, MESSAGES], "keep": False}],
    "create_message_batch": [{"requests": [{"agent_id": "agent-1", **MESSAGES}]}],
    "create_schedule": [
        SCHEDULE,
        {
            "messages": MESSAGES["messages"],
            "schedule": {"type": "recurring", "cron_expression": "0 0 29 2 *"},
        },
    ],
    "modify_schedule": [{"recurrence_rule": "0 0 29 2 *", "name": "other"}],
    "declare_capability": [{"description": "adds", "priority": 1}],
    "send_to_capability": [MESSAGES],
    "send_to_capability_async": [MESSAGES],
    "route_message": [{"pattern": "publish", "topic": "news", "input": "hi"}],
    "reset_messages": [{"add_default_initial_messages": False}],
}
# What would take away what the others ask about, and what is 503 on a machine that is busy.
NOT_ASKED = (
    "delete_agent",
    "delete_agents",
    "delete_native_agent",
    "delete_deployment",
    "delete_template",
    "delete_template_in_project",
    "delete_block",
    "delete_conversation",
    "delete_fleet",
    "delete_group",
    "delete_mcp_server",
    "delete_mcp_server_by_name",
    "delete_run",
    "delete_sandbox_config",
    "delete_sandbox_env_var",
    "delete_schedule",
    "delete_tool",
    "discard_dead_letter",
    "health",
)


def operations(ids: dict[str, str]) -> list[Request]:
    """A valid request for each operation that is built, in several forms."""
    found: list[Request] = []
    for handler in HANDLERS:
        described: Description | None = handler.opt.get("description")
        name = handler.handler_name.rpartition(".")[2]
        if described is None or name in NOT_ASKED:
            continue
        for path in sorted(handler.paths):
            filled = re.sub(r"\{(\w+):\w+\}", lambda match: ids[match[1]], path)
            for method in handler.http_methods - {"HEAD", "OPTIONS"}:
                found += [
                    Request(
                        str(method),
                        filled,
                        body,
                        fields=field_names(described.body),
                        parameters=field_names(described.query),
                    )
                    for body in BODIES.get(name, [None])
                ]
    return found


def recorded(ids: dict[str, str]) -> list[Request]:
    """The requests that were recorded from the genuine server, on things that exist here."""
    found: list[Request] = []
    for file in sorted(RECORDED.glob("*.json")):
        sent = json.loads(file.read_text())["request"]
        path = str(sent["path"])
        for kind in ("agent", "block"):
            path = re.sub(rf"{kind}-[0-9a-f]{{8}}-[0-9a-f-]+", ids[f"{kind}_id"], path)
        path, _, query = path.partition("?")
        found.append(
            Request(
                sent["method"],
                path.rstrip("/"),
                sent.get("body") if isinstance(sent.get("body"), dict) else None,
                headers=tuple(sent.get("headers", {}).items()),
                fields=field_names(all_request_bodies.CreateAgent)
                if sent["method"] == "POST"
                else (),
                raw_query=query,
            )
        )
    return found


async def things(base_url: str) -> dict[str, str]:
    """Something of each kind to ask about: the ids by the names of path parameters."""
    async with httpx.AsyncClient(base_url=base_url, timeout=30) as client:

        async def made(path: str, body: Any, method: str = "POST") -> Any:
            answer = await client.request(method, path, json=body)
            assert answer.is_success, answer.text
            return answer.json()

        agent = await made("/v1/agents", AGENT)
        block = await made("/v1/blocks", BLOCK)
        archive = await made("/v1/archives", {"name": "facts"})
        passage = await made(f"/v1/archives/{archive['id']}/passages", {"text": "Likes tea"})
        folder = await made("/v1/folders", {"name": f"folder-{block['id']}"})
        tool = await made("/v1/tools", TOOL, "PUT")
        server = await made("/v1/mcp-servers", {**MCP_SERVER, "server_name": f"s-{block['id']}"})
        sandbox = await made("/v1/sandbox-config/local/default", None)
        variables = f"/v1/sandbox-config/{sandbox['id']}/environment-variable"
        variable = await made(variables, {"key": "KEY", "value": "x"})
        conversation = await made(f"/v1/conversations?agent_id={agent['id']}", {})
        answer = await made(f"/v1/agents/{agent['id']}/messages", {"input": "hi"})
        said = answer["messages"][-1]
        run = await made(
            f"/v1/agents/{agent['id']}/messages/async", {"input": "hi", "background": True}
        )
        group = await made("/v1/groups", {"description": "g", "agent_ids": [agent["id"]]})
        group_run = await made(f"/v1/groups/{group['id']}/messages/async", MESSAGES)
        identity = await made("/v1/identities", {**IDENTITY, "identifier_key": block["id"]})
        project = await made("/v1/projects", {**PROJECT, "name": block["id"]})
        source = {"type": "agent", "agent_id": agent["id"], "name": f"t-{block['id']}"}
        template = await made(f"/v1/templates/{project['id']}", source)
        deployment = await made(f"/v1/templates/{project['id']}/{template['name']}/agents", {})
        schedule = await made(f"/v1/agents/{agent['id']}/schedule", SCHEDULE)
        batch = await made(f"/v1/agents/{agent['id']}/messages/batch", {"items": ["hi"]})
        await made(f"/v1/topics/news/subscribers/{agent['id']}", None, "PUT")
        fleet = await made("/v1/fleets", {"key": block["id"], "name": "shop"})
        plan = await made(f"/v1/fleets/{fleet['id']}/plans", {})
        apply = await made(f"/v1/fleets/{fleet['id']}/applies", {"plan_id": plan["id"]})
        routed = await made("/v1/routing/messages", BODIES["route_message"][0])
    return {
        "fleet_id": fleet["id"],
        "plan_id": plan["id"],
        "apply_id": apply["id"],
        "group_id": group["id"],
        "group_run_id": group_run["id"],
        "scheduled_message_id": schedule["id"],
        "batch_id": batch["id"],
        "identity_id": identity["id"],
        "project_id": project["id"],
        "template_name": template["name"],
        "template_version": f"{template['name']}:current",
        "name": template["name"],
        "deployment_id": deployment["deployment_id"],
        "import_id": "import-12345678-1234-4234-8234-123456789012",
        "capability": "sums",
        "topic": "news",
        "routed_message_id": routed["id"],
        "agent_id": agent["id"],
        "block_id": block["id"],
        "archive_id": archive["id"],
        "passage_id": passage["id"],
        "memory_id": passage["id"],
        "folder_id": folder["id"],
        "source_id": folder["id"],
        "folder_name": folder["name"],
        "file_id": "file-00000000-0000-4000-8000-000000000000",  # it would need a form
        "run_id": run["id"],
        "replay_id": "replay-00000000-0000-4000-8000-000000000000",  # its run may go on
        "letter_id": "letter-00000000-0000-4000-8000-000000000000",
        "label": "human",
        "conversation_id": conversation["id"],
        "message_id": said["id"],
        "step_id": said["step_id"],
        "job_id": "job-00000000-0000-4000-8000-000000000000",  # there are none
        "tool_id": tool["id"],
        "tool_name": "memory_insert",
        "transaction_id": "transaction-1",
        "tool_run_id": "tool_run-00000000-0000-4000-8000-000000000000",
        "mcp_server_id": server["id"],
        "mcp_server_name": server["server_name"],
        "mcp_tool_name": "forecast",
        "sandbox_config_id": sandbox["id"],
        "env_var_id": variable["id"],
        "version": "1",
    }
