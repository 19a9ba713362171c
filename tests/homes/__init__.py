"""Homes that releases left behind: a dump of the database, and what the API answered from it."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "recorded" / "homes"
DUMP = "database.sql.gz"
ANSWERS = "answers.json"
