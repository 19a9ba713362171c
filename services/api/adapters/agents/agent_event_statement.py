"""The statement that finds a page of the events of an agent, of all services in one order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from libs.contracts.all_messages import load_contracts
from libs.contracts.bus_messages import EVENTS

SERVICES = ("agent", "memory", "tools", "scheduler", "groups", "api")
# A conversation has one of each in every run; of its other events there is an index by topic.
FREQUENT = ("message.appended", "run.accepted", "run.started", "run.completed", "model.replied")
# What a page may weigh: it ends before, but not before its first event.
BYTES_MAX = 4 << 20
# Of a larger payload that nobody asked for only what says why the event happened is read.
PAYLOAD_READ_BYTES_MAX = 64 << 10
# The clocks of processes differ by less, and a call ends so long after its run at most.
CLOCK_MINUTES_MAX = 10
EARLIEST, LATEST = (end.replace(tzinfo=UTC) for end in (datetime.min, datetime.max))

MANAGER = (
    "coalesce(e.payload->'config'->>'manager_agent_id', e.payload->'changes'->>'manager_agent_id')"
)
# The copies of blocks that conversations have for themselves, or had.
ISOLATED_BLOCKS = """select b.value as id from agent.recorded_event_view e
 cross join lateral json_each_text(e.payload->'config'->'isolated_blocks') b
 where e.topic = 'conversation.created' and e.payload->'config'->>'agent_id' = %(agent)s
 and e.payload->'config'->>'agent_id' <> '' and e.org = %(org)s"""
# The aggregates whose events are an agent's, by service: what it is, and what it ever had.
PARTS = {
    "agent": """select %(agent)s as id union select %(main)s
 union select e.aggregate_id from agent.recorded_event_view e
 where e.topic = 'conversation.created' and e.payload->'config'->>'agent_id' = %(agent)s
 and e.payload->'config'->>'agent_id' <> '' and e.org = %(org)s""",
    "memory": f"""select p.id from agent.part_of_agent_view p
 where p.agent_id = %(agent)s and p.org = %(org)s and p.id like 'block-%%'
 union {ISOLATED_BLOCKS}
 union select id from archives
 union select %(folders)s
 union select id from folders
 union select f.id from folders o cross join lateral (select v.id from memory.file_of_folder_view v
  where v.folder_id = o.id and v.org = %(org)s offset 0) f""",
    "tools": """select p.id from agent.part_of_agent_view p
 where p.agent_id = %(agent)s and p.org = %(org)s and p.id like 'tool-%%'""",
    "scheduler": """select e.aggregate_id as id from scheduler.recorded_event_view e
 where e.topic = 'schedule.created' and e.payload->'schedule'->>'agent_id' = %(agent)s
 and e.payload->'schedule'->>'agent_id' <> '' and e.org = %(org)s""",
    "groups": f"""select distinct e.aggregate_id as id from groups.recorded_event_view e
 where e.topic in ('group.created', 'group.updated') and {MANAGER} = %(agent)s
 and {MANAGER} <> '' and e.org = %(org)s""",
    "api": """select %(restores)s as id union select %(configuration)s
 union select e.aggregate_id from api.recorded_event_view e
 where e.topic = 'attachment.made' and e.about = %(agent)s and e.org = %(org)s""",
}
# A run has events of the agent service in its conversation alone.
CONVERSATIONS_OF_RUNS = "select p.id from ({parts}) p where p.id = any(%(conversations)s::text[])"
SHARED_PARTS = """archives as materialized (select distinct a.id from memory.archive_of_agent_view a
 where a.agent_id = %(agent)s and a.agent_id <> '' and a.org = %(org)s),
