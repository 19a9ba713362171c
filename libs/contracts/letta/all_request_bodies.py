"""Every request body of the V1 API that this server reads, by the API's own names."""

from libs.contracts.letta.agent_requests import CreateAgent, UpdateAgent
from libs.contracts.letta.archive_requests import (
    ArchiveCreateRequest,
    ArchiveUpdateRequest,
    CreateArchivalMemory,
    PassageBatchCreateRequest,
    PassageCreateRequest,
    PassageSearchRequest,
)
from libs.contracts.letta.block_requests import BlockUpdate, CreateBlock
from libs.contracts.letta.conversations import (
    CreateConversation,
    RecompileRequest,
    UpdateConversation,
)
from libs.contracts.letta.folders import FolderCreate, FolderUpdate
from libs.contracts.letta.mcp_servers import (
    CreateMCPServerRequest,
    MCPToolExecuteRequest,
    NamedMCPServer,
    NamedMCPServerUpdate,
    UpdateMCPServerRequest,
)
from libs.contracts.letta.message_requests import (
    ApprovalCreate,
    ApprovalReturn,
    ClientSkillSchema,
    ClientToolSchema,
    ConversationMessageRequest,
    CreateBatch,
    LettaAsyncRequest,
    LettaBatchRequest,
    LettaRequest,
    LettaStreamingRequest,
    MessageCreate,
    MessageInput,
    RetrieveStreamRequest,
    ToolReturn,
    ToolReturnCreate,
)
from libs.contracts.letta.message_search_requests import (
    MessageSearchRequest,
    SearchAllMessagesRequest,
)
from libs.contracts.letta.model_configs import (
    AnyModelSettings,
    CompactionSettings,
    EmbeddingConfig,
    LLMConfig,
)
from libs.contracts.letta.one_off_completion_requests import GenerateRequest
from libs.contracts.letta.sandbox_config_requests import (
    SandboxConfigCreate,
    SandboxConfigUpdate,
    SandboxEnvironmentVariableCreate,
    SandboxEnvironmentVariableUpdate,
)
from libs.contracts.letta.step_requests import ModifyFeedbackRequest
from libs.contracts.letta.tool_generation import GenerateToolInput
from libs.contracts.letta.tool_requests import (
    GenerateSchemaRequest,
    ToolCreate,
    ToolExecuteRequest,
    ToolRunFromSource,
    ToolSearchRequest,
    ToolUpdate,
)

__all__ = [
    "AnyModelSettings",
    "ApprovalCreate",
    "ApprovalReturn",
    "ArchiveCreateRequest",
    "ArchiveUpdateRequest",
    "BlockUpdate",
    "ClientSkillSchema",
    "ClientToolSchema",
    "CompactionSettings",
    "ConversationMessageRequest",
    "CreateAgent",
    "CreateArchivalMemory",
    "CreateBatch",
    "CreateBlock",
    "CreateConversation",
    "CreateMCPServerRequest",
    "EmbeddingConfig",
    "FolderCreate",
    "FolderUpdate",
    "GenerateRequest",
    "GenerateSchemaRequest",
    "GenerateToolInput",
    "LLMConfig",
    "LettaAsyncRequest",
    "LettaBatchRequest",
    "LettaRequest",
    "LettaStreamingRequest",
    "MCPToolExecuteRequest",
    "MessageCreate",
    "MessageInput",
    "MessageSearchRequest",
    "ModifyFeedbackRequest",
    "NamedMCPServer",
    "NamedMCPServerUpdate",
    "PassageBatchCreateRequest",
    "PassageCreateRequest",
    "PassageSearchRequest",
    "RecompileRequest",
    "RetrieveStreamRequest",
    "SandboxConfigCreate",
    "SandboxConfigUpdate",
    "SandboxEnvironmentVariableCreate",
    "SandboxEnvironmentVariableUpdate",
    "SearchAllMessagesRequest",
    "ToolCreate",
    "ToolExecuteRequest",
    "ToolReturn",
    "ToolReturnCreate",
    "ToolRunFromSource",
    "ToolSearchRequest",
    "ToolUpdate",
    "UpdateAgent",
    "UpdateConversation",
    "UpdateMCPServerRequest",
]
