"""`up`, `down`, `status`: the same promises as the embedded launcher, kept by compose."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from urllib.parse import urlsplit

from deploy.containers import wheels
from deploy.containers.engine import require_engine
from deploy.containers.project import Container, Project
from deploy.embedded.api_health import LAUNCH_PROBE_SECONDS_MAX, Health, read_health
from deploy.embedded.launch_progress import LaunchProgress
from deploy.embedded.listener import require_free_port
from deploy.embedded.process_activity import LOOK_AGAIN_SECONDS
from deploy.embedded.service_settings import print_unused, require_service_settings
from deploy.embedded.settings import (
    SERVICES,
    STALLED_SECONDS_MAX,
    LaunchError,
    Settings,
    require_password,
)
from deploy.embedded.up import home_prefix, print_rows
from deploy.plain_tables import GREEN, RED, print_table
from libs.contracts.listening_address import is_loopback

ADDRESSES = (
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
    "ANTHROPIC_BASE_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
)
PARTS = ("postgres", "nats", "migrate", *SERVICES)


def up(settings: Settings) -> int:
    """Build what has changed, start what does not run, return when all is healthy."""
    started = time.monotonic()
    if settings.processes == "one":
        raise LaunchError("HEELER_PROCESSES=one is not for containers: each of them is a service.")
    require_password(settings)
    require_service_settings()
    print_unused()
    require_engine()
    project = Project(settings)
    project.prepare()
    if not any(
        container.part == "api" and container.state == "running"
        for container in project.containers()
    ):
        require_free_port(settings)
    _warn_of_loopback(project)
    _build(project)
    print(f"Starting Heeler as compose project {project.name}", flush=True)
    if project.run("up", "--detach", "--no-build", "--remove-orphans") != 0:
        raise _not_healthy(project, "Heeler did not start")
    _wait_healthy(project)
    print(f"Heeler is up ({time.monotonic() - started:.1f} s).")
    _print_urls(project)
    return 0


def down(settings: Settings) -> int:
    """Stop and remove the containers; the data stays in its volumes."""
    require_engine()
    project = Project(settings)
    if not project.env_file.exists() or not project.containers():
        print("Heeler is not running.")
        return 0
    if project.run("down", "--remove-orphans") != 0:
        raise LaunchError("`docker compose down` failed; see above.")
    print("Heeler is stopped.")
    return 0


def status(settings: Settings, *, as_json: bool) -> int:
    """0 when every container is well and the api says so of all behind it, else 1."""
    require_engine()
    project = Project(settings)
    found = project.containers() if project.env_file.exists() else []
    health = read_health(settings.reach_host, settings.port)
    found = sorted((with_health_of_api(container, health) for container in found), key=_order)
    complete = {container.part for container in found} >= set(PARTS)
    healthy = health.all_ok and complete and all(container.well for container in found)
    if as_json:
        rows = [{**asdict(container), "well": container.well} for container in found]
        document = {"project": project.name, "healthy": healthy, "containers": rows}
        print(json.dumps(document, indent=2))
    else:
        _print_table(project, found)
    return 0 if healthy else 1


def with_health_of_api(container: Container, health: Health) -> Container:
    """The container with the api's word on its health where the engine has not looked yet."""
    answers = container.health == "starting" and health.parts.get(container.part) == "ok"
    return replace(container, health="healthy") if answers else container


def wipe(settings: Settings) -> int:
    """Stop, then delete the volumes: all agents are gone."""
    require_engine()
    Project(settings).wipe()
    print(f"Deleted the containers and the data of {settings.home}")
    return 0


def _warn_of_loopback(project: Project) -> None:
    for name in ADDRESSES:
        address = project.environment().get(name, "")
        if is_loopback(urlsplit(address).hostname or ""):
            print(
                f"{name}={address}: in a container that is the container itself. A server on this"
                " machine is host.docker.internal there, if it listens for containers."
            )


def _build(project: Project) -> None:
    wheels.refresh()
    print("Building the images; the first time takes a minute", flush=True)
    if project.run("build", "--quiet") != 0:
        raise LaunchError(
            "The images could not be built; see above. Where containers reach no package index,"
            " `make wheels` downloads the packages here, and the next build takes them."
        )


def _wait_healthy(project: Project) -> None:
    """Return when all is healthy. Raises LaunchError where nothing has changed for a minute."""
    settings, progress = project.settings, LaunchProgress()
    while True:
        health = read_health(settings.reach_host, settings.port, LAUNCH_PROBE_SECONDS_MAX)
        if health.all_ok:
            return
        states = [(each.name, each.state, each.health) for each in project.containers()]
        progress.note({}, [*states, *health.parts.items()])
        if progress.stalled_seconds > STALLED_SECONDS_MAX:
            still = f"Heeler is not healthy, and nothing changed for {STALLED_SECONDS_MAX:.0f} s"
            raise _not_healthy(project, still)
        time.sleep(LOOK_AGAIN_SECONDS)


def _not_healthy(project: Project, what: str) -> LaunchError:
    """The parts that are not well, with the end of the log of the first of them."""
    ailing = [container for container in project.containers() if not container.well]
    if not ailing:
        return LaunchError(f"{what}; see above.")
    first = min(ailing, key=_order)
    states = ", ".join(f"{container.part} is {_state_of(container)}" for container in ailing)
    return LaunchError(f"{what}: {states}.\n--- the end of its log\n{project.log_of(first.part)}")


def _order(container: Container) -> tuple[int, str]:
    """Servers before what needs them."""
    return PARTS.index(container.part) if container.part in PARTS else len(PARTS), container.name


def _state_of(container: Container) -> str:
    if container.well:
        return "ok"
    return (
        f"{container.state} ({container.exit_code})"
        if container.state == "exited"
        else container.health or container.state
    )


def _print_urls(project: Project) -> None:
    api, home = project.settings.api_url, home_prefix(project.settings)
    rows = {
        "API": api,
        "OpenAPI": f"{api}/openapi",
        "health": f"{api}/v1/health",
        "NATS": f"{home}make watch MODE=compose",
        "SQL": f"{home}make psql MODE=compose",
        "logins": str(project.env_file),
        "logs": f"{home}make logs MODE=compose",
        "stop": f"{home}make down MODE=compose",
    }
    print_rows(rows)


def _print_table(project: Project, found: list[Container]) -> None:
    print(f"Heeler as compose project {project.name}")
    rows = [(each.part, _state_of(each), each.since, each.name) for each in found]
    colours = [GREEN if each.well else RED for each in found]
    missing = [part for part in PARTS if part not in {each.part for each in found}]
    rows += [(part, "down", "-", "-") for part in missing]
    colours += [RED for _ in missing]
    print_table(("part", "state", "the engine says", "container"), rows, colours=colours)
