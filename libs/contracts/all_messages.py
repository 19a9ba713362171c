"""The messages of all services, registered as their modules are imported."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

from libs.contracts import appended_histories, moments, per_service_commands  # noqa: F401
from libs.contracts.service_registry import names


def load_contracts() -> None:
    """Import the messages of every service, so that all are registered. Safe to repeat."""
    for name in names():
        package = f"libs.contracts.{name}"
        if find_spec(package):
            for module in walk_packages(import_module(package).__path__, f"{package}."):
                import_module(module.name)
