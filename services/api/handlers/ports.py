"""What the handlers of the api need."""

from __future__ import annotations

from dataclasses import dataclass

from libs.bus.ports import Clock
from services.api.adapters.attachment_queries import AttachmentQueries


@dataclass(slots=True, kw_only=True)
class HandlerPorts:
    """What a handler may use."""

    clock: Clock
    attachments: AttachmentQueries
