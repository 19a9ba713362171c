"""Events about routed messages and topics as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.groups.routing import (
    DeliveryFailed,
    MessageDelivered,
    MessageRouted,
    RoutedMessageAccepted,
    RoutedMessageCompleted,
    RoutedMessageFailed,
)
from libs.contracts.groups.topics import AgentSubscribed, AgentUnsubscribed
from libs.eventstore.read_model_rows import RowWrites, Table

ROUTED_MESSAGES = Table("routed_messages")
ROUTED_DELIVERIES = Table(
    "routed_deliveries", key=("routed_message_id", "number"), aggregate="routed_message_id"
)
SUBSCRIBERS = Table("subscribers", key=("id",), aggregate="topic_id")
ROUTING_TABLES = (ROUTED_MESSAGES, ROUTED_DELIVERIES, SUBSCRIBERS)


def project_routing(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the rows of routed messages and topics."""
    at = event.timestamp.isoformat()
    match event:
        case RoutedMessageAccepted():
            recipients = event.request.recipients.model_dump(mode="json")
            row: JsonObject = {"id": event.originator_id, "org": org, "created_at": at}
            row |= {"pattern": event.request.pattern, "status": "active"}
            row |= {"deadline_at": event.deadline_at.isoformat(), "recipients": recipients}
            row["bids_until"] = event.bids_until.isoformat() if event.bids_until else None
            rows.upsert(ROUTED_MESSAGES, row)
        case RoutedMessageCompleted():
            row = {"id": event.originator_id, "status": "completed", "ended_at": at}
            rows.patch(ROUTED_MESSAGES, {**row, "answers": [*event.answers]})
        case RoutedMessageFailed():
            row = {"id": event.originator_id, "status": "failed", "ended_at": at}
            error: JsonObject = {"code": event.code, "reason": event.reason}
            rows.patch(ROUTED_MESSAGES, {**row, "error": error})
        case MessageRouted() | MessageDelivered() | DeliveryFailed():
            project_delivery(event, org, rows)
        case AgentSubscribed():
            row = {"id": subscription_id(event), "topic_id": event.originator_id, "org": org}
            row |= {"topic": event.name, "agent_id": event.agent_id, "created_at": at}
            rows.upsert(SUBSCRIBERS, row)
        case AgentUnsubscribed():
            rows.delete(SUBSCRIBERS, "id", subscription_id(event))


def project_delivery(
    event: MessageRouted | MessageDelivered | DeliveryFailed, org: str, rows: RowWrites
) -> None:
    """The row of one delivery."""
    at = event.timestamp.isoformat()
    row: JsonObject = {"routed_message_id": event.originator_id, "number": event.number}
    match event:
        case MessageRouted():
            row |= {"org": org, "agent_id": event.agent_id, "run_id": event.run_id}
            row |= {"purpose": event.purpose, "stage": event.stage, "status": "pending"}
            rows.upsert(ROUTED_DELIVERIES, {**row, "sent_at": at})
        case MessageDelivered():
            done: JsonObject = {"status": "delivered", "ended_at": at, "bid": event.bid}
            rows.patch(ROUTED_DELIVERIES, row | done)
        case DeliveryFailed():
            done = {"status": "failed", "ended_at": at, "reason": event.reason}
            rows.patch(ROUTED_DELIVERIES, row | done)


def subscription_id(event: AgentSubscribed | AgentUnsubscribed) -> str:
    """The key of the row of a subscription."""
    return f"{event.originator_id}/{event.agent_id}"
