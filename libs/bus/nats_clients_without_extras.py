"""Import nats-py and FastStream without what they load wherever it is installed.

nats-py loads aiohttp for websockets, FastStream uvicorn for a server of its own; nobody here uses
either. A process that needs them for nothing else starts sooner and is smaller. Import this before
anything that imports the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

EXTRAS = {"nats.aio.client": "aiohttp", "faststream.nats": "uvicorn"}


@contextmanager
def not_installed(package: str) -> Iterator[None]:
    """Have Python say that a package is not there."""
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


for module, extra in EXTRAS.items():
    if extra not in sys.modules and module.partition(".")[0] not in sys.modules:
        with not_installed(extra):
            import_module(module)
