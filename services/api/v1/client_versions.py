"""Which SDK a client is: those before 1.0 are shown more, and take less."""

from __future__ import annotations

from services.api.http.request_parsing import AnyRequest

SDK_NAMES = ("letta-client", "@letta-ai/letta-client")


def is_legacy(request: AnyRequest) -> bool:
    """Whether the client is an SDK before 1.0, or something else with a User-Agent of its own."""
    if "x-stainless-package-version" in request.headers:
        return False
    agent = request.headers.get("user-agent", "")
    if not agent:
        return False
    return not any(agent.startswith(f"{name}/1") for name in SDK_NAMES)
