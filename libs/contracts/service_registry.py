"""The registry of services: one declaration for each; all that lists services derives from it.

Streams, permissions, commands about dead letters and health, the AsyncAPI document, migrations, the
launcher and the process that is all services read it; compose.yaml and what import-linter checks
are tested against it. A new service is a folder under `services/` and a declaration here.

What follows from the name alone: its subjects `<name>.command.>`, `<name>.event.>` and
`<name>.delta.>`, its event stream `EVENTS_<NAME>`, its schema `<name>` in Postgres with its event
log, inbox, leases and dead letters, its role `heeler_<name>`, its user of NATS, and the modules
`services.<name>.app` (`wiring`), `services.<name>.projections` (`project`, and `READ_MODELS`, which
a rebuild makes from the events) and `services.<name>.__main__`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What a service is to everybody else.

    `contracts` are the modules with its messages: below `libs.contracts` or, where no other service
    needs them, `services.<name>.contracts`. `aggregates` are the classes of its domain. `sends`
    names the services whose commands it sends, `sends_only` single commands (`<service>.<topic>`)
    of others, `follows` those whose events it hears, `hears` those whose deltas it is told,
    `hears_only` deltas about some aggregates of others (`<service>.<aggregate>`).
    `environment` are patterns of the variables that it reads besides those that each service
    reads. `events_bytes_max` bounds its event stream, which holds what Postgres has anyhow.
    `connections_shared` is the size of its pool where one process is all services. Who
    `serves_clients` sends commands to everybody, shows what runs publish, and collects metrics. Who
    `lists_deltas` may see of what the stream still has any.
    """

    name: str
    contracts: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    sends_only: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    hears: tuple[str, ...] = ()
    hears_only: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    events_bytes_max: int = 128 << 20
    connections_shared: int = 2
    serves_clients: bool = False
    lists_deltas: bool = False


# The connections to Postgres of one process; and of one that is all services, for all together.
POOL_CONNECTIONS_MAX = 8
SHARED_CONNECTIONS_MAX = 10
# The keys that seal secrets; whoever has them in its environment reads all secrets.
ENCRYPTION_KEYS = "HEELER_ENCRYPTION_KEYS"
OPERATORS_LISTS = ("HEELER_ALLOWED_TOOLS", "HEELER_ALLOWED_CAPABILITIES")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")

# In the order in which they are started.
SERVICES = (
    Service(
        name="memory",
        contracts=(
            "libs.contracts.memory.blocks",
            "libs.contracts.memory.archives",
            "libs.contracts.memory.reembedding",
            "libs.contracts.memory.semantic_message_search",
            "libs.contracts.memory.folders",
            "libs.contracts.memory.files",
            "libs.contracts.memory.agent_folders",
        ),
        aggregates=(
            *("Block", "Archive", "Passage"),
            *("Folder", "FolderName", "File", "FileName", "AgentFolders"),
        ),
        sends=("memory",),
        # The tools for files go with an agent's last folder.
        sends_only=("agent.agent.attach_tool", "agent.agent.detach_tool"),
        follows=("memory", "agent"),
        environment=("OPENAI_*", "OLLAMA_BASE_URL"),  # where texts may be embedded
        events_bytes_max=1 << 30,
    ),
    Service(
        name="tools",
        contracts=(
            "libs.contracts.tools.tools",
            "libs.contracts.tools.tool_runs",
            "libs.contracts.tools.tool_permissions",
            "libs.contracts.tools.mcp_servers",
            "libs.contracts.tools.mcp_authorizations",
            "libs.contracts.tools.sandbox_configs",
        ),
        aggregates=(
            *("Tool", "ToolName", "ToolRun", "ToolPermissions"),
            *("McpServer", "McpServerName", "McpAuthorization", "SandboxConfig"),
        ),
        sends=("tools", "memory"),
        # An MCP server may ask the model of the agent that calls its tool.
        sends_only=("agent.completion.sample",),
        follows=("tools", "agent"),
        hears=("tools",),
        hears_only=("agent.sampling",),
        environment=(
            *("HEELER_SANDBOX", ENCRYPTION_KEYS, "EXA_API_KEY", "TAVILY_API_KEY"),
            *("PIP_*", "DOCKER_*"),
            *OPERATORS_LISTS,
        ),
    ),
    Service(
        name="agent",
        contracts=(
            "libs.contracts.agent.agents",
            "libs.contracts.agent.agent_tools",
            "libs.contracts.agent.agent_secrets",
            "libs.contracts.agent.conversations",
            "libs.contracts.agent.run_with_options",
            "libs.contracts.agent.callbacks",
            "libs.contracts.agent.called_runs",
            "libs.contracts.agent.step_annotations",
            "libs.contracts.agent.run_deletion",
            "libs.contracts.agent.conversation_lifecycle",
            "libs.contracts.agent.compaction",
            "libs.contracts.agent.model_request_preview",
            "libs.contracts.agent.heartbeat_pauses",
            "libs.contracts.agent.approvals",
            "libs.contracts.agent.one_off_completions",
            "libs.contracts.agent.mcp_sampling",
        ),
        aggregates=("Agent", "Conversation"),
        sends=("agent", "memory", "tools"),
        follows=("agent", "memory", "tools"),
        hears=("agent", "tools"),
        environment=(
            *OPERATORS_LISTS,
            *("OPENAI_*", "ANTHROPIC_*", "OLLAMA_BASE_URL"),
            "HOME",  # below it is .netrc, for proxies
            *PROXIES,
            *(name.lower() for name in PROXIES),
        ),
        events_bytes_max=1 << 30,
        connections_shared=4,
        lists_deltas=True,
    ),
    Service(
        name="api",
        environment=(
            *("HEELER_PASSWORD", "LETTA_SERVER_PASSWORD", ENCRYPTION_KEYS),
            *("HEELER_FILE_MIB_MAX", "HEELER_FILES_MIB_MAX"),
        ),
        serves_clients=True,
    ),
)


def names() -> tuple[str, ...]:
    """The names of all services, in the order in which they are started."""
    return tuple(service.name for service in SERVICES)


def declared(name: str) -> Service:
    """The declaration of a service. Raises KeyError for a name that is none."""
    return {service.name: service for service in SERVICES}[name]


def database_role(name: str) -> str:
    """The role of a service in Postgres."""
    return f"heeler_{name}"


def events_stream(name: str) -> str:
    """The event stream of a service in JetStream."""
    return f"EVENTS_{name.upper()}"


def receivers(service: Service) -> tuple[str, ...]:
    """The services whose commands a service sends, all of them or some."""
    if service.serves_clients:
        return names()
    some = (command.partition(".")[0] for command in service.sends_only)
    return tuple(dict.fromkeys((*service.sends, *some)))


def load_contracts() -> None:
    """Import the messages of every service, so that all are registered. Safe to repeat."""
    import_module("libs.contracts.dead_letter_commands")
    import_module("libs.contracts.health_commands")
    for service in SERVICES:
        for module in service.contracts:
            import_module(module)
