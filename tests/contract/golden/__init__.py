"""The form of every message on the wire and in the log, as files that a review sees change."""

from __future__ import annotations

import json
from pathlib import Path

from libs.contracts.bus_messages import Command, Event
from tests.contract import examples

FOLDER = Path(__file__).parent


def path_of(message: Command | Event) -> Path:
    """`<service>/<topic>.v<schema version>.json`; a command has one version."""
    version = getattr(message, "schema_version", 1)
    return FOLDER / message.service / f"{message.topic}.v{version}.json"


def text_of(message: Command | Event) -> str:
    """The payload as it travels, laid out for people."""
    payload = message.payload_json() if isinstance(message, Event) else message.model_dump_json()
    return json.dumps(json.loads(payload), indent=2, ensure_ascii=False) + "\n"


def golden() -> dict[Path, str]:
    """What the files should say."""
    return {
        path_of(command): text_of(command) for command in [*examples.COMMANDS, *examples.EVENTS]
    }
