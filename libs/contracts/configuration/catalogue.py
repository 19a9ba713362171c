"""The settings of a server, one declaration for each.

A key is another name for an environment variable that a service or the launcher reads: the file is
translated into these variables, and nothing reads a setting in a second way. The reference page,
the JSON Schema, `heeler config` and the tests are made from this table.
"""

from __future__ import annotations

from collections.abc import Iterator

from libs.contracts.configuration.key import Key
from libs.contracts.configuration.model_keys import MODELS, RUNS
from libs.contracts.configuration.server_keys import SERVER
from libs.contracts.configuration.tool_keys import MCP, TOOLS, WEB_SEARCH
from libs.contracts.configuration.traffic_keys import DEFAULTS, FILES, NETWORK, TELEMETRY

CONFIG_VARIABLE = "HEELER_CONFIG"
CONFIG_FILE = "heeler.toml"

SECTIONS = {
    "server": SERVER,
    "models": MODELS,
    "defaults": DEFAULTS,
    "runs": RUNS,
    "tools": TOOLS,
    "mcp": MCP,
    "network": NETWORK,
    "files": FILES,
    "web_search": WEB_SEARCH,
    "telemetry": TELEMETRY,
}
KEYS = tuple(key for keys in SECTIONS.values() for key in keys)

# Read by the launcher or the services, and no settings of a file: where the file is, and what the
# tests and the launcher itself set.
WITHOUT_KEY = {
    CONFIG_VARIABLE: "the configuration file",
    "HEELER_HOME": "the state folder, in which the file is looked for",
    "HEELER_SERVICES_PACKAGE": "other services in place of Heeler's, for tests",
    "HEELER_MIGRATIONS_MODULE": "other migrations in place of Heeler's, for tests",
    "HEELER_LISTEN_DESCRIPTOR": "a socket that the launcher opened",
    "HEELER_CONFIGURATION_STATE": "what the supervisor says of the configuration",
}


def names_in_file() -> Iterator[tuple[str, Key]]:
    """The names that may stand in a file, each with its key: secrets have two."""
    for key in KEYS:
        yield key.name, key
        if key.secret:
            yield key.file_name, key


def read_variables() -> frozenset[str]:
    """The names of all variables that somebody reads."""
    return frozenset(WITHOUT_KEY).union(*(key.variables for key in KEYS))
