"""The registry of services: one declaration for each; all that lists services derives from it.

Streams, permissions, commands about dead letters and health, the AsyncAPI document, migrations, the
launcher and the process that is all services read it; compose.yaml and what import-linter checks
are tested against it. A new service is a folder under `services/` and a declaration here.

What follows from the name alone: its subjects `<name>.command.>`, `<name>.event.>` and
`<name>.delta.>`, its event stream `EVENTS_<NAME>`, its schema `<name>` in Postgres with its event
log, inbox, leases and dead letters, its role `heeler_<name>`, its user of NATS, and the modules
`services.<name>.app` (`wiring`), `services.<name>.projections` (`project`, and `READ_MODELS`, which
a rebuild makes from the events) and `services.<name>.__main__`. Its messages are all that the
modules of `libs/contracts/<name>/` define, its aggregates those of `services/<name>/domain`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The declaration of a service to all others.

    `sends` names the services whose commands it sends, `sends_only` single commands of others
    (`<service>.<topic>`), `follows` the services whose events it reads, `hears` the services whose
    deltas it reads, `hears_only` deltas about some aggregates of others (`<service>.<aggregate>`).
    `environment` are patterns of the variables that it reads besides those that each service
    reads. `events_bytes_max` bounds its event stream; Postgres keeps all events anyhow.
    `connections_shared` is the size of its pool where one process is all services. A service that
    `serves_clients` sends commands to all services, shows what runs publish, and collects metrics.
    A service that `lists_deltas` may ask what the stream of deltas still holds.
    """

    name: str
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
SHARED_CONNECTIONS_MAX = 14
# The keys that seal secrets; whoever has them in its environment reads all secrets.
ENCRYPTION_KEYS = "HEELER_ENCRYPTION_KEYS"
OPERATORS_LISTS = ("HEELER_ALLOWED_TOOLS", "HEELER_ALLOWED_CAPABILITIES")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")

# In the order in which they are started.
SERVICES = (
    Service(
        name="memory",
        sends=("memory",),
        # The tools for files go with an agent's last folder.
        sends_only=("agent.agent.attach_tool", "agent.agent.detach_tool"),
        follows=("memory", "agent"),
        environment=("OPENAI_*", "OLLAMA_BASE_URL"),  # where texts may be embedded
        events_bytes_max=1 << 30,
    ),
    Service(
        name="tools",
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
        sends=("agent", "memory", "tools"),
        # An agent may write to whichever other one can do something.
        sends_only=("groups.routed_message.route",),
        follows=("agent", "memory", "tools"),
        hears=("agent", "tools"),
        hears_only=("groups.routed_message",),
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
        name="scheduler",
        sends=("scheduler", "agent", "tools", "groups"),
        follows=("scheduler", "agent"),
        hears=("agent", "tools", "groups"),
    ),
    Service(
        name="groups",
        sends=("groups", "agent", "memory"),
        follows=("groups", "agent", "memory"),
        hears=("agent", "groups"),
    ),
    Service(
        name="api",
        follows=("api", "agent"),
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


def service_named(name: str) -> Service:
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
