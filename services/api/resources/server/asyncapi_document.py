"""The AsyncAPI document: what the services say to each other on the bus."""

from __future__ import annotations

import json

from litestar import Response, get

from libs.contracts import asyncapi


@get("/asyncapi.json", opt={"hidden": True})
async def asyncapi_document() -> Response[bytes]:
    """Retrieve the AsyncAPI document as JSON."""
    return Response(json.dumps(asyncapi.document()).encode(), media_type="application/json")
