"""Which secrets an agent may have; its custom tools are given them as environment variables. Their
values are sealed before they come here, and this service cannot open them."""

from __future__ import annotations

from collections.abc import Mapping

from libs.contracts.bus_messages import INVALID, UNPROCESSABLE, Rejected
from libs.contracts.letta.agent_requests import CreateAgent, UpdateAgent
from libs.contracts.sealed_text import all_sealed
from libs.contracts.state_size_limits import size

# Each call of a custom tool takes them along.
SECRETS_BYTES_MAX = 256 << 10


def wanted_secrets(request: CreateAgent | UpdateAgent) -> dict[str, str] | Rejected | None:
    """The secrets that a request sets, or why they cannot be; None where it says nothing of
    them."""
    given = request.secrets
    if given is None:
        return None
    return unfit_secrets(given) or dict(given)


def unfit_secrets(secrets: Mapping[str, str]) -> Rejected | None:
    """Why secrets cannot be kept, if so."""
    if not all_sealed(secrets):
        reason = "`secrets`: values are sealed before they are sent here, and these are not"
        return Rejected(code=INVALID, reason=reason)
    if size(secrets) > SECRETS_BYTES_MAX:
        reason = f"`secrets`: at most {SECRETS_BYTES_MAX} bytes when they are sealed: use fewer"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return None
