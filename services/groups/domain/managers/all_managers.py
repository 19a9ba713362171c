"""The types of managers, each with the function that decides what happens next in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from libs.contracts.groups.groups import ManagerType
from services.groups.domain.managers.broadcast import broadcast
from services.groups.domain.managers.decisions import Decision, GroupFacts
from services.groups.domain.managers.dynamic import dynamic
from services.groups.domain.managers.intelligent import intelligent
from services.groups.domain.managers.manager_alone import manager_alone
from services.groups.domain.managers.private_messages import private_messages
from services.groups.domain.managers.round_robin import round_robin
from services.groups.domain.managers.supervisor import supervisor
from services.groups.domain.managers.swarm import swarm

MANAGERS: Mapping[ManagerType, Callable[[GroupFacts], Decision]] = {
    "round_robin": round_robin,
    "supervisor": supervisor,
    "dynamic": dynamic,
    "swarm": swarm,
    "broadcast": broadcast,
    "intelligent": intelligent,
    "sleeptime": manager_alone,
    "voice_sleeptime": manager_alone,
}


def decide(facts: GroupFacts, *, is_private: bool) -> Decision:
    """What happens next in a run."""
    if is_private:
        return private_messages(facts)
    return MANAGERS[facts.config.manager_type](facts)
