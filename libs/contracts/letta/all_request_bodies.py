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
from libs.contracts.letta.group_requests import (
    AgentGroupCreate,
    AgentGroupUpdate,
    GroupCreate,
    GroupMemberCreate,
    GroupStateUpdate,
    GroupUpdate,
)
from libs.contracts.letta.identities import (
    IdentityCreate,
    IdentityProperties,
    IdentityUpdate,
    IdentityUpsert,
)
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
    GenerateRequest,
    LettaAsyncRequest,
    LettaBatchRequest,
    LettaRequest,
    LettaStreamingRequest,
    MessageCreate,
    MessageInput,
    MessageSearchRequest,
    ModifyFeedbackRequest,
    RetrieveStreamRequest,
    SearchAllMessagesRequest,
    ToolReturn,
    ToolReturnCreate,
)
from libs.contracts.letta.model_configs import (
    AnyModelSettings,
    CompactionSettings,
    EmbeddingConfig,
    LLMConfig,
)
from libs.contracts.letta.projects import ProjectAgents, ProjectCreate, ProjectUpdate
from libs.contracts.letta.schedule_requests import ScheduleCreate, ScheduleUpdate
from libs.contracts.letta.template_requests import (
    CreateAgentsFromTemplate,
    CreateTemplate,
    DescribeTemplate,
    ForkTemplate,
    InternalTemplateAgentCreate,
    InternalTemplateBlockCreate,
    InternalTemplateBlocks,
    InternalTemplateGroupCreate,
    MigrateDeployment,
    RenameTemplate,
    RollBackTemplate,
    SaveTemplate,
    TemplateSnapshot,
    UpdateTemplate,
)
from libs.contracts.letta.tool_requests import (
    GenerateSchemaRequest,
    GenerateToolInput,
    SandboxConfigCreate,
    SandboxConfigUpdate,
    SandboxEnvironmentVariableCreate,
    SandboxEnvironmentVariableUpdate,
    ToolCreate,
    ToolExecuteRequest,
    ToolRunFromSource,
    ToolSearchRequest,
    ToolUpdate,
)
