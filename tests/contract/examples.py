"""One example of every command and every event, as the code makes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from libs.contracts.agent.agents import (
    AgentAbandoned,
    AgentCreated,
    AgentDeleted,
    AgentForked,
    AgentSecretsReplaced,
    AgentUpdated,
    AttachBlock,
    AttachTool,
    BlockAttached,
    BlockDetached,
    CallTool,
    CreateAgent,
    DeleteAgent,
    DetachBlock,
    DetachTool,
    RecordFork,
    RestoreConfiguration,
    UpdateAgent,
)
from libs.contracts.agent.approvals import (
    AnswerApproval,
    ApprovalAnswered,
    ApprovalCancelled,
    ApprovalExpired,
    ApprovalRequested,
    CallAnswer,
    RecordedAnswer,
    SetToolApproval,
    ToolCallReturned,
    WaitingCall,
    arguments_hash,
)
from libs.contracts.agent.compaction import (
    ClearContext,
    CompactConversation,
    ContextCleared,
    ContextReplaced,
    ConversationCompacted,
    ListLeftOut,
    ReplaceContext,
    RetriedContentRefused,
    ShowLeftOut,
)
from libs.contracts.agent.conversations import (
    ConversationCreated,
    ConversationDeleted,
    ConversationUpdated,
    CreateConversation,
    DeleteConversation,
    ForkConversation,
    Message,
    MessageAppended,
    PreviewSystemPrompt,
    ReasoningPart,
    RecompileConversation,
    Summary,
    SystemPromptRebuilt,
    ToolCall,
    UpdateConversation,
    Usage,
    main_conversation,
)
from libs.contracts.agent.one_off_completions import (
    AskModel,
    GenerateCompletion,
    SampledMessage,
    SampleModel,
)
from libs.contracts.agent.runs import (
    CallbackAttempted,
    CallingRun,
    CancelRuns,
    ClientSkill,
    ClientTool,
    DeleteRun,
    HeartbeatPauseCancelled,
    HeartbeatsPaused,
    HeartbeatsResumed,
    PreviewModelRequest,
    QueuedRunsCancelled,
    ReviewableRunEnded,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunDeleted,
    RunFailed,
    RunOptions,
    RunStarted,
    StartRun,
)
from libs.contracts.agent.steps import (
    AnnotateStep,
    ModelReplied,
    StartedCall,
    StepAnnotated,
    ToolCallFinished,
    ToolCallForbidden,
    ToolCallInterrupted,
    ToolCallRefused,
    ToolCallsStarted,
    ToolCallStarted,
)
from libs.contracts.appended_histories import (
    SERVICES_WITH_HISTORIES,
    PastEvent,
    PastHistory,
    append_command,
    undo_command,
)
from libs.contracts.bus_messages import Command, Event
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.blocks import BlockState
from libs.contracts.letta.conversations import ConversationConfig
from libs.contracts.letta.enums import MessageType
from libs.contracts.letta.runs import RunConfig
from libs.contracts.letta.tools import ToolState
from libs.contracts.memory.blocks import (
    BlockChanged,
    BlockCreated,
    BlockDeleted,
    Cause,
    CreateBlocks,
    DeleteBlock,
    EditBlock,
    PatchBlock,
    RenameBlock,
    ReplaceLines,
    ReplaceText,
    RestoreBlock,
    RewriteBlock,
    UpdateBlock,
)
from libs.contracts.moments import SERVICES_WITH_MOMENTS, moment_command
from libs.contracts.per_service_commands import DISCARD, REPLAY, health_command, letter_command
from libs.contracts.service_registry import names
from libs.contracts.tools.mcp_authorizations import (
    AnswerMcpAuthorization,
    McpAuthorizationAnswered,
    McpAuthorizationRequested,
    McpServerAuthorized,
    authorization_id,
)
from libs.contracts.tools.mcp_servers import (
    AskMcpServer,
    CreateMcpServer,
    DeleteMcpServer,
    DiscoveryReport,
    KnownMcpTool,
    ListMcpTools,
    McpConfigChanges,
    McpDiscoveryFailed,
    McpDiscoveryRequested,
    McpServerChanged,
    McpServerCreated,
    McpServerDeleted,
    McpServerNameFreed,
    McpServerNameTaken,
    McpToolsDiscovered,
    PendingDefinition,
    RefreshMcpServer,
    SealedMcpConfig,
    UnusableMcpTool,
    UpdateMcpServer,
    mcp_server_name_id,
)
from libs.contracts.tools.sandbox_configs import (
    DeleteSandboxConfig,
    DeleteSandboxVariable,
    LocalSandboxConfig,
    PackagesRecreated,
    RecreatePackages,
    Requirement,
    SandboxConfigChanged,
    SandboxConfigDeleted,
    SandboxVariableDeleted,
    SandboxVariableSet,
    SetSandboxConfig,
    SetSandboxVariable,
    UpdateSandboxVariable,
    sandbox_config_id,
)
from libs.contracts.tools.tool_permissions import (
    AllowList,
    SetToolPermissions,
    ToolPermissionsChanged,
    permissions_id,
)
from libs.contracts.tools.tool_runs import (
    RunTool,
    StopToolRun,
    ToolRunBegun,
    ToolRunEnded,
    ToolRunForgotten,
    ToolRunLost,
    ToolRunRefused,
    ToolRunResult,
    ToolRunSampled,
    ToolRunStopped,
)
from libs.contracts.tools.tools import (
    CreateTool,
    DeleteTool,
    DeriveToolSchema,
    ToolChanged,
    ToolCreated,
    ToolDeleted,
    ToolNameFreed,
    ToolNameTaken,
    UpdateTool,
    tool_name_id,
)
from services.agent.domain.agents.model_config_resolution import embedding_config, llm_config
from tests.contract import (
    agent_folder_examples,
    batch_examples,
    file_examples,
    group_run_examples,
    replay_examples,
    schedule_examples,
    summary_examples,
)
from tests.contract.archive_examples import ARCHIVE_COMMANDS, ARCHIVE_EVENTS
from tests.contract.configuration_examples import (
    CONFIGURATION_COMMANDS,
    CONFIGURATION_EVENTS,
)
from tests.contract.fleet_examples import FLEET_COMMANDS, FLEET_EVENTS
from tests.contract.group_examples import GROUP_COMMANDS, GROUP_EVENTS
from tests.contract.identity_examples import IDENTITY_COMMANDS, IDENTITY_EVENTS
from tests.contract.import_examples import IMPORT_COMMANDS, IMPORT_EVENTS
from tests.contract.message_search_examples import MESSAGE_SEARCH_COMMANDS
from tests.contract.project_examples import PROJECT_COMMANDS, PROJECT_EVENTS
from tests.contract.restore_examples import RESTORE_COMMANDS, RESTORE_EVENTS
from tests.contract.routing_examples import ROUTING_COMMANDS, ROUTING_EVENTS
from tests.contract.sleeptime_examples import SLEEPTIME_COMMANDS, SLEEPTIME_EVENTS
from tests.contract.template_examples import TEMPLATE_COMMANDS, TEMPLATE_EVENTS

AT = datetime(2026, 5, 17, 12, 30, 15, 123456, UTC)
USER = "user-00000000-0000-4000-8000-000000000000"
SEALED = "sealed:gAAAAABpJGnQ-zR_w=="
AGENT = "agent-11111111-1111-4111-8111-111111111111"
BLOCK = "block-22222222-2222-4222-8222-222222222222"
SHARED_BLOCK = "block-33333333-3333-4333-8333-333333333333"
RUN = "run-44444444-4444-4444-8444-444444444444"
LETTER = "letter-77777777-7777-4777-8777-777777777777"
STEP = "step-55555555-5555-4555-8555-555555555555"
CONVERSATION = main_conversation(AGENT)
BESIDE = "conv-88888888-8888-4888-8888-888888888888"
COPY = "block-99999999-9999-4999-8999-999999999999"
TOOL = "tool-66666666-6666-4666-8666-666666666666"
TOOL_RUN = "tool_run-77777777-7777-4777-8777-777777777777"
SANDBOX_CONFIG = sandbox_config_id("org-1")
SANDBOX_VARIABLE = "sandbox-env-99999999-9999-4999-8999-999999999999"
MCP_AUTHORIZATION = authorization_id("org-1", "state")
MCP_SERVER = "mcp_server-88888888-8888-4888-8888-888888888888"
MCP_CONFIG = SealedMcpConfig(
    transport="streamable_http",
    url="https://weather.example.com/mcp",
    auth_header="Authorization",
    auth_token=SEALED,
    headers={"X-Team": SEALED},
)
LOCAL_SANDBOX = LocalSandboxConfig(
    use_venv=True, pip_requirements=[Requirement(name="numpy", version="2.0.0")]
)
MCP_TOOL = KnownMcpTool(
    tool_id="tool-88888888-8888-4888-8888-888888888888",
    name="forecast",
    accepted="0123456789abcdef",
    pending=PendingDefinition(
        digest="fedcba9876543210",
        description="The weather.",
        parameters={"type": "object", "properties": {"city": {"type": "string"}}},
        since=AT,
    ),
)

LLM = llm_config(
    "openai/gpt-4o-mini",
    endpoint_type="openai",
    endpoint="https://api.openai.com/v1",
    context_window=128_000,
    max_tokens=16_384,
)
EMBEDDING = embedding_config(
    "openai/text-embedding-3-small",
    endpoint_type="openai",
    endpoint="https://api.openai.com/v1",
    dimensions=1_536,
)
CONFIG = AgentConfig(
    id=AGENT,
    name="QuietHeron",
    system="Be kind.",
    llm_config=LLM,
    embedding_config=EMBEDDING,
    metadata={"team": "blue"},
    created_by_id=USER,
    last_updated_by_id=USER,
    created_at=AT,
    updated_at=AT,
)
CONVERSATION_CONFIG = ConversationConfig(
    id=BESIDE,
    agent_id=AGENT,
    summary="Tea",
    hidden=True,
    model=LLM.handle,
    model_settings={"provider_type": "openai", "temperature": 0.5},
    llm_config=LLM,
    isolated_blocks={BLOCK: COPY},
    forked_from=CONVERSATION,
    created_by_id=USER,
    last_updated_by_id=USER,
    created_at=AT,
    updated_at=AT,
)
HUMAN = BlockState(
    id=BLOCK,
    label="human",
    value="Name: Ada",
    limit=2_000,
    description="Who you talk to",
    metadata={"source": "form"},
    tags=["people"],
)
TOOLS = ["conversation_search", "memory_insert", "memory_replace"]
RUN_CONFIG = RunConfig(
    id=RUN,
    created_at=AT,
    agent_id=AGENT,
    background=True,
    metadata={"run_type": "send_message_async"},
    include_return_message_types=[MessageType.assistant_message],
)
CALL = ToolCall(
    id="call_1", name="memory_insert", arguments='{"label":"human","new_string":"Likes tea"}'
)
USAGE = Usage(prompt_tokens=120, completion_tokens=8, cached_input_tokens=64, reasoning_tokens=3)
CAUSE = Cause(agent_id=AGENT, run_id=RUN, tool_call_id=CALL.id, tool=CALL.name)


def message(number: int, **fields: Any) -> Message:
    """A message with an id of its own."""
    message_id = f"message-66666666-6666-4666-8666-{number:012d}"
    return Message.model_validate({"id": message_id, "created_at": AT, **fields})


SYSTEM = message(1, role="system", content="Be kind.\n\nYou know Ada.")
SAID = message(
    2,
    role="user",
    content=[{"type": "text", "text": "I like tea"}],
    otid="otid-1",
    name="Ada",
    sender_id="identity-1",
)
CALLED = message(3, role="assistant", content="Noted.", reasoning="Worth it.", tool_calls=[CALL])
PARTS = [
    ReasoningPart(text="Worth it.", signature="c2lnbmVk"),
    ReasoningPart(redacted="c2VjcmV0"),
]
THOUGHT = CALLED.model_copy(update={"reasoning": None, "reasoning_parts": PARTS})
RETURNED = message(
    4,
    role="tool",
    content="Likes tea",
    name=CALL.name,
    tool_call_id=CALL.id,
    tool_status="success",
)

STATS = {
    "trigger": "manual",
    "context_tokens_before": 900,
    "context_tokens_after": 120,
    "context_window": 128_000,
    "messages_count_before": 5,
    "messages_count_after": 2,
}
SUMMARY = message(
    7,
    role="user",
    content='{"type": "system_alert", "message": "Summary of them:\\nAda likes tea."}',
    summary=Summary(text="Ada likes tea.", stats=STATS, structured=True),
)
CLIENT_TOOL = ClientTool(
    name="list_files",
    description="List the files of a folder.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)
CLIENT_SKILL = ClientSkill(
    name="review", description="How we review code.", location="/skills/review/SKILL.md"
)

ROLL_DICE = ToolState(
    id=TOOL,
    description="Roll a die.",
    name="roll_dice",
    tags=["dice"],
    source_code="def roll_dice(sides: int) -> int:\n    return 4\n",
    json_schema={
        "name": "roll_dice",
        "description": "Roll a die.",
        "parameters": {
            "type": "object",
            "properties": {"sides": {"type": "integer", "description": "How many sides it has."}},
            "required": ["sides"],
        },
    },
    pip_requirements=[{"name": "numpy", "version": "2.0.0"}],
    default_requires_approval=True,
    created_by_id=USER,
    last_updated_by_id=USER,
    metadata_={"tool_hash": "260ef933422d"},
)

CALLING = CallingRun(
    agent_id="agent-99999999-9999-4999-8999-999999999999",
    conversation_id=BESIDE,
    run_id="run-calls",
    waits=True,
)
PAST = PastHistory(
    aggregate_id=AGENT,
    first_version=2,
    complete=False,
    events=(PastEvent(topic="agent.updated", payload={"changed": ["name"]}, occurred_at=AT),),
)
COMMANDS: list[Command] = [
    *batch_examples.COMMANDS,
    *file_examples.COMMANDS,
    *agent_folder_examples.COMMANDS,
    *summary_examples.COMMANDS,
    *replay_examples.COMMANDS,
    *group_run_examples.COMMANDS,
    *ROUTING_COMMANDS,
    *schedule_examples.COMMANDS,
    CreateAgent(
        agent_id=AGENT,
        request={"model": LLM.handle, "memory_blocks": [{"label": "human", "value": "Name: Ada"}]},
        deployment_id="deployment-52525252-5252-4252-8252-525252525252",
        entity_id="agent-1",
    ),
    RestoreConfiguration(agent_id=AGENT, version=3),
    UpdateAgent(agent_id=AGENT, request={"name": "LoudHeron", "description": None}),
    DeleteAgent(agent_id=AGENT),
    AttachBlock(agent_id=AGENT, block_id=SHARED_BLOCK),
    DetachBlock(agent_id=AGENT, block_id=SHARED_BLOCK),
    RecordFork(agent_id=AGENT, origin_id=AGENT, fork_id=f"{AGENT[:-1]}2", cut=17),
    AttachTool(agent_id=AGENT, tool_id=TOOL),
    CallTool(
        call_id=CALL.id,
        agent_id=AGENT,
        tool_name="memory_insert",
        arguments={"label": "human", "new_string": "Likes tea"},
    ),
    DetachTool(agent_id=AGENT, tool_id=TOOL),
    StartRun(
        agent_id=AGENT,
        conversation_id=CONVERSATION,
        run=RUN_CONFIG,
        messages=[SAID],
        max_steps=50,
        request_hash="sha256-of-the-request",
        retry=True,
        stream_tokens=True,
        options=RunOptions(model=LLM.handle, system="Be brief.", logprobs=True, top_logprobs=2),
        client_tools=[CLIENT_TOOL],
        client_skills=[CLIENT_SKILL],
        callers=[CALLING],
    ),
    AnswerApproval(
        agent_id=AGENT,
        conversation_id=CONVERSATION,
        run=RUN_CONFIG,
        messages=[],
        max_steps=50,
        request_hash="sha256-of-the-request",
        client_tools=[CLIENT_TOOL],
        answers=[
            CallAnswer(tool_call_id=CALL.id, kind="denied", reason="Not now"),
            CallAnswer(
                tool_call_id="call_2",
                kind="returned",
                content=[{"type": "text", "text": "README.md"}],
                status="error",
                stdout=["1 file"],
                stderr=["slow disk"],
            ),
        ],
        otid="otid-2",
    ),
    SetToolApproval(agent_id=AGENT, tool="memory_insert", requires_approval=True),
    CancelRuns(agent_id=AGENT, run_ids=[RUN]),
    AnnotateStep(
        agent_id=AGENT,
        conversation_id=CONVERSATION,
        step_id=STEP,
        changes={"feedback": "positive", "tags": ["kind"]},
    ),
    DeleteRun(agent_id=AGENT, conversation_id=CONVERSATION, run_id=RUN),
    CreateConversation(
        conversation_id=BESIDE,
        agent_id=AGENT,
        request={"summary": "Tea", "isolated_block_labels": ["human"]},
    ),
    ForkConversation(conversation_id=BESIDE, agent_id=AGENT, source_id=CONVERSATION, hidden=True),
    UpdateConversation(conversation_id=BESIDE, request={"archived": True}),
    DeleteConversation(conversation_id=BESIDE),
    RecompileConversation(agent_id=AGENT, conversation_id=BESIDE),
    PreviewSystemPrompt(agent_id=AGENT, conversation_id=BESIDE),
    CompactConversation(
        agent_id=AGENT,
        conversation_id=CONVERSATION,
        run=RUN_CONFIG,
        request_hash="sha256-of-the-request",
        settings={"mode": "all"},
    ),
    PreviewModelRequest(
        agent_id=AGENT, conversation_id=CONVERSATION, run=RUN_CONFIG, messages=[SAID]
    ),
    ClearContext(agent_id=AGENT, conversation_id=CONVERSATION),
    ShowLeftOut(agent_id=AGENT, conversation_id=CONVERSATION),
    ListLeftOut(agent_id=AGENT, conversation_id=CONVERSATION),
    ReplaceContext(
        agent_id=AGENT,
        conversation_id=CONVERSATION,
        message_ids=[SYSTEM.id, SAID.id],
        restored_from=f"{CONVERSATION}.12",
    ),
    GenerateCompletion(
        completion_id="completion-1",
        agent_id=AGENT,
        prompt="Which colour has the sky?",
        response_schema={"type": "object", "properties": {"colour": {"type": "string"}}},
    ),
    AskModel(
        completion_id="completion-3",
        model="openai/gpt-4o",
        prompt="Write a tool that rolls dice.",
        response_schema={"type": "object", "properties": {"source_code": {"type": "string"}}},
    ),
    SampleModel(
        completion_id="completion-2",
        agent_id=AGENT,
        messages=[SampledMessage(role="user", content="Which colour has the sky?")],
        system_prompt="Be brief.",
        max_tokens=100,
        temperature=0.5,
        stop_sequences=["\n"],
    ),
    CreateTool(tool=ROLL_DICE, given=["source_code", "tags"]),
    DeriveToolSchema(asker="schema-1", source_code="def roll_dice() -> int:\n    return 4\n"),
    UpdateTool(tool_id=TOOL, changes={"tags": ["games"], "return_char_limit": 100}),
    DeleteTool(tool_id=TOOL),
    RunTool(
        tool_run_id=TOOL_RUN,
        tool_id=TOOL,
        arguments={"sides": 6},
        agent_id=AGENT,
        run_id=RUN,
        step_id=STEP,
        tool_call_id="call_1",
        seconds_max=108.0,
    ),
    StopToolRun(tool_run_id=TOOL_RUN),
    SetToolPermissions(
        kind="agent",
        scope_id=AGENT,
        allowed=AllowList(tools=["memory_insert", "roll_dice"], capabilities=["code", "memory"]),
    ),
    SetSandboxConfig(config_id=SANDBOX_CONFIG, config=LOCAL_SANDBOX, must_exist=True),
    DeleteSandboxConfig(config_id=SANDBOX_CONFIG),
    RecreatePackages(config_id=SANDBOX_CONFIG),
    SetSandboxVariable(
        config_id=SANDBOX_CONFIG, variable_id=SANDBOX_VARIABLE, key="API_KEY", value=SEALED
    ),
    UpdateSandboxVariable(
        config_id=SANDBOX_CONFIG, variable_id=SANDBOX_VARIABLE, description="of the weather"
    ),
    DeleteSandboxVariable(config_id=SANDBOX_CONFIG, variable_id=SANDBOX_VARIABLE),
    AnswerMcpAuthorization(
        authorization_id=MCP_AUTHORIZATION, code=SEALED, issuer="https://login.example.com"
    ),
    CreateMcpServer(server_id=MCP_SERVER, name="weather", config=MCP_CONFIG),
    UpdateMcpServer(
        server_id=MCP_SERVER,
        name="sky",
        changes=McpConfigChanges(transport="streamable_http", auth_token=SEALED),
    ),
    DeleteMcpServer(server_id=MCP_SERVER),
    RefreshMcpServer(server_id=MCP_SERVER, accepted=["forecast"]),
    AskMcpServer(
        listing_id="mcp_listing-88888888-8888-4888-8888-888888888888",
        server_id=MCP_SERVER,
        question="prompt",
        name="greet",
        arguments={"who": "Ada"},
    ),
    ListMcpTools(
        listing_id="mcp_listing-88888888-8888-4888-8888-888888888888",
        name="files",
        config=SealedMcpConfig(
            transport="stdio", command="/usr/bin/mcp-files", args=["/srv"], env={"KEY": SEALED}
        ),
    ),
    CreateBlocks(blocks=[HUMAN]),
    UpdateBlock(block_id=BLOCK, changes={"value": "Name: Grace", "tags": []}),
    RewriteBlock(block_id=BLOCK, value="Name: Grace", cause=CAUSE),
    EditBlock(block_id=BLOCK, edit=ReplaceText(old_text="Ada", new_text="Grace"), cause=CAUSE),
    PatchBlock(
        block_id=BLOCK,
        changes=[ReplaceLines(old_lines=["Name: Ada"], new_lines=["Name: Grace", "Likes tea"])],
        cause=CAUSE,
    ),
    RenameBlock(block_id=BLOCK, old_label="human", label="ada", cause=CAUSE),
    RestoreBlock(block_id=BLOCK, version=1, if_version=2),
    DeleteBlock(block_id=BLOCK),
    *ARCHIVE_COMMANDS,
    *GROUP_COMMANDS,
    *IDENTITY_COMMANDS,
    *PROJECT_COMMANDS,
    *TEMPLATE_COMMANDS,
    *IMPORT_COMMANDS,
    *RESTORE_COMMANDS,
    *CONFIGURATION_COMMANDS,
    *FLEET_COMMANDS,
    *SLEEPTIME_COMMANDS,
    *MESSAGE_SEARCH_COMMANDS,
    *(
        letter_command(name, topic)(letter_id=LETTER)
        for name in names()
        for topic in (REPLAY, DISCARD)
    ),
    *(health_command(name, "health-1") for name in names()),
    *(
        append_command(name)(import_id="import-1", histories=(PAST,))
        for name in SERVICES_WITH_HISTORIES
    ),
    *(undo_command(name)(import_id="import-1", after="b") for name in SERVICES_WITH_HISTORIES),
    *(
        moment_command(name)(asker="moment-1", agent_id=AGENT, cut=77, ids=(BLOCK,))
        for name in SERVICES_WITH_MOMENTS
    ),
]


def of_agent(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=AGENT, originator_version=1, timestamp=AT, **fields)


def of_conversation(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=CONVERSATION, originator_version=1, timestamp=AT, **fields)


def beside(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=BESIDE, originator_version=1, timestamp=AT, **fields)


def of_block(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=BLOCK, originator_version=1, timestamp=AT, **fields)


def of_tool(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=TOOL, originator_version=1, timestamp=AT, **fields)


def of_tool_name(kind: type[Event]) -> Event:
    name_id = tool_name_id("org-1", "roll_dice")
    return kind(originator_id=name_id, originator_version=1, timestamp=AT, tool_id=TOOL)


def of_tool_run(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=TOOL_RUN, originator_version=1, timestamp=AT, **fields)


def of_authorization(event: type[Event], **fields: Any) -> Event:
    return event(originator_id=MCP_AUTHORIZATION, originator_version=1, timestamp=AT, **fields)


def of_sandbox(event: type[Event], **fields: Any) -> Event:
    return event(originator_id=SANDBOX_CONFIG, originator_version=1, timestamp=AT, **fields)


def of_mcp_server(event: type[Event], **fields: Any) -> Event:
    return event(originator_id=MCP_SERVER, originator_version=1, timestamp=AT, **fields)


def of_mcp_server_name(kind: type[Event]) -> Event:
    return kind(
        originator_id=mcp_server_name_id("org-1", "weather"),
        originator_version=1,
        timestamp=AT,
        server_id=MCP_SERVER,
    )


EVENTS: list[Event] = [
    *batch_examples.EVENTS,
    *file_examples.EVENTS,
    *agent_folder_examples.EVENTS,
    *summary_examples.EVENTS,
    *replay_examples.EVENTS,
    *group_run_examples.EVENTS,
    *ROUTING_EVENTS,
    *schedule_examples.EVENTS,
    of_agent(
        AgentCreated,
        config=CONFIG,
        tools=TOOLS,
        tags=["blue"],
        block_ids=[BLOCK, SHARED_BLOCK],
        own_block_ids=[BLOCK],
    ),
    of_agent(AgentAbandoned, code="unprocessable", reason="`value` is too long"),
    of_agent(
        AgentUpdated,
        changed=["tags"],
        config=CONFIG,
        tools=TOOLS,
        tags=["green"],
        block_ids=[BLOCK],
    ),
    of_agent(AgentSecretsReplaced, secrets={"KEY": SEALED}),
    of_agent(AgentForked, origin_id=AGENT, fork_id=f"{AGENT[:-1]}2", cut=17),
    of_agent(AgentDeleted, own_block_ids=[BLOCK]),
    of_agent(BlockAttached, block_id=SHARED_BLOCK, block_ids=[BLOCK, SHARED_BLOCK]),
    of_agent(BlockDetached, block_id=SHARED_BLOCK, block_ids=[BLOCK]),
    of_conversation(
        MessageAppended,
        agent_id=AGENT,
        message=THOUGHT,
        run_id=RUN,
        step_id=STEP,
        number=2,
        chunks=[("reasoning", 4), ("text", 3), ("text", 3), ("name", 0), ("arguments", 19)],
    ),
    of_conversation(SystemPromptRebuilt, agent_id=AGENT, message=SYSTEM, shows={BLOCK: 3}),
    of_conversation(ConversationDeleted),
    of_conversation(
        ConversationCompacted,
        run_id=RUN,
        agent_id=AGENT,
        step_id=STEP,
        message=SUMMARY,
        evicted=[SAID.id, CALLED.id, RETURNED.id],
        mode="all",
        model="openai/gpt-5-mini",
        failures=["sliding_window: The model answered 500: busy"],
        usage=USAGE,
        number=2,
    ),
    of_conversation(ContextCleared, evicted=[SUMMARY.id]),
    of_conversation(
        ContextReplaced,
        agent_id=AGENT,
        message_ids=[SYSTEM.id, SAID.id],
        evicted=[SUMMARY.id],
        returned=[SAID],
        restored_from=f"{CONVERSATION}.12",
    ),
    of_conversation(
        RetriedContentRefused,
        run_id=RUN,
        agent_id=AGENT,
        step_id=STEP,
        error_type="llm_bad_request",
        message="openai answered 400: bad image",
    ),
    of_conversation(
        RunAccepted,
        run_id=RUN,
        run=RUN_CONFIG,
        messages=[SAID],
        max_steps=50,
        request_hash="sha256-of-the-request",
        stream_tokens=True,
        asked_at=AT,
        options=RunOptions(model=LLM.handle, llm_config=LLM, system="Be brief.", token_ids=True),
        client_tools=[CLIENT_TOOL],
        client_skills=[CLIENT_SKILL],
        callers=[CALLING],
        compaction={"mode": "all"},
    ),
    of_conversation(RunStarted, run_id=RUN, agent_id=AGENT),
    of_conversation(
        ModelReplied,
        run_id=RUN,
        step_id=STEP,
        model="openai/gpt-4o-mini",
        usage=USAGE,
        finish_reason="tool_calls",
        tool_calls=[CALL],
    ),
    of_conversation(
        ToolCallStarted, run_id=RUN, step_id=STEP, tool_call_id=CALL.id, tool=CALL.name
    ),
    of_conversation(
        ToolCallsStarted,
        run_id=RUN,
        step_id=STEP,
        calls=[
            StartedCall(tool_call_id=CALL.id, tool=CALL.name),
            StartedCall(tool_call_id="call_2", tool="conversation_search"),
        ],
    ),
    of_conversation(
        ToolCallFinished, run_id=RUN, step_id=STEP, tool_call_id=CALL.id, status="success"
    ),
    of_conversation(ToolCallInterrupted, run_id=RUN, step_id=STEP, tool_call_id=CALL.id),
    of_conversation(
        ToolCallRefused, run_id=RUN, step_id=STEP, tool_call_id=CALL.id, tool=CALL.name
    ),
    of_conversation(
        ApprovalRequested,
        run_id=RUN,
        agent_id=AGENT,
        step_id=STEP,
        message_id=CALLED.id,
        calls=[
            WaitingCall(tool_call_id=CALL.id, tool=CALL.name, arguments_hash=arguments_hash(CALL)),
            WaitingCall(
                tool_call_id="call_2", tool="list_files", arguments_hash="hash", by_client=True
            ),
        ],
    ),
    of_conversation(
        ApprovalAnswered,
        run_id="run-answers",
        step_id=STEP,
        request_id=CALLED.id,
        answers=[
            RecordedAnswer(
                tool_call_id=CALL.id, kind="approved", arguments_hash=arguments_hash(CALL)
            )
        ],
        waiting=["call_2"],
    ),
    of_conversation(
        ToolCallReturned,
        run_id=RUN,
        step_id=STEP,
        tool_call_id="call_2",
        tool="list_files",
        status="success",
    ),
    of_conversation(
        ApprovalExpired,
        run_id=RUN,
        step_id=STEP,
        request_id=CALLED.id,
        tool_call_ids=[CALL.id, "call_2"],
    ),
    of_conversation(
        ApprovalCancelled,
        run_id=RUN,
        step_id=STEP,
        request_id=CALLED.id,
        tool_call_ids=[CALL.id],
    ),
    of_conversation(
        RunCompleted,
        run_id=RUN,
        stop_reason="end_turn",
        usage=USAGE,
        step_count=2,
        context_tokens=128,
        total_duration_ns=1_500_000_000,
    ),
    of_conversation(ReviewableRunEnded, run_id=RUN, agent_id=AGENT),
    of_conversation(
        RunFailed,
        run_id=RUN,
        stop_reason="llm_api_error",
        error_type="llm_rate_limit",
        message="The model answered 429: slow down",
        detail="rate_limit_exceeded",
        usage=USAGE,
        step_count=1,
        total_duration_ns=1_500_000_000,
    ),
    of_conversation(
        HeartbeatsPaused,
        run_id=RUN,
        agent_id=AGENT,
        tool_call_id=CALL.id,
        minutes=2,
        until=AT + timedelta(minutes=2),
    ),
    of_conversation(HeartbeatsResumed, run_id="run-after-the-pause"),
    of_conversation(HeartbeatPauseCancelled),
    of_conversation(QueuedRunsCancelled, run_ids=[RUN, "run-waiting"]),
    of_conversation(
        RunCancelled,
        run_id=RUN,
        usage=USAGE,
        step_count=1,
        total_duration_ns=1_500_000_000,
    ),
    of_conversation(
        CallbackAttempted,
        run_id=RUN,
        attempts=1,
        sent_at=AT,
        status_code=503,
        next_at=AT,
    ),
    of_conversation(
        StepAnnotated,
        run_id=RUN,
        step_id=STEP,
        changes={"feedback": "positive", "tags": ["kind"]},
    ),
    of_conversation(RunDeleted, run_id=RUN),
    of_conversation(
        ToolCallForbidden,
        run_id=RUN,
        step_id=STEP,
        tool_call_id="call_1",
        tool="roll_dice",
        reason="'roll_dice' is not allowed for this agent: it is not on the list of tools.",
    ),
    beside(ConversationCreated, config=CONVERSATION_CONFIG),
    beside(
        ConversationUpdated,
        changed=["archived_at"],
        config=CONVERSATION_CONFIG.model_copy(update={"archived_at": AT}),
    ),
    of_block(BlockCreated, block=HUMAN),
    of_block(BlockChanged, changes={"value": "Name: Grace"}, cause=CAUSE),
    of_block(BlockDeleted),
    *ARCHIVE_EVENTS,
    *GROUP_EVENTS,
    *IDENTITY_EVENTS,
    *PROJECT_EVENTS,
    *TEMPLATE_EVENTS,
    *IMPORT_EVENTS,
    *RESTORE_EVENTS,
    *CONFIGURATION_EVENTS,
    *FLEET_EVENTS,
    *SLEEPTIME_EVENTS,
    of_tool(ToolCreated, tool=ROLL_DICE),
    of_tool(ToolChanged, changes={"tags": ["games"], "last_updated_by_id": USER}),
    of_tool(ToolDeleted),
    of_tool_name(ToolNameTaken),
    of_tool_name(ToolNameFreed),
    of_tool_run(
        ToolRunBegun,
        tool_id=TOOL,
        name="roll_dice",
        arguments='{"sides":6}',
        source_hash="260ef933422d9f1b",
        agent_id=AGENT,
        run_id=RUN,
        step_id=STEP,
        tool_call_id="call_1",
        seconds_max=108.0,
    ),
    of_tool_run(
        ToolRunEnded,
        result=ToolRunResult(
            status="success",
            text="4",
            stdout=["rolling\n"],
            seconds=0.05,
            cpu_seconds=0.02,
            memory_bytes_max=12_000_000,
        ),
    ),
    of_tool_run(
        ToolRunSampled,
        completion_id="completion-2",
        outcome="answered",
        model="gpt-4o",
        prompt_tokens=20,
        completion_tokens=3,
        seconds=0.8,
    ),
    of_tool_run(ToolRunStopped),
    of_tool_run(ToolRunLost),
    of_tool_run(ToolRunForgotten),
    of_tool_run(
        ToolRunRefused,
        tool_id=TOOL,
        name="roll_dice",
        reason="'roll_dice' is not allowed for this agent: it is not on the list of tools.",
        agent_id=AGENT,
        run_id=RUN,
        step_id=STEP,
        tool_call_id="call_1",
    ),
    ToolPermissionsChanged(
        originator_id=permissions_id("org-1", "agent", AGENT),
        originator_version=1,
        timestamp=AT,
        kind="agent",
        scope_id=AGENT,
        tools=["memory_insert", "roll_dice"],
        capabilities=["code", "memory"],
    ),
    of_sandbox(SandboxConfigChanged, config=LOCAL_SANDBOX, created=True),
    of_sandbox(SandboxConfigDeleted),
    of_sandbox(PackagesRecreated, generation=2),
    of_sandbox(
        SandboxVariableSet,
        variable_id=SANDBOX_VARIABLE,
        key="API_KEY",
        value=SEALED,
        description="of the weather",
        created=True,
    ),
    of_sandbox(SandboxVariableDeleted, variable_id=SANDBOX_VARIABLE),
    of_mcp_server(McpServerCreated, name="weather", config=MCP_CONFIG),
    of_mcp_server(McpServerChanged, name="sky", config=MCP_CONFIG, version=2, number=2),
    of_mcp_server(McpServerAuthorized, grant=SEALED, version=3, number=3),
    of_authorization(
        McpAuthorizationRequested, server_id=MCP_SERVER, expires_at=AT + timedelta(seconds=300)
    ),
    of_authorization(McpAuthorizationAnswered, code=SEALED, issuer="https://login.example.com"),
    of_mcp_server(McpServerDeleted),
    of_mcp_server(McpDiscoveryRequested, number=3, accepted=["forecast"]),
    of_mcp_server(
        McpToolsDiscovered,
        number=3,
        tools={"forecast": MCP_TOOL},
        removed=["now"],
        tool_ids={"forecast": MCP_TOOL.tool_id},
        report=DiscoveryReport(
            deleted=["now"],
            updated=["forecast"],
            needs_approval=["forecast"],
            unusable=[UnusableMcpTool(name="loop", reason="its schema refers to itself")],
        ),
    ),
    of_mcp_server(
        McpDiscoveryFailed,
        number=3,
        attempt=1,
        kind="unreachable",
        reason="connection refused",
        retry_at=AT + timedelta(seconds=2),
    ),
    of_mcp_server_name(McpServerNameTaken),
    of_mcp_server_name(McpServerNameFreed),
]
