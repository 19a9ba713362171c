"""Where the command keeps what belongs to the user: in folders that may be missing or read-only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def configuration_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Of what the user has set."""
    return _folder(environment, "XDG_CONFIG_HOME", ".config")


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Of what the command remembers."""
    return _folder(environment, "XDG_STATE_HOME", ".local/state")


def _folder(environment: Mapping[str, str], variable: str, below_home: str) -> Path:
    """One in which nothing is, and nothing can be written, where the user has no home."""
    try:
        folder = environment.get(variable) or Path.home() / below_home
    except RuntimeError:
        folder = os.devnull
    return Path(folder) / "heeler"
