"""Logs as JSON lines on stderr, each with the correlation id of the request it belongs to."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar

from pythonjsonlogger.json import JsonFormatter

correlation: ContextVar[str] = ContextVar("correlation", default="")


class WithContext(logging.Filter):
    """Adds what every line carries."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the service and the correlation id; keep the line."""
        record.service = self.service
        record.correlation_id = correlation.get()
        return True


def configure_logs(service: str, level: str) -> None:
    """Send every log line of this process to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(WithContext(service))
    handler.setFormatter(
        JsonFormatter(
            "%(asctime)s %(levelname)s %(service)s %(name)s %(correlation_id)s %(message)s",
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in ("httpx", "httpx2", "httpcore", "openai", "psycopg.pool", "nats"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
