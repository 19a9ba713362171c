"""An MCP server that wants a person's word, and the authorization server that asks for it."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

TOOL = {
    "name": "secret_forecast",
    "description": "Say the weather.",
    "inputSchema": {"type": "object", "properties": {}},
}


class AuthorizingServer(ThreadingHTTPServer):
    """Tokens last for `seconds`; `tokens` are those that count, `renewals` how often it gave new
    ones for old."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server_address[1]}"
        self.url = f"{self.base}/mcp"
        self.seconds = 3600
        self.tokens: set[str] = set()
        self.challenges: dict[str, str] = {}
        self.renewals = 0
        self.given: list[str] = []
        self.refuses = False

    def grant(self) -> dict[str, Any]:
        """New tokens."""
        token = f"plain-access-token-{len(self.given)}"
        self.given.append(token)
        self.tokens = {token}
        return {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": self.seconds,
            "refresh_token": f"plain-refresh-{len(self.given)}",
        }


class Handler(BaseHTTPRequestHandler):
    server: AuthorizingServer

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def say(self, status: int, body: Any = None, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        base, path = self.server.base, urlsplit(self.path)
        if path.path.startswith("/.well-known/oauth-protected-resource"):
            self.say(200, {"resource": f"{base}/mcp", "authorization_servers": [base]})
        elif path.path.startswith("/.well-known/oauth-authorization-server"):
            names = ("authorize", "token", "register")
            ends = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
            self.say(
                200,
                {
                    "issuer": base,
                    **{end: f"{base}/{name}" for name, end in zip(names, ends, strict=True)},
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                    "grant_types_supported": ["authorization_code", "refresh_token"],
                    "token_endpoint_auth_methods_supported": ["client_secret_post"],
                },
            )
        elif path.path == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(path.query).items()}
            assert asked["code_challenge_method"] == "S256"
            code = f"plain-code-{len(self.server.challenges)}"
            self.server.challenges[code] = asked["code_challenge"]
            answer = {"error": "access_denied"} if self.server.refuses else {"code": code}
            back = urlencode({**answer, "state": asked["state"]})
            self.say(302, Location=f"{asked['redirect_uri']}?{back}")
        else:
            self.say(405)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        match urlsplit(self.path).path:
            case "/register":
                told = json.loads(body)
                self.say(201, {**told, "client_id": "client-1", "client_secret": "plain-client"})
            case "/token":
                self.token({name: values[0] for name, values in parse_qs(body.decode()).items()})
            case _:
                self.mcp(json.loads(body))

    def token(self, asked: dict[str, str]) -> None:
        if asked["grant_type"] == "authorization_code":
            digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if self.server.challenges.pop(asked["code"], "") != challenge:
                self.say(400, {"error": "invalid_grant"})
                return
        else:
            self.server.renewals += 1
        self.say(200, self.server.grant())

    def mcp(self, asked: dict[str, Any]) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.server.tokens:
            where = f"{self.server.base}/.well-known/oauth-protected-resource/mcp"
            self.say(401, WWW_Authenticate=f'Bearer resource_metadata="{where}"')
            return
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "authorizing", "version": "1"},
            },
            "tools/list": {"tools": [TOOL]},
            "tools/call": {"content": [{"type": "text", "text": "sunny"}]},
            "ping": {},
        }
        if "id" not in asked:
            self.say(202)
        elif asked["method"] in results:
            result = results[asked["method"]]
            self.say(200, {"jsonrpc": "2.0", "id": asked["id"], "result": result})
        else:
            error = {"code": -32601, "message": "unknown"}
            self.say(200, {"jsonrpc": "2.0", "id": asked["id"], "error": error})


@contextmanager
def authorizing_server() -> Iterator[AuthorizingServer]:
    """One that runs."""
    server = AuthorizingServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
