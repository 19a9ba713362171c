"""Start a process of a service: `python -m services.<name>` is this and the name."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

from libs.bus.configuration_file import add_file_to
from libs.contracts.environment_parsing import WrongSetting


def start(name: str) -> None:
    """The whole life of a process of a service; one sentence, if its environment is wrong.

    What is loaded stays as long as the process does, so the garbage collector looks through it
    neither while it grows nor later.
    """
    read_file()
    gc.disable()
    import_module("libs.bus.nats_clients_without_extras")
    runtime = import_module("libs.bus.service_runner")
    project = import_module(f"services.{name}.projections").project
    wiring = import_module(f"services.{name}.app").wiring
    gc.freeze()
    gc.enable()
    runtime.main(name, project, wiring)


def read_file() -> None:
    """Add what the configuration file says to the environment, where HEELER_CONFIG names one: in a
    container. A process of the launcher has it in its environment."""
    try:
        warnings = add_file_to(os.environ)
    except WrongSetting as problem:
        sys.exit(str(problem))
    for warning in warnings:
        print(warning, file=sys.stderr, flush=True)
