"""`heeler models`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from cli.commands import noun
from cli.output import show_rows
from cli.server import server

app = noun("Models that agents may have.")


@app.command("list")
def list_(
    embedding: Annotated[
        bool, Option("--embedding", help="Those that embed texts, for search.")
    ] = False,
    provider: Annotated[str | None, Option(help="Of this provider alone.")] = None,
) -> None:
    """List models by their handles."""
    if embedding:
        models = server().get("/v1/models/embedding")
        size = {"dimensions": "embedding_dim"}
    else:
        models = server().get("/v1/models", provider_name=provider)
        size = {"context window": "context_window"}
    show_rows(models, {"handle": "handle", "provider": "provider_name", **size})
