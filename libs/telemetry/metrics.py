"""Metrics of this process. Names end in their unit; no label has more values than operators can
look at, so none names an agent, a run or a person."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

disable_created_metrics()  # type: ignore[no-untyped-call]

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

# From a query that finds everything in memory to a run with many steps of a slow model.
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LONG_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
MEMORY_BYTES = tuple(float(1 << exponent) for exponent in range(22, 31))  # 4 MiB to 1 GiB

UNKNOWN = "unknown"


def counter(name: str, says: str, *labels: str) -> Counter:
    """Something that only grows; its name gets `_total` at the end."""
    return Counter(name, says, labels, registry=REGISTRY)


def gauge(name: str, says: str, *labels: str) -> Gauge:
    """Something that goes up and down."""
    return Gauge(name, says, labels, registry=REGISTRY)


def seconds(name: str, says: str, *labels: str, long: bool = False) -> Histogram:
    """A histogram of how long something takes."""
    buckets = LONG_SECONDS if long else SHORT_SECONDS
    return Histogram(name, says, labels, registry=REGISTRY, buckets=buckets)


SERVICE_INFO = gauge(
    "heeler_service_info", "1 for each service that runs in a process.", "service", "version"
)

HTTP_REQUESTS = counter(
    "heeler_http_requests", "HTTP requests answered.", "method", "route", "status"
)
HTTP_SECONDS = seconds(
    "heeler_http_request_duration_seconds",
    "From the arrival of an HTTP request to the last byte of its answer.",
    *("method", "route"),
    long=True,
)

COMMANDS = counter("heeler_commands_handled", "Commands handled.", "command", "outcome")
COMMAND_SECONDS = seconds(
    "heeler_command_duration_seconds", "From the arrival of a command to its reply.", "command"
)
EVENTS = counter("heeler_events_appended", "Events committed to the log.", "event")

RUNS_STARTED = counter("heeler_runs_started", "Runs whose turn has come.")
RUNS_ENDED = counter("heeler_runs_ended", "Runs that have ended.", "stop_reason")
RUN_SECONDS = seconds(
    "heeler_run_duration_seconds", "From the start of a run to its end.", long=True
)
MODEL_SECONDS = seconds(
    "heeler_model_call_duration_seconds",
    "From asking a model for a step to its whole answer.",
    *("provider", "model"),
    long=True,
)
MODEL_CALLS = counter(
    "heeler_model_calls", "Steps that models were asked for.", "provider", "model", "outcome"
)
MODEL_TOKENS = counter(
    "heeler_model_tokens",
    "Tokens as providers counted them; `cached_input` is a part of `input`.",
    *("provider", "model", "kind"),
)
TOOL_CALLS = counter("heeler_tool_calls", "Tool calls carried out.", "tool", "outcome")
TOOL_SECONDS = seconds(
    "heeler_tool_call_duration_seconds", "From the start of a tool to its result.", "tool"
)
MCP_REQUESTS_REFUSED = counter(
    "heeler_mcp_requests_refused",
    "What MCP servers asked of this server and were refused: a model, a person, folders.",
    "method",
)
MCP_SAMPLING_REQUESTS = counter(
    "heeler_mcp_sampling_requests",
    "What MCP servers that may ask models have asked, and what came of it.",
    "outcome",
)
MCP_SESSIONS = gauge("heeler_mcp_sessions", "Sessions with MCP servers that are open.")
TOOL_RUNS = counter(
    "heeler_tool_runs", "Calls that the tools service carried out.", "kind", "outcome"
)
TOOL_RUN_SECONDS = seconds(
    "heeler_tool_run_duration_seconds",
    "From the begin of a call in the tools service to its result.",
    "kind",
    long=True,
)
TOOL_RUN_CPU_SECONDS = counter(
    "heeler_tool_run_cpu_seconds", "CPU time that the programs of calls used.", "kind"
)
TOOL_RUN_MEMORY = Histogram(
    "heeler_tool_run_memory_bytes",
    "The most memory that the programs of a call used at once.",
    ["kind"],
    registry=REGISTRY,
    buckets=MEMORY_BYTES,
)
TOOL_RUN_OUTPUT = counter(
    "heeler_tool_run_output_bytes", "What the programs of calls printed.", "kind"
)
SANDBOX_LIMITS = counter(
    "heeler_sandbox_limits_hit", "Programs that were ended because of a limit.", "limit"
)
SANDBOX_RESTARTS = counter(
    "heeler_sandbox_spawner_restarts", "How often what starts sandboxes was started again."
)
SANDBOXES = gauge(
    "heeler_sandboxes",
    "Sandboxes that wait for a program, run one or are kept for an agent, and calls that wait.",
    "state",
)

RUNS_RUNNING = gauge("heeler_runs_running", "Runs that this process attempts right now.")
LEASES = gauge("heeler_leases_held", "Leases that this process renews.", "service")
AGENTS = gauge(
    "heeler_agents", "Agents that exist. Only one process of the service says so.", "service"
)
RELAY_LAG = gauge(
    "heeler_relay_lag_events", "Events that are committed and not on the bus yet.", "service"
)
EVENTS_LEFT_OUT = counter(
    "heeler_relay_events_left_out",
    "Events that the bus cannot take. They are in the log, where consumers read them.",
    "event",
)
CONSUMER_LAG = gauge(
    "heeler_consumer_lag_events",
    "Events of another service's log that are not handled yet.",
    *("service", "upstream"),
)
DEAD_LETTERS = gauge(
    "heeler_dead_letters", "Messages that were given up and not replayed yet.", "service"
)
CONNECTIONS = gauge("heeler_postgres_connections", "Connections to Postgres.", "service", "state")
