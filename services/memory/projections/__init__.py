"""Events of the memory service as rows that clients and other services read."""

from __future__ import annotations

from libs.contracts.bus_messages import Event
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.agent_folders import project_agent_folders
from services.memory.projections.archives import project_archive
from services.memory.projections.blocks import project_block
from services.memory.projections.files import project_file
from services.memory.projections.folders import project_folder
from services.memory.projections.passages import project_passage
from services.memory.projections.reembedding import project_reembedding
from services.memory.projections.tables import READ_MODELS

__all__ = ["READ_MODELS", "project"]


def project(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the read models. Each projection passes over events of other kinds."""
    project_block(event, org, rows)
    project_archive(event, org, rows)
    project_passage(event, org, rows)
    project_folder(event, org, rows)
    project_file(event, org, rows)
    project_agent_folders(event, org, rows)
    project_reembedding(event, org, rows)
