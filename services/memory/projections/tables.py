"""The tables that clients and other services read."""

from __future__ import annotations

from libs.eventstore.read_model_rows import Table

BLOCKS = Table("blocks")
PASSAGES = Table("passages", aggregate="owner_id", kept=("large",))
READ_MODELS = (BLOCKS,)
