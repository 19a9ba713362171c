"""Which web pages may call this server from a browser: CORS, by Litestar's own middleware."""

from __future__ import annotations

from collections.abc import Collection

from litestar.config.cors import CORSConfig

from services.api.settings import ANY_ORIGIN, LOCAL_ORIGINS

# A browser takes each of these names for this machine, whatever a name server says.
LOCAL_ORIGIN = r"https?://(localhost|[a-z\d.-]+\.localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?"
# The headers of answers that clients read, besides those that every page may read.
EXPOSED = [
    *("retry-after", "www-authenticate"),
    *("x-should-retry", "x-run-id", "x-upload-result"),
]


def cors_config(origins: Collection[str]) -> CORSConfig:
    """CORS for these origins; the word `local` stands for every origin on this machine, `*` for
    all. No cookie lets anybody in, so pages may send credentials without a risk."""
    return CORSConfig(
        allow_origins=[origin for origin in origins if origin != LOCAL_ORIGINS],
        allow_origin_regex=LOCAL_ORIGIN if LOCAL_ORIGINS in origins else None,
        allow_credentials=ANY_ORIGIN not in origins,
        expose_headers=EXPOSED,
    )