folders as materialized (select distinct f.id from memory.folder_of_agent_view f
 where f.agent_folders_id = %(folders)s and f.org = %(org)s)"""
# Only the parts whose next event is among the first of all can have a part in the page.
KEYS = """(select k.commit_order, k.position, k.id, k.version, k.settled, '{service}' as service
 from (
 select p.id, h.commit_order, h.position, h.version from {service}_parts p cross join lateral (
  select e.commit_order, e.position, e.version from {service}.recorded_event_view e
  where e.aggregate_id = p.id and {bounds}{conditions}
  order by e.version {order} limit 1) h
 order by h.commit_order {order}, h.position {order} limit %(limit)s) p
 cross join lateral (
  select e.commit_order, e.position, e.aggregate_id as id, e.version, e.settled
  from {service}.recorded_event_view e
  where e.aggregate_id = p.id and e.version {onwards} p.version and {bounds}{conditions}
  order by e.version {order} limit %(limit)s) k
 order by k.commit_order {order}, k.position {order} limit %(limit)s)"""
PASSAGE_KEYS = """(select k.commit_order, k.position, k.id, k.version, k.settled,
 'memory' as service
 from archives a cross join lateral (
  select e.commit_order, e.position, e.aggregate_id as id, e.version, e.settled
  from memory.passage_event_view e where e.archive_id = a.id{bounds}{conditions}
  order by e.commit_order {order}, e.position {order} limit %(limit)s) k
 order by k.commit_order {order}, k.position {order} limit %(limit)s)"""
NO_KEYS = """select null::bigint as commit_order, null::bigint as position, '' as id, 0 as version,
 true as settled, '' as service where false"""
WHY = """json_build_object('run_id', e.payload->'run_id', 'step_id', e.payload->'step_id',
 'tool_call_id', e.payload->'tool_call_id', 'cause', e.payload->'cause')::text"""
ROWS = """(select k.commit_order, k.position, k.service, e.aggregate_id, e.version, e.topic,
 e.about, e.occurred_at, e.metadata, {payload} as payload from keys k cross join lateral (
  select * from {service}.recorded_event_view v
  where v.aggregate_id = k.id and v.version = k.version and v.org = %(org)s) e
 where k.service = '{service}')"""
# Forwards only what is settled is shown, so that a client which goes on from there misses nothing.
PAGE = """with {shared}, {parts}, keys as materialized (
 select * from ({keys}) k where {settled} order by commit_order {order}, position {order}
 limit %(limit)s)
select service, aggregate_id, version, topic, about, occurred_at, metadata, payload from (
 select *, sum(octet_length(payload)) over (order by commit_order {order}, position {order})
  - octet_length(payload) as before from ({rows}) r) r
where before < {bytes_max} order by commit_order {order}, position {order}"""
OF_RUN = "%(run)s in (e.about, e.payload->>'run_id', e.payload->'cause'->>'run_id')"
# Whatever names the call: what asks for it, what it did, and its result.
OF_CALL = "strpos(e.payload::text, %(quoted_call)s) > 0"

type Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events of an agent: those of these topics, of one service, of a run or a tool call,
    recorded from `since` on and before `until`."""

    org: str
    agent_id: str
    topics: Sequence[str] = ()
    service: str | None = None
    run_id: str | None = None
    tool_call_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(slots=True)
class Bounds:
    """The bounds of a page: places in the order of commits, both excluded, and moments; of the
    events of runs also the conversations that these are in."""

    after: Place | None = None
    before: Place | None = None
    since: datetime | None = None
    until: datetime | None = None
    conversations: list[str] | None = None

    def begin_at(self, place: Place) -> None:
        """Leave out what comes before a place."""
        just_before = (place[0], place[1] - 1)
        self.after = max(self.after or just_before, just_before)

    def of_parts(self, service: str) -> str:
        """The bounds as conditions on the versions of an aggregate."""
        low, high = [], []
        if self.after:
            low.append(f"{service}.version_at(p.id, %(after_order)s, %(after_position)s)")
        if self.before:
            high.append(f"{service}.version_at(p.id, %(before_order)s, %(before_position)s - 1)")
        if self.since:
            low.append(f"{service}.version_before(p.id, %(since_about)s)")
        if self.until:
            high.append(f"{service}.version_before(p.id, %(until_about)s)")
        above = f"e.version > greatest({', '.join(low)})" if low else "e.version > 0"
        return above + (f" and e.version <= least({', '.join(high)})" if high else "")

    def of_passages(self) -> str:
        """The bounds as conditions on the events of passages."""
        said = ""
        for name, place, sign in (("after", self.after, ">"), ("before", self.before, "<")):
            if place:
                said += (
                    f" and (e.commit_order, e.position) {sign}"
                    f" (%({name}_order)s, %({name}_position)s)"
                )
        return said

    @property
    def values(self) -> dict[str, Any]:
        """The parameters that these conditions name."""
        found: dict[str, Any] = {"conversations": self.conversations}
        for name, place in (("after", self.after), ("before", self.before)):
            if place:
                found |= {f"{name}_order": place[0], f"{name}_position": place[1]}
        slack = timedelta(minutes=CLOCK_MINUTES_MAX)
        if self.since:
            found["since_about"] = max(self.since, EARLIEST + slack) - slack
        if self.until:
            found["until_about"] = min(self.until, LATEST - slack) + slack
        return found


