"""Commands that start the processes of the services: program, addresses, passwords, environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace

from deploy.embedded import postgres_server, service_environment
from deploy.embedded.applied_configuration import FILE as CONFIGURATION_FILE
from deploy.embedded.encryption_keys import open_encryption_keys
from deploy.embedded.nats_server import nats_url
from deploy.embedded.settings import (
    ALL_SERVICES,
    CHECKOUT,
    DATABASE,
    SERVICES,
    Settings,
    service_of,
)
from deploy.embedded.state import Secrets
from deploy.embedded.subprocesses import Command
from libs.contracts.service_registry import ENCRYPTION_KEYS, database_role
from libs.contracts.service_registry import SERVICES as REGISTRY

CONFIGURATION_STATE = "HEELER_CONFIGURATION_STATE"
WORKSPACES, WORKSPACES_FOLDER = "HEELER_WORKSPACES", "workspaces"
PACKAGES, PACKAGES_FOLDER = "HEELER_PACKAGES_FOLDER", "packages"
FORK_SERVER = "deploy.embedded.service_fork_server"
LOADED_FIRST = ("libs.bus.nats_clients_without_extras", "libs.bus.service_runner")
# What services load as they start, and not as they are loaded.
LOADED_LAST = (
    *("anyio._backends._asyncio", "litestar._kwargs", "litestar.plugins.attrs"),
    *("litestar.plugins.pydantic", "litestar.middleware.response_cache", "uvicorn.lifespan.on"),
)
WITH_WORKSPACES = ("tools", ALL_SERVICES)
HTTP_PARTS = (*(each.name for each in REGISTRY if each.serves_clients), ALL_SERVICES)


def service_command(
    settings: Settings, secrets: Secrets, ports: dict[str, int], name: str
) -> Command:
    """The command that starts a process: of `agent`, of its replica `agent-2`, or of all services.
    The keys of secrets are those of the home, if the person has set no others."""
    service = service_of(name)
    keys = settings.environment.get(ENCRYPTION_KEYS) or open_encryption_keys(settings.home)
    urls = {
        each: postgres_server.database_url(
            port=ports["postgres"],
            database=DATABASE,
            user=database_role(each),
            password=secrets.service_passwords[each],
        )
        for each in SERVICES
    }
    buses = {
        each: nats_url(port=ports["nats"], user=each, password=secrets.nats_passwords[each])
        for each in SERVICES
    }
    given = service_environment.of_service(service, {**settings.environment, ENCRYPTION_KEYS: keys})
    ours: dict[str, str] = {}
    if service in HTTP_PARTS:
        ours |= {"HEELER_HOST": settings.host, "HEELER_PORT": str(settings.port)}
        ours[CONFIGURATION_STATE] = str((settings.home / CONFIGURATION_FILE).resolve())
    if service in WITH_WORKSPACES and not given.get(WORKSPACES):
        ours[WORKSPACES] = str((settings.home / WORKSPACES_FOLDER).resolve())
    if service in WITH_WORKSPACES and not given.get(PACKAGES):
        ours[PACKAGES] = str((settings.home / PACKAGES_FOLDER).resolve())
    if service == ALL_SERVICES:
        ours |= {
            "HEELER_DATABASE_URLS": json.dumps(urls),
            "HEELER_NATS_URLS": json.dumps(buses),
        }
        return python_command(settings, name, "deploy.embedded.one_process", given, **ours)
    ours |= {"HEELER_DATABASE_URL": urls[service], "HEELER_NATS_URL": buses[service]}
    module = f"{settings.services_package}.{service}"
    return python_command(settings, name, module, given, **ours)


def fork_server_command(settings: Settings) -> Command:
    """How the process is started from which those of the services are forked. Nothing of what they
    read is in its environment."""
    package = settings.services_package
    modules = [f"{package}.{name}.{room}" for name in SERVICES for room in ("app", "projections")]
    command = python_command(settings, "forks", FORK_SERVER, service_environment.of_server())
    return replace(command, argv=[*command.argv, *LOADED_FIRST, *modules, *LOADED_LAST])


def python_command(
    settings: Settings, name: str, module: str, given: Mapping[str, str], **more: str
) -> Command:
    # A service that comes back should not compile itself first: that is half of its start.
    ours = {
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    return Command(
        name=name,
        argv=[sys.executable, "-m", module],
        environment={"HEELER_LOG_LEVEL": "info", **given, **ours, **more},
        folder=CHECKOUT,
        log=settings.log(name),
    )
