"""The page at `/`, for people who open the server's address in a browser."""

from __future__ import annotations

from litestar import Response, get

from libs.contracts.version import HEELER_VERSION, LETTA_VERSION
from services.api.http.request_parsing import AnyRequest

PAGE = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Heeler</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; }}
</style>
<h1>Heeler {HEELER_VERSION}</h1>
<p>A server for stateful AI agents, with the REST API of Letta {LETTA_VERSION}. It runs.</p>
<ul>
<li><a href="/openapi">The API</a>, and its <a href="/openapi.json">OpenAPI document</a></li>
<li><a href="/v1/health">Health</a> of the server and of its parts</li>
<li><a href="/metrics">Metrics</a> for Prometheus</li>
<li><a href="/asyncapi.json">The messages on the bus</a>, as an AsyncAPI document</li>
</ul>
<p>Give this address to a client as its base URL; the first conversation is in
<code>README.md</code>.
<code>make status</code> shows what runs, <code>make logs</code> what it says.
Where the server has a password, all but this page and the health want it:
<code>Authorization: Bearer &lt;password&gt;</code>.</p>
</html>
""".encode()


@get("/", opt={"hidden": True})
async def start_page(request: AnyRequest) -> Response[bytes]:
    """Show where the documents and the API are."""
    return Response(PAGE, media_type="text/html; charset=utf-8")
