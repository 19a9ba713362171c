"""Differences between an agent of the server and its file, field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from libs.agent_document.agent_fields import AGENT_FIELDS, same_fields
from libs.agent_document.desired import Json, Part

SECRET = "(secret)"

type Document = Mapping[str, Json]


class Change(Part):
    """A difference: the present value, and the wanted one. `overwrites`: text that an agent wrote
    is lost. Secrets are never shown."""

    field: str
    before: Json = None
    after: Json = None
    overwrites: bool = False

    @classmethod
    def of_secret(cls, field: str, before: Json, after: Json) -> Self:
        """A change whose values nobody is shown."""
        shown = (None if value is None else SECRET for value in (before, after))
        return cls(field=field, before=next(shown), after=next(shown))


@dataclass(frozen=True)
class Field:
    """A field of agents that requests may change.

    Args:
        read: what the server's document has.
        normal: brings what a file says into the form that the server shows.
        cleared: what is sent where a file does not say it any more; None: nothing is.
        merges: whether what the file does not say of it stays.
        created_only: whether it cannot be changed.
        secret: whether its value is never shown.
    """

    read: Callable[[Document], Json]
    normal: Callable[[Json], Json] = lambda value: value
    cleared: Callable[[], Json] | None = None
    merges: bool = False
    created_only: bool = False
    secret: bool = False

    def change(self, name: str, before: Json, after: Json) -> Change:
        """A change of this field."""
        if self.secret:
            return Change.of_secret(name, before, after)
        return Change(field=name, before=before, after=after)


def _same(name: str) -> Callable[[Document], Json]:
    return lambda agent: agent.get(name)


def _capabilities(given: Json) -> Json:
    whole = [{"name": each} if isinstance(each, str) else each for each in given or []]
    return [{"description": None, "priority": 0, **each} for each in whole]


PLANNED_APART = ("metadata", "tool_rules")
FIELDS: Mapping[str, Field] = {
    **{
        name: Field(_same(name), cleared=lambda: None)
        for name in same_fields(AGENT_FIELDS, "toml", "update")
        if name not in PLANNED_APART
    },
    "name": Field(_same("name")),
    "system": Field(_same("system")),
    "agent_type": Field(_same("agent_type"), created_only=True),
    "model": Field(_same("model")),
    "embedding": Field(_same("embedding")),
    "context_window_limit": Field(
        lambda agent: (agent.get("llm_config") or {}).get("context_window")
    ),
    "model_settings": Field(_same("model_settings"), merges=True),
    "compaction_settings": Field(_same("compaction_settings"), merges=True),
    "tags": Field(_same("tags"), normal=lambda tags: sorted(set(tags)), cleared=list),
    "timezone": Field(_same("timezone"), cleared=lambda: "UTC"),
    "message_buffer_autoclear": Field(_same("message_buffer_autoclear"), cleared=lambda: False),
    "enable_sleeptime": Field(_same("enable_sleeptime")),
    "max_files_open": Field(_same("max_files_open")),
    "per_file_view_window_char_limit": Field(_same("per_file_view_window_char_limit")),
    "capabilities": Field(
        lambda agent: _capabilities(agent.get("capabilities")), normal=_capabilities, cleared=list
    ),
    "secrets": Field(
        lambda agent: {each["key"]: each["value"] for each in agent.get("secrets") or []},
        cleared=dict,
        secret=True,
    ),
}


def is_within(wanted: Json, there: Json) -> bool:
    """Whether all that is wanted is there: objects may have more."""
    if isinstance(wanted, Mapping) and isinstance(there, Mapping):
        return all(
            name in there and is_within(value, there[name]) for name, value in wanted.items()
        )
    return bool(wanted == there)


def merge(there: Json, wanted: Json) -> Json:
    """The present value with the wanted one merged into it."""
    if isinstance(wanted, Mapping) and isinstance(there, Mapping):
        return {**there, **{name: merge(there.get(name), value) for name, value in wanted.items()}}
    return wanted


def differing_fields(
    agent: Document, wanted: Mapping[str, Json], managed: Iterable[str]
) -> Iterator[tuple[Change, Json]]:
    """The differences, each with the value that a request has for it.

    Args:
        wanted: the fields that the file says.
        managed: those that it said when it was applied last.
    """
    for name, value in wanted.items():
        field = FIELDS[name]
        there, normal = field.read(agent), field.normal(value)
        if is_within(normal, there) if field.merges else normal == there:
            continue
        change = field.change(name, _part(there, normal, field), normal)
        yield change, _sent(name, field, there, value)
    for name in managed:
        field = FIELDS.get(name, Field(_same(name)))
        if name in wanted or field.cleared is None:
            continue
        there, cleared = field.read(agent), field.cleared()
        if there != cleared:
            yield field.change(name, there, cleared), cleared


def _part(there: Json, wanted: Json, field: Field) -> Json:
    """Of what is there the part that the file speaks of."""
    if field.merges and isinstance(there, Mapping) and isinstance(wanted, Mapping):
        return {name: there.get(name) for name in wanted}
    return there


def _sent(name: str, field: Field, there: Json, value: Json) -> Json:
    if not field.merges or not isinstance(there, Mapping):
        return value
    if name == "model_settings" and value.get("provider_type") not in (
        None,
        there.get("provider_type"),
    ):
        return value  # the settings of another provider do not go together with these
    return merge(there, value)
