"""A NATS server with JetStream from the wheel: loopback only, its store under one folder."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import signal
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from deploy.embedded.process import Command
from deploy.embedded.settings import LaunchError
from deploy.embedded.state import write_private

USER = "heeler"
PROBE_SECONDS_MAX = 1.0
PAYLOAD_BYTES_MAX = 8 * 1024 * 1024
MEMORY_STORE_BYTES_MAX = 1024**3
FILE_STORE_BYTES_MAX = 16 * 1024**3


@dataclass(frozen=True, kw_only=True)
class Nats:
    folder: Path
    log: Path
    port: int
    monitor_port: int
    password: str

    @property
    def url(self) -> str:
        return nats_url(port=self.port, password=self.password)

    @property
    def monitor_url(self) -> str:
        return f"http://127.0.0.1:{self.monitor_port}"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def server_name(self) -> str:
        """Names this folder, so that a stranger on our port is not taken for us."""
        return f"heeler-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_private(self.folder / "nats.conf", self._configuration())

    def command(self) -> Command:
        return Command(
            name="nats",
            argv=[str(server_binary()), "--config", str(self.folder / "nats.conf")],
            environment=dict(os.environ),
            folder=self.folder,
            log=self.log,
            orphan_signal=signal.SIGTERM,
        )

    def ready(self) -> bool:
        """Whether it is this server that answers, with JetStream open."""
        healthy = self._get("/healthz?js-server-only=true")
        return healthy.get("status") == "ok" and (
            self._get("/varz").get("server_name") == self.server_name
        )

    def _get(self, path: str) -> dict[str, object]:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.monitor_port, timeout=PROBE_SECONDS_MAX
        )
        try:
            connection.request("GET", path)
            document = json.loads(connection.getresponse().read())
            return document if isinstance(document, dict) else {}
        except (OSError, ValueError, http.client.HTTPException):
            return {}
        finally:
            connection.close()

    def _configuration(self) -> str:
        return f"""\
server_name: {json.dumps(self.server_name)}
host: "127.0.0.1"
port: {self.port}
http: "127.0.0.1:{self.monitor_port}"
max_payload: {PAYLOAD_BYTES_MAX}
authorization {{ user: {json.dumps(USER)}, password: {json.dumps(self.password)} }}
jetstream {{
  store_dir: {json.dumps(str(self.store))}
  max_memory_store: {MEMORY_STORE_BYTES_MAX}
  max_file_store: {FILE_STORE_BYTES_MAX}
}}
"""


def nats_url(*, port: int, password: str) -> str:
    return f"nats://{USER}:{password}@127.0.0.1:{port}"


def server_binary() -> Path:
    binary = Path(sysconfig.get_path("scripts")) / "nats-server"
    if not binary.exists():
        raise LaunchError(f"{binary} is missing. Run deploy/bootstrap.sh.")
    return binary
