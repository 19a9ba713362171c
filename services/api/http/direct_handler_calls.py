"""Handlers that are called without Litestar's models of their parameters and answers.

Most handlers take the request and the ids in its path, and return a response. Litestar would put
such parameters through a model of the handler's signature, and the response through a second one
that is made of it: as much work as the rest of its part of a request. Routes, errors, limits and
documents are Litestar's all the same; a handler that wants anything else is called by Litestar.
"""

from __future__ import annotations

import re
from inspect import iscoroutinefunction
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send

from services.api.http.request_admission import admit

IN_PATH = "{%s:str}"
PARAMETER = re.compile(r"\{[^}]*\}")


class DirectCall:
    """Stands where Litestar has a middleware of a handler, and calls the handler itself."""

    def __init__(self, handler: HTTPRouteHandler) -> None:
        self.handle = handler.fn
        self.usual: dict[str, Any] = {
            "status_code": handler.status_code,
            "media_type": handler.media_type,
        }

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """The application that answers in the place of `app`, which is Litestar's way."""
        return self.answer

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. What is raised becomes an answer outside of this."""
        request: Request[Any, Any, Any] = Request(scope, receive, send)
        await admit(request)
        response = await self.handle(request, **scope["path_params"])
        sent = response.to_asgi_response(app=None, request=request, **self.usual)
        await sent(scope, receive, send)


def call_directly(handler: HTTPRouteHandler) -> HTTPRouteHandler:
    """The same handler, called directly if it can be."""
    if can_be_called_directly(handler):
        handler.middleware = [DirectCall(handler)]
    return handler


def can_be_called_directly(handler: HTTPRouteHandler) -> bool:
    """Whether it takes the request and the texts in its paths, and returns a response."""
    wanted = get_type_hints(handler.fn)
    returned, request = wanted.pop("return", None), wanted.pop("request", None)
    takes = {IN_PATH % name for name in wanted}
    return (
        iscoroutinefunction(handler.fn)
        and request is not None
        and all(kind is str for kind in wanted.values())
        and all({*PARAMETER.findall(path)} == takes for path in handler.paths)
        and all(map(is_response, alternatives(returned)))
    )


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; of what is none, itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def is_response(annotation: Any) -> bool:
    """Whether it is a class of responses, or one of a certain content."""
    kind = getattr(annotation, "__origin__", annotation)
    return isinstance(kind, type) and issubclass(kind, Response)
