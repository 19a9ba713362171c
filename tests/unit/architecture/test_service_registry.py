"""The registry of services says what is there, and nothing else."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from libs.contracts.all_messages import load_contracts
from libs.contracts.bus_messages import COMMANDS, EVENTS
from libs.contracts.service_registry import SERVICES, Service, names, receivers

OF_EVERY_SERVICE = (
    "libs.contracts.per_service_commands",
    "libs.contracts.appended_histories",
    "libs.contracts.moments",
)
CHECKOUT = Path(__file__).resolve().parents[3]
FOLDER = CHECKOUT / "services"


def test_every_folder_of_a_service_is_declared() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__main__.py")}
    assert folders == set(names())


def test_every_folder_of_code_says_what_it_depends_on() -> None:
    folders = {path.parent for path in CHECKOUT.glob("[ls]*/*/__init__.py")}
    members = {folder for folder in folders if (folder / "pyproject.toml").is_file()}
    assert members == folders, "each has a pyproject.toml, and a place in that of the project"


def test_the_project_depends_on_what_its_members_depend_on() -> None:
    """`pip install .` knows no workspace."""
    members = [*CHECKOUT.glob("libs/*/pyproject.toml"), *CHECKOUT.glob("services/*/pyproject.toml")]
    wanted = {dependency for member in members for dependency in dependencies_of(member)}
    wanted -= {member.parent.name for member in members}
    assert wanted <= dependencies_of(CHECKOUT / "pyproject.toml")


def dependencies_of(file: Path) -> set[str]:
    return {*tomllib.loads(file.read_text())["project"]["dependencies"]}


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_declaration_says_what_there_is(service: Service) -> None:
    assert {*receivers(service), *service.follows} <= set(names())
    load_contracts()
    assert set(service.sends_only) <= COMMANDS.keys()
    app = import_module(f"services.{service.name}.app")
    assert callable(app.wiring)
    projections = import_module(f"services.{service.name}.projections")
    assert callable(projections.project)
    assert isinstance(projections.READ_MODELS, tuple)


def test_every_message_stands_in_the_contracts_of_its_service() -> None:
    load_contracts()
    for kind in [*COMMANDS.values(), *EVENTS.values()]:
        if kind.service in names():
            rooms = (f"libs.contracts.{kind.service}.", *OF_EVERY_SERVICE)
            assert kind.__module__.startswith(rooms), f"{kind.__name__} does not stand in {rooms}"


def test_the_page_on_containers_has_each_service() -> None:
    page = (CHECKOUT / "docs" / "containers.md").read_text()
    [*_, row] = [line for line in page.splitlines() if line.startswith("| `memory`")]
    for name in set(names()) - {"api"}:
        assert f"`{name}`" in row
        assert f"`heeler-{name}`" in row
