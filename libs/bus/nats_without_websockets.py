"""Import nats-py without aiohttp, which it loads for websockets wherever aiohttp is installed.

Nobody here speaks them, and a process that needs aiohttp for nothing else starts sooner and is
smaller. Import this before anything that imports nats.
"""

from __future__ import annotations

import sys

if "aiohttp" not in sys.modules and "nats" not in sys.modules:
    sys.modules["aiohttp"] = None  # type: ignore[assignment]  # so Python says: it is not there
    try:
        import nats.aio.client  # noqa: F401
    finally:
        del sys.modules["aiohttp"]
