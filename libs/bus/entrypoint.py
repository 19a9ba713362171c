"""Start a process of a service: `python -m services.<name>` is this and the name."""

from __future__ import annotations

import gc
from importlib import import_module


def start(name: str) -> None:
    """The whole life of a process of a service; one sentence, if its environment is wrong.

    What is loaded stays as long as the process does, so the garbage collector looks through it
    neither while it grows nor later.
    """
    gc.disable()
    import_module("libs.bus.nats_clients_without_extras")
    runtime = import_module("libs.bus.service_runner")
    project = import_module(f"services.{name}.projections").project
    wiring = import_module(f"services.{name}.app").wiring
    gc.freeze()
    gc.enable()
    runtime.main(name, project, wiring)
