"""Which requests have bodies that are taken as they come, and are never kept whole."""

from __future__ import annotations

import re

UPLOADS = re.compile(r"/v1/((folders|sources)/[^/]+/upload|agents/import)/?")


def is_streamed(method: str, path: str) -> bool:
    """Whether the body of a request is a file that is uploaded."""
    return method == "POST" and UPLOADS.fullmatch(path) is not None
