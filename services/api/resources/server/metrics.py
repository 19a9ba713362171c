"""The metrics of all processes, for Prometheus."""

from __future__ import annotations

from litestar import Response, get

from libs.telemetry.prometheus_exposition import CONTENT_TYPE
from services.api.http.request_parsing import AnyRequest
from services.api.http.request_telemetry import METRICS_PATH


@get(METRICS_PATH, opt={"hidden": True})
async def metrics(request: AnyRequest) -> Response[bytes]:
    """Everything that is counted, in every process."""
    return Response((await request.app.state.reports.text()).encode(), media_type=CONTENT_TYPE)
