"""The registry of services says what is there, and nothing else."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import COMMANDS, EVENTS
from libs.contracts.service_registry import SERVICES, Service, load_contracts, names, receivers

FOLDER = Path(__file__).resolve().parents[3] / "services"


def aggregates(service: str) -> set[str]:
    """The aggregates that a service's domain defines."""
    found: set[str] = set()
    modules = [each.name for each in walk_packages([str(FOLDER / service)], f"services.{service}.")]
    for name in modules:
        if name.split(".")[2] == "domain":
            found |= {
                one.__name__
                for one in vars(import_module(name)).values()
                if isinstance(one, type) and issubclass(one, Aggregate) and one.__module__ == name
            }
    return found


def test_every_folder_of_a_service_is_declared() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__main__.py")}
    assert folders == set(names())


@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_a_declaration_says_what_there_is(service: Service) -> None:
    assert aggregates(service.name) == set(service.aggregates)
    assert {*receivers(service), *service.follows} <= set(names())
    load_contracts()
    assert set(service.sends_only) <= COMMANDS.keys()
    app = import_module(f"services.{service.name}.app")
    assert callable(app.wiring)
    projections = import_module(f"services.{service.name}.projections")
    assert callable(projections.project)
    assert isinstance(projections.READ_MODELS, tuple)


def test_every_message_stands_in_a_declared_contract() -> None:
    load_contracts()
    declared = {module for service in SERVICES for module in service.contracts}
    declared |= {"libs.contracts.dead_letter_commands", "libs.contracts.health_commands"}
    for kind in [*COMMANDS.values(), *EVENTS.values()]:
        if kind.service in names():
            assert kind.__module__ in declared
