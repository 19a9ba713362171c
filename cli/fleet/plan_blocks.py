"""Memory blocks: those of an agent, and those that several share.

A value in a file is the one that a block begins with. What agents make of it stays, unless the
value in the file is another than the one that was written last, or memory is to be reset.
"""

from __future__ import annotations

from collections.abc import Mapping

from cli.fleet.desired import Block, Json, digest
from cli.fleet.differences import Change
from cli.fleet.mark import MARK, block_mark, mark_of_block
from cli.fleet.plan_parts import Policy, Subject
from cli.fleet.requests import Ref, Request
from cli.fleet.server_state import is_shared, shared_block_tag

BLOCKS_PATH = "/v1/blocks/"


def new_block(block: Block, fleet: str) -> dict[str, Json]:
    """The body that makes a block."""
    body: dict[str, Json] = {"label": block.label, "value": block.value, **block.fields()}
    body["metadata"] = {**block.metadata, MARK: block_mark(fleet, digest(block.value))}
    if block.shared:
        body["tags"] = [shared_block_tag(fleet)]
    return body


def block_changes(block: Block, there: Mapping[str, Json], policy: Policy) -> dict[str, Json]:
    """The fields of a block that become different, with what they are to be."""
    changes = {name: value for name, value in block.fields().items() if there.get(name) != value}
    before = mark_of_block(there).get("value")
    rewritten = before is not None and before != digest(block.value)
    if (rewritten or policy.reset_memory) and there["value"] != block.value:
        changes["value"] = block.value
    metadata = there.get("metadata") or {}
    if any(metadata.get(name) != value for name, value in block.metadata.items()):
        changes["metadata"] = {**metadata, **block.metadata}
    return changes


def with_mark(
    changes: dict[str, Json], block: Block, there: Mapping[str, Json], policy: Policy
) -> dict[str, Json]:
    """The changes with what the block then says of the fleet; empty if it says so already."""
    mark = block_mark(policy.fleet, digest(block.value))
    if not changes and mark_of_block(there) == mark:
        return {}
    metadata: dict[str, Json] = changes.get("metadata") or there.get("metadata") or {}
    return {**changes, "metadata": {**metadata, MARK: mark}}


def plan_blocks(subject: Subject, *, is_ours: bool) -> None:
    """Blocks that are new, changed and taken out of the file. An agent that is not ours and does
    not differ is not marked either."""
    attached = {block["label"]: block for block in subject.agent.get("blocks") or []}
    for there in _unwanted(subject, attached):
        _detach(subject, there)
        del attached[there["label"]]
    for block in subject.desired.own_blocks:
        known = attached.get(block.label)
        if known is None:
            _attach_new(subject, block)
        else:
            _change(subject, block, known, is_ours=is_ours)
    for block in subject.desired.shared_blocks:
        if block.label not in attached:
            ref = Ref("shared_block", block.label)
            subject.change(
                Change(f"memory.{block.label}", None, "the shared block"),
                Request(method="PATCH", path=_attached(subject, "attach", ref)),
            )


def _attached(subject: Subject, verb: str, block: str | Ref) -> tuple[str | Ref, ...]:
    return ("/v1/agents", subject.agent_id, "core-memory/blocks", verb, block)


def _unwanted(
    subject: Subject, attached: Mapping[str, Mapping[str, Json]]
) -> list[Mapping[str, Json]]:
    """Blocks of this fleet that the file does not say any more, or says otherwise: as shared."""
    own = {block.label for block in subject.desired.own_blocks}
    shared = {block.label for block in subject.desired.shared_blocks}
    found = []
    for label, there in attached.items():
        is_wanted = label in (shared if is_shared(there) else own)
        is_marked = mark_of_block(there).get("fleet") == subject.policy.fleet
        if not is_wanted and (is_marked or label in shared):
            found.append(there)
    return found


def _detach(subject: Subject, there: Mapping[str, Json]) -> None:
    path = _attached(subject, "detach", there["id"])
    subject.change(
        Change(f"memory.{there['label']}", there["id"], None),
        Request(method="PATCH", path=path, absent_is_done=True),
    )


def _attach_new(subject: Subject, block: Block) -> None:
    ref = Ref("block", f"{subject.agent_id}/{block.label}")
    body = new_block(block, subject.policy.fleet)
    subject.change(
        Change(f"memory.{block.label}", None, block.value),
        Request(method="POST", path=(BLOCKS_PATH,), body=body, creates=ref),
        Request(method="PATCH", path=_attached(subject, "attach", ref)),
    )


def _change(subject: Subject, block: Block, there: Mapping[str, Json], *, is_ours: bool) -> None:
    changes = block_changes(block, there, subject.policy)
    if not changes and not is_ours:
        return
    body = with_mark(changes, block, there, subject.policy)
    if not body:
        return
    for name, value in (changes or {"file": block.label}).items():
        subject.plan.changes.append(Change(f"memory.{block.label}.{name}", there.get(name), value))
    path = (BLOCKS_PATH.rstrip("/"), str(there["id"]))
    subject.plan.requests.append(Request(method="PATCH", path=path, body=body))
