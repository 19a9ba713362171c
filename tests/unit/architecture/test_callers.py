"""Whose organisation a request is about, is known in one place."""

from __future__ import annotations

import ast
from pathlib import Path

API = Path(__file__).parents[3] / "services" / "api"
CALLERS = API / "http" / "callers.py"
DEFAULTS = {"DEFAULT_ORG", "DEFAULT_USER"}


def names_in(module: Path) -> set[str]:
    """All names that a module imports, reads or asks another object for."""
    names = set()
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.alias(name=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                names.add(name)
    return names


def called_in(module: Path) -> set[str]:
    """The functions and classes that a module calls by their bare names."""
    return {
        node.func.id
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


def test_only_the_authenticator_of_one_organisation_names_that_organisation_and_its_user() -> None:
    naming = [module for module in API.rglob("*.py") if names_in(module) & DEFAULTS]
    assert naming == [CALLERS]


def test_only_who_authenticates_and_who_asks_the_api_itself_say_who_a_caller_is() -> None:
    naming = {module.stem for module in API.rglob("*.py") if "CALLER" in names_in(module)}
    assert naming == {"callers", "request_admission", "internal_requests", "own_api"}
    making = {module.stem for module in API.rglob("*.py") if "Caller" in called_in(module)}
    assert making == {"callers", "app"}


def test_commands_are_sent_in_the_name_of_the_caller_but_for_the_health_checks() -> None:
    building = {module.stem for module in API.rglob("*.py") if "Context" in called_in(module)}
    # Imports and restores go on in the name of those who asked for them.
    assert building == {"request_parsing", "service_health", "import_ports", "restores"}
