"""Commands that every service takes: one class for each, made from the registry of services."""

from __future__ import annotations

from types import new_class
from typing import Any

from libs.contracts.bus_messages import Command
from libs.contracts.service_registry import names


def command_of_each_service(base: type[Command], class_name: str, topic: str, about: str) -> None:
    """Register a command like `base` for each service. `class_name` has `{Service}` in it, and
    `about`, its docstring, `{service}`."""
    for service in names():
        fields = {
            "__module__": base.__module__,
            "__doc__": about.format(service=service),
            "service": service,
            "topic": topic,
        }

        def fill(namespace: dict[str, Any], fields: dict[str, str] = fields) -> None:
            namespace.update(fields)

        new_class(class_name.format(Service=service.capitalize()), (base,), exec_body=fill)
