"""Events of the groups service as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event
from libs.contracts.groups.group_runs import GroupEvent
from libs.eventstore.read_model_rows import RowWrites, Table
from services.groups.projections.group_runs import GROUP_RUN_TABLES, project_group_run
from services.groups.projections.groups import GROUP_TABLES, project_group
from services.groups.projections.routing import ROUTING_TABLES, project_routing

READ_MODELS: tuple[Table, ...] = (*GROUP_TABLES, *ROUTING_TABLES, *GROUP_RUN_TABLES)


def project(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the read models."""
    if isinstance(event, GroupEvent):
        project_group_run(event, org, rows)
    else:
        project_group(event, org, rows)
        project_routing(event, org, rows)
