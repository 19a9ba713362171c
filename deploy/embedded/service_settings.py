"""Settings that the services would refuse, reported before anything is started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial

from deploy.embedded.settings import LaunchError, launch_configuration, settings_of
from deploy.embedded.unused_variables import unused_lines
from libs.bus.configuration_file import Configuration
from libs.bus.service_settings import erase_after_seconds, log_level
from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.service_registry import ENCRYPTION_KEYS
from libs.contracts.tools.tool_permission_evaluation import system_list
from libs.egress.address_guard import CALLBACK_HOSTS, FETCH_HOSTS, MCP_HOSTS, AddressGuard
from libs.encryption.sealing_keys import read_keys
from libs.telemetry.settings import TelemetrySettings
from services.agent.adapters.models.prices import price_tables
from services.agent.settings import Deadlines, ProviderSettings, summary_limits
from services.api.settings import ApiSettings
from services.memory.settings import EmbeddingSettings
from services.tools.adapters.mcp.allowed_commands import allowed_commands
from services.tools.adapters.mcp.deadlines import McpDeadlines
from services.tools.adapters.mcp_servers_file import declarations
from services.tools.adapters.package_settings import PackageSettings
from services.tools.adapters.web_search import SearchSettings
from services.tools.settings import ToolsSettings


def encryption_keys(environment: Mapping[str, str]) -> list[str]:
    """The keys that the person gives instead of those of the home. Raises WrongSetting."""
    return read_keys(environment) if environment.get(ENCRYPTION_KEYS) else []


# Only what they read of a person's environment. One that is missing here is refused by the service.
READERS: tuple[Callable[[Mapping[str, str]], object], ...] = (
    log_level,
    erase_after_seconds,
    partial(TelemetrySettings.from_environment, "launcher"),
    ProviderSettings.from_environment,
    Deadlines.from_environment,
    summary_limits,
    *(
        partial(AddressGuard.from_environment, setting)
        for setting in (CALLBACK_HOSTS, MCP_HOSTS, FETCH_HOSTS)
    ),
    EmbeddingSettings.from_environment,
    McpDeadlines.from_environment,
    allowed_commands,
    price_tables,
    encryption_keys,
    ToolsSettings.from_environment,
    PackageSettings.from_environment,
    system_list,
    declarations,
    SearchSettings.from_environment,
    ApiSettings.from_environment,
)


def require_service_settings(environment: Mapping[str, str] = os.environ) -> None:
    """Raise LaunchError where a service would end at its start, again and again: what the
    environment and the configuration file say is wrong. All problems at once."""
    configuration = launch_configuration(environment)
    if problems := setting_problems(configuration):
        raise LaunchError(".\n".join(problems) + ".")


def setting_problems(configuration: Configuration) -> list[str]:
    """The refusals of the launcher and the services, each with the place of the setting."""
    problems: dict[str, None] = {}
    for read in (settings_of, *READERS):
        try:
            read(configuration.environment)
        except WrongSetting as problem:
            problems[configuration.explain(problem)] = None
    return list(problems)


def print_unused(environment: Mapping[str, str] = os.environ) -> None:
    """Name what was set in vain, in the environment and in the file, and what to use instead."""
    for line in (*launch_configuration(environment).warnings, *unused_lines(environment)):
        print(line, flush=True)
