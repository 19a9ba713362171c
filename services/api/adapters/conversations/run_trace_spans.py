"""The trace of a run from what is recorded of it: a span for the run, for each step and each tool
call, with the columns that V1's traces have."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.agent_state import timestamp

SERVICE_NAME = "heeler"
ROOT, STEP = "agent_run", "agent_step"
STATUS = {"completed": "Ok", "success": "Ok", "failed": "Error", "error": "Error"}


def spans_of(facts: Any) -> list[JsonObject]:
    """The spans of a run, in the order of their starts; `facts` is its `RUN_TRACE`."""
    run = facts["run"]
    trace_id = next((step["trace_id"] for step in facts["steps"] if step["trace_id"]), "")
    trace_id = trace_id or digest(run["id"], 32)
    root = digest(run["id"], 16)
    begun = moment(run["created_at"])
    spans = [
        span(trace_id, root, "", ROOT, begun, run["total_duration_ns"])
        | status_of(run["status"], (facts["error"] or {}).get("message", ""))
        | {"SpanAttributes": {"run_id": run["id"], "agent_id": run["agent_id"]}}
    ]
    for step in facts["steps"]:
        ended, model_ns = moment(step["at"]), step["model_ns"] or 0
        since = ended - timedelta(microseconds=model_ns / 1_000)
        spans.append(
            span(trace_id, digest(step["id"], 16), root, STEP, since, model_ns)
            | status_of(step["status"])
            | {"SpanAttributes": {"step_id": step["id"], "model": step["model"]}}
        )
    spans += [call_span(trace_id, call) for call in calls_of(facts["calls"])]
    return sorted(spans, key=lambda span: str(span["Timestamp"]))


def calls_of(events: list[Any]) -> list[dict[str, Any]]:
    """The tool calls that began, each with its end, as far as there is one."""
    calls: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        key = (event["step_id"], event["id"])
        if event["topic"] == "tool_call.started":
            calls[key] = {**event, "ended": None}
        elif key in calls:
            interrupted = event["topic"] == "tool_call.interrupted"
            status = "error" if interrupted else event["status"]
            calls[key] |= {"ended": event["at"], "status": status}
    return list(calls.values())


def call_span(trace_id: str, call: dict[str, Any]) -> JsonObject:
    """The span of a tool call, below that of its step."""
    begun = moment(call["at"])
    took = round((moment(call["ended"]) - begun).total_seconds() * 1e9) if call["ended"] else None
    own, parent = digest(call["step_id"] + call["id"], 16), digest(call["step_id"], 16)
    return {
        **span(trace_id, own, parent, f"{call['tool']}._execute_tool", begun, took),
        **status_of(call["status"]),
        "SpanAttributes": {"tool": call["tool"], "tool_call_id": call["id"]},
    }


def span(
    trace_id: str, own: str, parent: str, name: str, begun: datetime, took_ns: int | None
) -> JsonObject:
    """A span; what has not ended has no duration."""
    return {
        "Timestamp": timestamp(begun),
        "TraceId": trace_id,
        "SpanId": own,
        "ParentSpanId": parent,
        "SpanName": name,
        "SpanKind": "Internal",
        "ServiceName": SERVICE_NAME,
        "Duration": took_ns,
    }


def status_of(status: str | None, message: str = "") -> JsonObject:
    """The status code and message of a span."""
    return {"StatusCode": STATUS.get(status or "", "Unset"), "StatusMessage": message}


def digest(text: str, chars: int) -> str:
    """An id of a span or a trace that follows from what it is about."""
    return sha256(text.encode()).hexdigest()[:chars]


def moment(text: str) -> datetime:
    """A time as Postgres or an event writes it."""
    return datetime.fromisoformat(text)
