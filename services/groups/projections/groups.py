"""The rows of groups, of their members, and of the blocks that agents have because of them."""

from __future__ import annotations

from libs.contracts.bus_messages import Event, Json, JsonObject
from libs.contracts.groups.groups import (
    GroupBlockAttached,
    GroupBlockDetached,
    GroupConfig,
    GroupCreated,
    GroupDeleted,
    GroupStateUpdated,
    GroupUpdated,
    MemberAdded,
    MemberBlock,
    MemberBlocksChanged,
    MemberRemoved,
    agent_group_fields,
    group_document,
)
from libs.contracts.groups.sleeptime import ReviewRequested, ReviewStarted, RunCounted
from libs.eventstore.read_model_rows import RowWrites, Table

GROUPS = Table("groups")
GROUP_MEMBERS = Table("group_members", aggregate="group_id")
SHARED_BLOCKS = Table("shared_blocks", aggregate="group_id")
REVIEWS = Table("reviews", aggregate="group_id")
GROUP_TABLES = (GROUPS, GROUP_MEMBERS, SHARED_BLOCKS, REVIEWS)

# Fields that stand in a column of their own besides their place in the document, or instead of it.
COLUMNS = ("name", "manager_type", "manager_agent_id", "agent_ids", "hidden", "metadata")


def project_group(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the rows of a group."""
    group_id, at = event.originator_id, event.timestamp.isoformat()
    match event:
        case GroupCreated():
            rows.upsert(GROUPS, group_row(event, org))
            for agent_id in event.config.agent_ids:
                rows.upsert(GROUP_MEMBERS, member_row(group_id, agent_id, org, at))
        case GroupUpdated():
            rows.patch(GROUPS, {"id": group_id, "updated_at": at, **columns_of(event.changes)})
        case MemberAdded():
            rows.upsert(GROUP_MEMBERS, member_row(group_id, event.agent_id, org, at))
            patch_members(event, rows)
        case MemberRemoved():
            rows.delete(GROUP_MEMBERS, "id", f"{group_id} {event.agent_id}")
            patch_members(event, rows)
        case GroupBlockAttached() | GroupBlockDetached():
            shared: JsonObject = {"shared_block_ids": [*event.block_ids]}
            rows.patch(GROUPS, {"id": group_id, "updated_at": at, **columns_of(shared)})
        case GroupStateUpdated():
            written: JsonObject = {"shared_state": event.state, "state_version": event.version}
            rows.patch(GROUPS, {"id": group_id, "updated_at": at, **written})
        case MemberBlocksChanged():
            for pair in event.changed:
                rows.upsert(SHARED_BLOCKS, shared_row(group_id, pair, org))
            for pair in event.returned:
                rows.delete(SHARED_BLOCKS, "id", str(shared_row(group_id, pair, org)["id"]))
        case RunCounted():
            rows.patch(GROUPS, {"id": group_id, "fields": {"turns_counter": event.turns_counter}})
        case ReviewRequested():
            last: JsonObject = {"last_processed_message_id": event.review.last_message_id}
            rows.patch(GROUPS, {"id": group_id, "fields": last})
            rows.upsert(REVIEWS, review_row(event, org))
        case ReviewStarted():
            rows.delete(REVIEWS, "id", review_id(group_id, event.run_id))
        case GroupDeleted():
            rows.delete(REVIEWS, "group_id", group_id)
            rows.delete(GROUPS, "id", group_id)
            rows.delete(GROUP_MEMBERS, "group_id", group_id)


def group_row(event: GroupCreated, org: str) -> JsonObject:
    """The row of a new group."""
    at = event.timestamp.isoformat()
    own: JsonObject = {"id": event.originator_id, "org": org, "created_at": at, "updated_at": at}
    state: JsonObject = {"shared_state": event.shared_state, "state_version": 0}
    fields = fields_of(event.originator_id, event.config, event)
    columns = columns_of(event.config.model_dump(mode="json"))
    return {**own, **state, **columns, "fields": fields}


def fields_of(group_id: str, config: GroupConfig, event: Event) -> JsonObject:
    """The document of a group, as far as it stands in one column."""
    ours = agent_group_fields(config, event.timestamp)
    ours.pop("metadata")
    return {**group_document(group_id, config), **ours}


def columns_of(changes: JsonObject) -> JsonObject:
    """The columns that hold these fields of a group."""
    apart: JsonObject = {name: changes[name] for name in COLUMNS if name in changes}
    fields = {name: value for name, value in changes.items() if name != "metadata"}
    return {**apart, "fields": fields}


def patch_members(event: MemberAdded | MemberRemoved, rows: RowWrites) -> None:
    """Show the members that a group has now."""
    members: list[Json] = [*event.agent_ids]
    own: JsonObject = {"id": event.originator_id, "updated_at": event.timestamp.isoformat()}
    rows.patch(GROUPS, {**own, **columns_of({"agent_ids": members})})


def member_row(group_id: str, agent_id: str, org: str, at: str) -> JsonObject:
    """An agent that is in a group since then."""
    return {
        "id": f"{group_id} {agent_id}",
        "group_id": group_id,
        "agent_id": agent_id,
        "org": org,
        "joined_at": at,
    }


def review_id(group_id: str, run_id: str) -> str:
    """The key of a review that has not started."""
    return f"{group_id} {run_id}"


def review_row(event: ReviewRequested, org: str) -> JsonObject:
    """A review that is to be started."""
    group_id, at = event.originator_id, event.timestamp.isoformat()
    own: JsonObject = {"id": review_id(group_id, event.review.run_id), "group_id": group_id}
    return {**own, "org": org, "requested_at": at}


def shared_row(group_id: str, pair: MemberBlock, org: str) -> JsonObject:
    """A block that a group shares with an agent."""
    return {
        "id": f"{group_id} {pair.key}",
        "group_id": group_id,
        "agent_id": pair.agent_id,
        "block_id": pair.block_id,
        "status": pair.status,
        "org": org,
    }
