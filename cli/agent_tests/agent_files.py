"""The agent of a scenario, from its file to the request that makes it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def create_request(file: Path) -> dict[str, Any]:
    """What makes the agent of a file."""
    given = tomllib.loads(file.read_text())
    return {
        "name": given["name"],
        "system": given["system_prompt"],
        "description": given.get("description"),
        "memory_blocks": [
            {key: value for key, value in block.items() if key in ("label", "value", "limit")}
            for block in given.get("memory", [])
        ],
        "tools": given.get("tools", []),
        "include_base_tools": False,
    }
