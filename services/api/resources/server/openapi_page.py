"""The page that shows the OpenAPI document: Litestar's Swagger UI, with its files from here."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from litestar import Response, get
from litestar.openapi.plugins import SwaggerRenderPlugin

from services.api.http.request_parsing import AnyRequest
from services.api.openapi.document import document_of

PAGE_PATH = "/openapi"
ASSETS = Path(__file__).parents[2] / "openapi" / "swagger_ui"
ASSET_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
ASSET_SECONDS = 86_400
PAGE = SwaggerRenderPlugin(
    js_url=f"{PAGE_PATH}/swagger-ui-bundle.js",
    css_url=f"{PAGE_PATH}/swagger-ui.css",
    standalone_preset_js_url=f"{PAGE_PATH}/swagger-ui-standalone-preset.js",
    favicon='<link rel="icon" href="data:,">',
)


@get("/openapi.json", opt={"hidden": True})
async def openapi_document(request: AnyRequest) -> Response[bytes]:
    """Retrieve the OpenAPI document as JSON."""
    return Response(document_of(request.app), media_type="application/json")


@get(PAGE_PATH, opt={"hidden": True})
async def openapi_page(request: AnyRequest) -> Response[bytes]:
    """Show the OpenAPI document in a browser."""
    page = PAGE.render(request, json.loads(document_of(request.app)))
    return Response(page, media_type="text/html; charset=utf-8")


@get(f"{PAGE_PATH}/{{asset:str}}", opt={"hidden": True})
async def openapi_asset(request: AnyRequest, asset: str) -> Response[bytes]:
    """A file of the page."""
    content = assets().get(asset)
    if content is None:
        return Response(b'{"detail":"Not Found"}', status_code=404, media_type="application/json")
    headers = {"cache-control": f"private, max-age={ASSET_SECONDS}"}
    return Response(content, media_type=ASSET_TYPES[Path(asset).suffix], headers=headers)


@cache
def assets() -> dict[str, bytes]:
    """The files of the page, by their names: read when the first person looks at it."""
    return {path.name: path.read_bytes() for path in ASSETS.iterdir() if path.suffix in ASSET_TYPES}