def page_statement(wanted: EventFilter, bounds: Bounds, order: str, *, payloads: bool) -> str:
    """The statement of a page."""
    conditions = conditions_of(wanted)
    keys = [
        text
        for service, topic in branches_of(wanted)
        for text in keys_of(service, topic, conditions, bounds, order)
    ] or [NO_KEYS]
    whole = "e.payload::text"
    short = (
        f"case when octet_length({whole}) <= {PAYLOAD_READ_BYTES_MAX} then {whole} else {WHY} end"
    )
    payload = whole if payloads else short
    return PAGE.format(
        shared=SHARED_PARTS,
        parts=", ".join(parts_of(bounds)),
        keys=" union all ".join(keys),
        rows=" union all ".join(ROWS.format(service=name, payload=payload) for name in SERVICES),
        order=order,
        settled="settled" if order == "asc" else "true",
        bytes_max=BYTES_MAX,
    )


def parts_of(bounds: Bounds) -> Iterator[str]:
    """The aggregates of each service that the page may have events of."""
    for service, text in PARTS.items():
        narrowed = service == "agent" and bounds.conversations is not None
        parts = CONVERSATIONS_OF_RUNS.format(parts=text) if narrowed else text
        yield f"{service}_parts as materialized ({parts})"


def branches_of(wanted: EventFilter) -> Iterator[tuple[str, str | None]]:
    """Which services are asked, each for one topic or (None) for all: a topic stands in the
    statement, so that the index of those that are rare can be used."""
    asked = [name for name in SERVICES if wanted.service in (None, name)]
    for service in asked:
        if not wanted.topics:
            yield service, None
        for topic in dict.fromkeys(wanted.topics):
            if topic in topics_of(service):
                yield service, topic


@cache
def topics_of(service: str) -> frozenset[str]:
    """The topics of the events of a service."""
    load_contracts()
    return frozenset(event.topic for event in EVENTS.values() if event.service == service)


def keys_of(
    service: str, topic: str | None, conditions: str, bounds: Bounds, order: str
) -> Iterator[str]:
    """The statements that find the keys of a service's events."""
    of_topic = ""
    if topic is not None:
        indexed = service == "agent" and topic not in FREQUENT
        is_topic = f"e.topic collate \"C\" = '{topic}'"
        of_topic = f" and {is_topic}" if indexed else opaque_condition(is_topic)
    parts = {"service": service, "order": order, "conditions": conditions + of_topic}
    of_passages = topic is None or topic.startswith("passage.")
    if not (topic and of_passages):
        onwards = ">=" if order == "asc" else "<="
        yield KEYS.format(**parts, bounds=bounds.of_parts(service), onwards=onwards)
    if service == "memory" and of_passages:
        yield PASSAGE_KEYS.format(**parts, bounds=bounds.of_passages())


def conditions_of(wanted: EventFilter) -> str:
    """The conditions on each event but that of its topic."""
    said = {
        "e.occurred_at >= %(since)s": wanted.since,
        "e.occurred_at < %(until)s": wanted.until,
        OF_RUN: wanted.run_id,
        OF_CALL: wanted.tool_call_id,
    }
    return "".join(opaque_condition(text) for text, value in said.items() if value is not None)


def opaque_condition(condition: str) -> str:
    """One more condition, in a form whose effect Postgres does not guess at: it would expect few
    rows, and read and sort all, instead of the first in the order of an index."""
    return f" and coalesce({condition}, false)"
