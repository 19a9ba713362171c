"""Made-up names for agents that were created without one."""

from __future__ import annotations

from hashlib import sha256

QUALITIES = (
    "Amber", "Brave", "Calm", "Clever", "Curious", "Daring", "Eager", "Fair", "Gentle", "Glad",
    "Happy", "Honest", "Jolly", "Keen", "Kind", "Lively", "Lucky", "Merry", "Mild", "Noble",
    "Patient", "Plucky", "Proud", "Quick", "Quiet", "Sunny", "Swift", "Tidy", "Warm", "Wise",
)  # fmt: skip
ANIMALS = (
    "Badger", "Beaver", "Crane", "Dolphin", "Falcon", "Finch", "Fox", "Gecko", "Hare", "Heron",
    "Ibex", "Jackdaw", "Kestrel", "Lark", "Lynx", "Marten", "Newt", "Otter", "Owl", "Panda",
    "Plover", "Quail", "Raven", "Robin", "Seal", "Stork", "Swan", "Tapir", "Walrus", "Wren",
)  # fmt: skip


def made_up_name(agent_id: str) -> str:
    """A name that is always the same for the same id, such as `QuietHeron`."""
    digest = sha256(agent_id.encode()).digest()
    return QUALITIES[digest[0] % len(QUALITIES)] + ANIMALS[digest[1] % len(ANIMALS)]
