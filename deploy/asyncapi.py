"""Writes docs/asyncapi.json from the registry of messages: `python -m deploy.asyncapi`."""

from __future__ import annotations

import json
from pathlib import Path

from libs.contracts.asyncapi import document

PAGE = Path(__file__).resolve().parent.parent / "docs" / "asyncapi.json"


def page_text() -> str:
    """The document as it is committed."""
    return json.dumps(document(), indent=2) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page_text())
