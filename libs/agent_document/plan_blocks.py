"""Memory blocks: those of an agent, and those that several share.

A value in a file is the one that a block begins with. What an agent has made of it since stays:
another value in the file is written only over the one that was written last, or where memory is to
be reset, and then the plan says that it is overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping

from libs.agent_document.desired import Block, Json, digest
from libs.agent_document.differences import Change
from libs.agent_document.plan_parts import Document, Subject, Unit
from libs.agent_document.requests import Ref, Request, creation, patch

BLOCKS_PATH = "/v1/blocks/"


def new_block(block: Block) -> dict[str, Json]:
    """The body that makes a block."""
    body: dict[str, Json] = {"label": block.label, "value": block.value, **block.fields()}
    return {**body, "metadata": block.metadata} if block.metadata else body


def plan_value(
    unit: Unit,
    block: Block,
    there: Document,
    written: str | None,
    *,
    resets: bool,
    prefix: str = "",
) -> None:
    """Plan the changes of a block.

    Args:
        written: the digest of the value that was written last from a file; None: none was.
        resets: whether it gets the value of the file in any case.
        prefix: what stands before its fields in the plan.
    """
    changes = {name: value for name, value in block.fields().items() if there.get(name) != value}
    value, present = block.value, there["value"]
    is_new = written is not None and written != digest(value)
    has_learned = written is None or digest(present) != written
    if value != present and (resets or (is_new and not has_learned)):
        changes["value"] = value
    elif value != present and is_new:
        unit.notes.append(
            f"{prefix}value is kept, for the agent has changed it since it was written from"
            " the file; --reset-memory writes the file's over it"
        )
    metadata = there.get("metadata") or {}
    if any(metadata.get(name) != each for name, each in block.metadata.items()):
        changes["metadata"] = {**metadata, **block.metadata}
    for name, after in changes.items():
        is_lost = name == "value" and has_learned
        change = Change(field=prefix + name, before=there.get(name), after=after)
        unit.changes.append(change.model_copy(update={"overwrites": is_lost}))
    if changes:
        path = (BLOCKS_PATH.rstrip("/"), str(there["id"]))
        unit.steps.append(patch(path, changes, there))


def plan_blocks(subject: Subject) -> None:
    """Blocks that are new, changed and taken out of the file."""
    attached = {block["label"]: block for block in subject.agent.get("blocks") or []}
    for there in _unwanted(subject, attached):
        _detach(subject, there)
        del attached[there["label"]]
    for block in subject.desired.own_blocks:
        known = attached.get(block.label)
        if known is None:
            _attach_new(subject, block)
            continue
        plan_value(
            subject.unit,
            block,
            known,
            subject.before.blocks.get(block.label),
            resets=subject.resets_memory,
            prefix=f"memory.{block.label}.",
        )
    for block in subject.desired.shared_blocks:
        if block.label not in attached:
            ref = Ref(kind="shared_block", name=block.label)
            subject.unit.change(
                Change(field=f"memory.{block.label}", after="the shared block"),
                _attachment(subject, ref),
            )


def _path(subject: Subject, verb: str, block: str | Ref) -> tuple[str | Ref, ...]:
    return ("/v1/agents", subject.agent_id, "core-memory/blocks", verb, block)


def _attachment(subject: Subject, block: str | Ref) -> Request:
    undo = Request(method="PATCH", path=_path(subject, "detach", block), absent_is_done=True)
    return Request(method="PATCH", path=_path(subject, "attach", block), undo=undo)


def _unwanted(subject: Subject, attached: Mapping[str, Document]) -> list[Document]:
    """Blocks of this fleet that the file does not say any more, or says otherwise: as shared."""
    own = {block.label for block in subject.desired.own_blocks}
    shared = {block.label for block in subject.desired.shared_blocks}
    before = {*subject.before.blocks, *subject.before.shared_blocks}
    found = []
    for label, there in attached.items():
        is_wanted = label in (shared if there["id"] in subject.state.shared_ids else own)
        if not is_wanted and (label in before or label in shared):
            found.append(there)
    return found


def _detach(subject: Subject, there: Document) -> None:
    path = _path(subject, "detach", there["id"])
    undo = Request(method="PATCH", path=_path(subject, "attach", there["id"]))
    subject.unit.change(
        Change(field=f"memory.{there['label']}", before=there["id"]),
        Request(method="PATCH", path=path, absent_is_done=True, undo=undo),
    )


def _attach_new(subject: Subject, block: Block) -> None:
    ref = Ref(kind="block", name=f"{subject.agent_id}/{block.label}")
    subject.unit.change(
        Change(field=f"memory.{block.label}", after=block.value),
        creation((BLOCKS_PATH,), new_block(block), ref),
        _attachment(subject, ref),
    )
