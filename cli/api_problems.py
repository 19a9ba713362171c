"""What the server refused, in words, with the exit code for it."""

from __future__ import annotations

import httpx
import letta_client

from cli.exit_codes import CommandError, ExitCode

CODES = {
    400: ExitCode.REFUSED,
    401: ExitCode.UNREACHABLE,
    403: ExitCode.UNREACHABLE,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.REFUSED,
    413: ExitCode.REFUSED,
    422: ExitCode.REFUSED,
    429: ExitCode.REFUSED,
}


def explanation(problem: Exception) -> CommandError | None:
    """The problem in words; None if it is not the API's."""
    match problem:
        case letta_client.APIStatusError():
            code = CODES.get(problem.status_code, ExitCode.FAILED)
            text = "\n".join(_texts(problem.body)) or str(problem)
            if problem.status_code == 401:
                text += ". Give the key or password in HEELER_API_KEY, or by `heeler remote add`"
            return CommandError(text, code)
        case letta_client.APITimeoutError():
            return CommandError("The server did not answer in time", ExitCode.UNREACHABLE)
        case letta_client.APIConnectionError():
            url = problem.request.url
            return CommandError(
                f"No server answers at {url.scheme}://{url.netloc.decode()}: start one with "
                "`heeler up`, or name another with --url or --remote",
                ExitCode.UNREACHABLE,
            )
        case httpx.TransportError():
            return CommandError(f"The connection broke: {problem}", ExitCode.UNREACHABLE)
        case _:
            return None


def _texts(body: object) -> list[str]:
    """Each thing that an error's body says: V1 has texts, objects and lists of fields."""
    match body:
        case str() if body.startswith("[{'type': "):
            return _texts(_list_in(body)) or [body]
        case str():
            return [body]
        case {"detail": detail}:
            return _texts(detail)
        case {"error": error}:
            return _texts(error)
        case {"loc": [*where], "msg": message}:
            fields = ".".join(str(part) for part in where if part not in ("body", "path", "query"))
            return [f"{fields}: {message}" if fields else str(message)]
        case {"message": str(message)}:
            return [message]
        case list():
            return [text for entry in body for text in _texts(entry)]
        case _:
            return []


def _list_in(text: str) -> object:
    """The fields that are wrong: V1 sends Python's text of a list, and no JSON."""
    from ast import literal_eval

    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
