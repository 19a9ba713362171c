"""Stand-ins for the services, to test the launcher alone (HEELER_SERVICES_PACKAGE)."""

import sys

# nats-py loads it for websockets, which nobody here uses, and that is half of the start.
sys.modules["aiohttp"] = None  # type: ignore[assignment]
