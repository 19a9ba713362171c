"""The query that loads aggregates: of each its snapshot, and the events behind that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from libs.eventstore.ports import History, Snapshot, StoredEvent

# Whose history, behind which version, and the state version of a snapshot that can be read.
type Wanted = tuple[str, int, str]

HISTORIES = """
select wanted.n, history.*
from unnest(%(ids)s::text[], %(afters)s::int[], %(states)s::text[]) with ordinality
    as wanted(id, after, state, n)
cross join lateral (
    select null::text as topic, s.version, null::int as schema_version, s.org,
           null::text as about, s.state::text as payload, null::jsonb as metadata,
           null::timestamptz as occurred_at
    from {schema}.snapshots s
    where s.aggregate_id = wanted.id and s.state_version = wanted.state
      and s.version > wanted.after
    union all
    select e.topic, e.version, e.schema_version, e.org, e.about, e.payload::text, e.metadata,
           e.occurred_at
    from {schema}.events e where e.aggregate_id = wanted.id and e.version > greatest(
        wanted.after,
        (select s.version from {schema}.snapshots s
         where s.aggregate_id = wanted.id and s.state_version = wanted.state))
) history
order by wanted.n, history.version"""


def columns(wanted: Sequence[Wanted]) -> dict[str, list[Any]]:
    """The parameters of HISTORIES for one or more aggregates."""
    ids, afters, states = (list(column) for column in zip(*wanted, strict=True))
    return {"ids": ids, "afters": afters, "states": states}


def histories(wanted: Sequence[Wanted], rows: Iterable[Sequence[Any]]) -> list[History]:
    """The rows of HISTORIES as histories, in the order of the wanted ids."""
    found = [History(None, []) for _ in wanted]
    for n, topic, version, *values in rows:
        aggregate_id, _, state_version = wanted[n - 1]
        if topic is None:
            _, org, _, state, *_ = values
            snapshot = Snapshot(aggregate_id, version, json.loads(state), state_version, org)
            found[n - 1] = History(snapshot, [])
        else:
            found[n - 1].events.append(StoredEvent(aggregate_id, version, topic, *values))
    return found
