"""Logs as JSON lines on stderr, each with the correlation id of the request it belongs to."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar

from pythonjsonlogger.json import JsonFormatter

correlation: ContextVar[str] = ContextVar("correlation", default="")
# Several services may share a process: each sets its name before it starts its tasks.
service_name: ContextVar[str | None] = ContextVar("service_name", default=None)


class WithContext(logging.Filter):
    """Adds what every line carries."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self.process = process

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the service and the correlation id; keep the line."""
        record.service = service_name.get() or self.process
        record.correlation_id = correlation.get()
        return True


def configure_logs(process: str, level: str) -> None:
    """Send every log line of this process to stderr as JSON. A line of no service in particular
    bears the name of the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(WithContext(process))
    handler.setFormatter(
        JsonFormatter(
            "%(asctime)s %(levelname)s %(service)s %(name)s %(correlation_id)s %(message)s",
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in ("httpx", "httpx2", "httpcore", "openai", "psycopg.pool", "nats"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
