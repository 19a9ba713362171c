"""No field of a request body is accepted and ignored without the compatibility page saying so."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from deploy.compatibility import ROOT, read_ignored
from libs.contracts.letta import all_request_bodies

AGENTS = [
    "services/agent/domain",
    "services/agent/handlers",
    "services/api/resources/agents/agents.py",
]
MESSAGES = [
    "services/api/http",
    "services/api/v1",
    "services/api/resources",
    "libs/contracts/letta/runs.py",
]
BLOCKS = [
    "services/memory",
    "services/api/http",
    "services/api/v1",
    "services/api/resources",
    "services/agent",
    "libs/contracts/letta/blocks.py",
]

CONVERSATIONS = [
    "services/agent/domain/conversations/conversation_lifecycle.py",
    "services/agent/handlers/conversations.py",
    "services/agent/projections/conversations.py",
    "libs/contracts/letta/conversations.py",
]

# Where a body's fields are read. A field counts as read where its name is an attribute or a text.
BATCHES = [
    "services/api/resources/conversations/message_batches.py",
    "services/api/v1/batch_request.py",
]
SANDBOX = ["services/api/resources/tools/sandbox_configs.py"]
TOOLS = ["services/api/resources/tools/tools.py", "services/tools/domain", "services/agent"]
MCP_SERVERS = [
    "services/api/resources/tools/mcp_servers.py",
    "services/api/resources/tools/mcp_servers_by_name.py",
]
ARCHIVES = ["services/api/resources/memory/archives.py"]
PASSAGES = ["services/api/resources/memory/passages.py"]
FOLDERS = ["services/memory/handlers/folders.py", "services/memory/domain"]
GROUPS = [
    "libs/contracts/groups/groups.py",
    "services/api/resources/groups/groups.py",
    "services/api/resources/groups/agent_groups.py",
    "libs/contracts/letta/group_requests.py",
]
SCHEDULES = ["services/api/v1/schedule_request.py", "libs/contracts/letta/schedule_requests.py"]
AGENT_FIELDS = "libs/agent_document/agent_fields.py"
OF_THE_API = [
    AGENT_FIELDS,
    *(f"services/api/{room}" for room in ("domain", "engine", "handlers", "resources", "v1")),
    "libs/contracts/letta/projects.py",
    "libs/contracts/letta/identities.py",
]
READERS: dict[str, list[str]] = {
    **dict.fromkeys(("ProjectCreate", "ProjectUpdate", "ProjectAgents"), OF_THE_API),
    **dict.fromkeys(
        ("IdentityCreate", "IdentityUpdate", "IdentityUpsert", "IdentityProperties"), OF_THE_API
    ),
    **dict.fromkeys(
        (
            *("CreateTemplate", "UpdateTemplate", "DescribeTemplate", "RenameTemplate"),
            *("ForkTemplate", "SaveTemplate", "RollBackTemplate", "TemplateSnapshot"),
            *("CreateAgentsFromTemplate", "MigrateDeployment", "InternalTemplateBlocks"),
            "InternalTemplateBlockCreate",
            "InternalTemplateGroupCreate",
        ),
        OF_THE_API,
    ),
    "InternalTemplateAgentCreate": [*OF_THE_API, "services/agent/domain/agents"],
    "AgentGroupCreate": GROUPS,
    "AgentGroupUpdate": GROUPS,
    "GroupCreate": GROUPS,
    "GroupMemberCreate": GROUPS,
    "GroupStateUpdate": GROUPS,
    "GroupUpdate": GROUPS,
    "ScheduleCreate": SCHEDULES,
    "ScheduleUpdate": SCHEDULES,
    "FolderCreate": [*FOLDERS, "libs/contracts/memory/folders.py"],
    "FolderUpdate": [*FOLDERS, "libs/contracts/letta/folders.py"],
    "ArchiveCreateRequest": ARCHIVES,
    "ArchiveUpdateRequest": ARCHIVES,
    "CreateArchivalMemory": PASSAGES,
    "PassageCreateRequest": PASSAGES,
    "PassageBatchCreateRequest": PASSAGES,
    "PassageSearchRequest": PASSAGES,
    "CreateMCPServerRequest": MCP_SERVERS,
    "UpdateMCPServerRequest": MCP_SERVERS,
    "MCPToolExecuteRequest": MCP_SERVERS,
    "NamedMCPServer": MCP_SERVERS,
    "NamedMCPServerUpdate": MCP_SERVERS,
    "CreateAgent": [*AGENTS, AGENT_FIELDS, "services/api/v1/folder_attachments.py"],
    "UpdateAgent": [*AGENTS, AGENT_FIELDS, "services/api/v1/folder_attachments.py"],
    "CreateBlock": BLOCKS,
    "BlockUpdate": BLOCKS,
    "LettaStreamingRequest": MESSAGES,
    "LettaAsyncRequest": MESSAGES,
    "RetrieveStreamRequest": MESSAGES,
    "ConversationMessageRequest": MESSAGES,
    "CreateBatch": BATCHES,
    "LettaBatchRequest": [*MESSAGES, *BATCHES],
    "CreateConversation": CONVERSATIONS,
    "UpdateConversation": CONVERSATIONS,
    "RecompileRequest": ["services/api/resources/conversations/conversations.py"],
    "MessageSearchRequest": ["services/api/resources/conversations/all_messages.py"],
    "SearchAllMessagesRequest": ["services/api/resources/conversations/all_messages.py"],
    "ModifyFeedbackRequest": ["services/api/resources/conversations/steps.py"],
    "MessageCreate": [*MESSAGES, "services/agent/domain"],
    "LLMConfig": [
        "services/agent/adapters/models",
        "services/agent/engine",
        "services/agent/domain/runs/heartbeat_loop.py",
        "services/agent/domain/prompts/compaction_plan.py",
    ],
    "EmbeddingConfig": ["services/memory/adapters/embedders"],
    "CompactionSettings": ["services/agent/domain", "services/agent/engine"],
    "GenerateRequest": ["services/api/resources/conversations/one_off_completions.py"],
    "SandboxConfigCreate": SANDBOX,
    "SandboxConfigUpdate": SANDBOX,
    "SandboxEnvironmentVariableCreate": SANDBOX,
    "SandboxEnvironmentVariableUpdate": SANDBOX,
    "ToolCreate": TOOLS,
    "ToolUpdate": TOOLS,
    "ToolSearchRequest": ["services/api/resources/tools/tools.py"],
    "GenerateSchemaRequest": ["services/api/resources/tools/tools.py"],
    "GenerateToolInput": ["services/api/resources/tools/generated_tools.py"],
    "ToolRunFromSource": [
        "services/api/resources/tools/direct_tool_execution.py",
        "services/tools",
    ],
    "ToolExecuteRequest": ["services/api/resources/tools/direct_tool_execution.py"],
}
SHOWN_TO_AGENTS = (
    "default_requires_approval", "enable_parallel_execution", "return_char_limit",
)  # fmt: skip
# Read by the body itself, or in SQL.
OWN = {
    "LettaStreamingRequest": {"input"},
    "LettaAsyncRequest": {"input"},
    "LettaBatchRequest": {"input"},
    "ConversationMessageRequest": {"input"},
    "MessageCreate": {"type"},
    "CreateBlock": {"template_name"},
    "BlockUpdate": {"template_name"},
    "ToolCreate": {*SHOWN_TO_AGENTS},
    "ToolUpdate": {*SHOWN_TO_AGENTS},
}
# Bodies of operations that are not built: they are refused as a whole.
REFUSED = {
    "ApprovalCreate",
    "ApprovalReturn",
    "ClientSkillSchema",
    "ClientToolSchema",
    "ToolReturn",
    "ToolReturnCreate",
}


def bodies() -> dict[str, type[BaseModel]]:
    """Every body that the server reads, by its name."""
    named = {name: body for name, body in vars(all_request_bodies).items() if name[0] != "_"}
    return {
        name: field
        for name, field in named.items()
        if isinstance(field, type) and issubclass(field, BaseModel) and name not in REFUSED
    }


@cache
def names_in(places: tuple[str, ...]) -> set[str]:
    """The attributes and texts of all code at these places."""
    found: set[str] = set()
    for place in places:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(Path(path).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Attribute):
                    found.add(node.attr)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.update((node.value, *node.value.split()))
    return found


def listed(body: type[BaseModel]) -> set[str]:
    """What the page says of a body, or of one that it extends."""
    names = {base.__name__ for base in body.__mro__}
    return {
        field for ignored in read_ignored() if ignored.body in names for field in ignored.fields
    }


@pytest.mark.parametrize("name", sorted(READERS))
def test_every_field_is_read_or_listed(name: str) -> None:
    body = bodies()[name]
    read = names_in(tuple(READERS[name])) | OWN.get(name, set())
    assert body.model_fields.keys() - read - listed(body) == set()


def test_every_body_is_looked_at_and_what_is_listed_exists() -> None:
    assert bodies().keys() - {"LettaRequest"} == READERS.keys()
    for ignored in read_ignored():
        assert set(ignored.fields) <= bodies()[ignored.body].model_fields.keys(), ignored
