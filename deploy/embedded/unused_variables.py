"""Variables of the person's environment that nothing here reads, with what to use instead."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

from libs.contracts.configuration.catalogue import read_variables

# Read by neither the launcher nor the services: by deploy/bootstrap.sh, in containers, in tests,
# and by the command.
READ_ELSEWHERE = frozenset(
    f"HEELER_{name}" for name in ("PYTHON", "FAILPOINTS", "URL", "API_KEY", "TEMPLATES")
)
READ_ELSEWHERE_PREFIXES = ("HEELER_NATS_IMAGE", "HEELER_POSTGRES_IMAGE", "HEELER_PYTHON_IMAGE")
SET_BY_THE_LAUNCHER = (
    *("HEELER_DATABASE_URL", "HEELER_DATABASE_URLS", "HEELER_NATS_URL", "HEELER_NATS_URLS"),
    *("HEELER_INSTANCE", "HEELER_LISTEN_DESCRIPTOR", "HEELER_SERVICE_PASSWORDS"),
    *("HEELER_ADMIN_DATABASE_URL", "HEELER_CONFIGURATION_STATE"),
)
# What Letta's clients read, and Letta Code, which may well be set where the server is started.
OF_CLIENTS = frozenset(
    f"LETTA_{name}"
    for name in (
        *("API_KEY", "BASE_URL", "CUSTOM_HEADERS", "LOG", "PROJECT", "PROJECT_ID"),
        *("AGENT_ID", "CONVERSATION_ID", "PARENT_AGENT_ID", "TOOL_ID", "HOME", "MEMORY_DIR"),
        *("BACKFILL", "DISABLE_CRON_SCHEDULER", "DISABLE_KITTY", "DISABLE_LSP_DOWNLOAD"),
        *("DISABLE_SESSION_PERSIST", "ENABLE_LSP", "LOG_WS_EVENTS", "PACKAGE_MANAGER"),
        *("PERMISSIONS_V2", "REQUEST_TIMEOUT_MS", "RESPONSES_WS", "RESTORE_ENABLED_CHANNELS"),
        *("SCRATCHPAD", "SHOW_RELEASE_NOTES", "SKIP_KEYCHAIN_CHECK", "TOOL_MIDDLE_TRUNCATE"),
        *("TOOL_OVERFLOW_TO_FILE", "SLACK_INBOUND_DEBOUNCE_MS"),
    )
)
OF_CLIENTS_PREFIXES = tuple(
    f"LETTA_{start}_"
    for start in ("CODE", "DEBUG", "DESKTOP", "LISTENER", "LOCAL_BACKEND", "MEMFS", "TUI")
)
HONOURED_OF_V1 = ("LETTA_SERVER_PASSWORD", "LETTA_OTEL_")

OWN_POSTGRES = "Heeler brings its own Postgres, whose data is in HEELER_HOME"
COMPATIBLE = "set OPENAI_API_BASE to its address, and name its models openai/<model>"
COMPATIBLE_KEY = (
    "set OPENAI_API_BASE to the address at which this provider speaks OpenAI's API, and"
    " OPENAI_API_KEY to this key"
)
# What V1 reads, and we do not.
OF_V1 = {
    "LETTA_SERVER_SECURE": "set HEELER_PASSWORD: then every request needs it",
    "LETTA_SERVER_PORT": "set HEELER_PORT",
    "LETTA_SERVER_HOST": "set HEELER_HOST",
    "LETTA_DIR": "set HEELER_HOME",
    "LETTA_ENCRYPTION_KEY": (
        "`heeler migrate letta` alone reads it; HEELER_ENCRYPTION_KEYS has the keys of this server"
    ),
    "LETTA_DEBUG": "set HEELER_LOG_LEVEL=debug",
    "LETTA_LOG_LEVEL": "set HEELER_LOG_LEVEL",
    "LETTA_UVICORN_WORKERS": "set HEELER_REPLICAS",
    "LETTA_ACCEPTABLE_ORIGINS": "set HEELER_CORS_ORIGINS",
    "ACCEPTABLE_ORIGINS": "set HEELER_CORS_ORIGINS",
    "VLLM_API_BASE": COMPATIBLE,
    "LMSTUDIO_BASE_URL": COMPATIBLE,
    "SGLANG_API_BASE": COMPATIBLE,
    "OLLAMA_BASE_URL": COMPATIBLE,
    "AZURE_API_KEY": COMPATIBLE_KEY,
    "AZURE_BASE_URL": COMPATIBLE,
    "GEMINI_API_KEY": COMPATIBLE_KEY,
    "GEMINI_BASE_URL": COMPATIBLE,
    **{
        f"{provider}_API_KEY": COMPATIBLE_KEY
        for provider in (
            *("GROQ", "TOGETHER", "DEEPSEEK", "XAI", "MISTRAL", "OPENROUTER"),
            *("FIREWORKS", "ZAI", "MINIMAX", "BASETEN"),
        )
    },
    "E2B_API_KEY": "the code of tools runs here: see HEELER_SANDBOX in docs/sandbox.md",
    "E2B_SANDBOX_TEMPLATE_ID": "the code of tools runs here: see HEELER_SANDBOX in docs/sandbox.md",
    "TOOL_SANDBOX_TIMEOUT": "set HEELER_TOOL_SECONDS_MAX",
}
OF_V1_PREFIXES = {
    "LETTA_PG_": OWN_POSTGRES,
    "LETTA_REDIS_": "Heeler needs no Redis",
    "LETTA_": "this variable of Letta is not read here; docs/configuration.md lists those that are",
}


def unused_lines(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that nobody reads."""
    found = unused_variables(environment, read_variables())
    return [f"{name} is not used: {advice}." for name, advice in found.items()]


def unused_variables(environment: Mapping[str, str], read: Collection[str]) -> dict[str, str]:
    """The variables that are set for a server such as this one and that nobody reads, each with
    what to do; `read` are those that somebody asks for."""
    return {
        name: advice
        for name, value in sorted(environment.items())
        if value and name not in read and (advice := advice_about(name, read))
    }


def advice_about(name: str, read: Collection[str]) -> str:
    """The variable to use in place of one that nobody reads; empty if it is none of ours."""
    if name in SET_BY_THE_LAUNCHER:
        return "the launcher sets it itself for each process"
    if name.startswith("HEELER_"):
        if name in READ_ELSEWHERE or name.startswith(READ_ELSEWHERE_PREFIXES):
            return ""
        alike = difflib.get_close_matches(name, sorted(read), n=1, cutoff=0.8)
        advice = f": {alike[0]}?" if alike else "; see docs/configuration.md"
        return f"there is no such variable{advice}"
    if name in OF_CLIENTS or name.startswith((*HONOURED_OF_V1, *OF_CLIENTS_PREFIXES)):
        return ""
    prefixes = (advice for start, advice in OF_V1_PREFIXES.items() if name.startswith(start))
    return OF_V1.get(name) or next(prefixes, "")
