# SPDX-License-Identifier: MIT
"""`poolshim exporter`: serves the figures of running processes on poolshim as OpenMetrics.

    scripts/poolshim exporter --listen 127.0.0.1:9921
    scripts/poolshim exporter --once

Exit status: 0 ended by a signal, or printed; 2 usage; 125 the address cannot be listened on. Needs
the package prometheus_client.
"""

from __future__ import annotations

import signal
import threading
from types import ModuleType

from ..errors import BadRequest, OwnFailure, need
from ..live import options
from ..live.processes import Watch
from . import metrics

HELP = """usage: poolshim exporter [OPTIONS] [PID...]

Serves the figures of running processes on poolshim over HTTP, for Prometheus and what else reads
OpenMetrics. Without PID: of all that this user may read, those that start later included. The
processes are read at each request, are not stopped and take no part in it.

  --listen ADDRESS:PORT  where [127.0.0.1:9921]
  --once                 print the figures and end
  -h, --help             print this text

Exit status: 0 ended by a signal, 1 a named process does not run on poolshim, 2 usage, 125 the
address cannot be listened on, 126 not permitted (the right to trace a process is needed), 127 no
such process.
"""
ADDRESS, PORT = "127.0.0.1", 9921
PORT_MAX = 65535


def place_of(text: str) -> tuple[str, int]:
    """ADDRESS:PORT, [ADDRESS]:PORT or PORT."""
    address, colon, port = text.rpartition(":")
    if not port.isdigit() or int(port) > PORT_MAX:
        raise BadRequest(f"--listen: {text} is not ADDRESS:PORT")
    return (address.strip("[]") if colon and address else ADDRESS), int(port)


def serve(client: ModuleType, registry: object, address: str, port: int) -> int:
    """Serves until a signal."""
    is_over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_over.set())
    try:
        server, thread = client.start_http_server(port, address, registry)
    except OSError as error:
        raise OwnFailure(f"{address}:{port}: {error.strerror or error}") from None
    shown = f"[{address}]" if ":" in address else address
    print(f"http://{shown}:{server.server_port}/metrics", flush=True)
    is_over.wait()
    server.shutdown()
    thread.join()
    server.server_close()
    return 0


def main(words: list[str]) -> int:
    """All, or those named."""
    request = options.parse(words, {"--once"}, {"--listen"})
    if request.is_help:
        print(HELP, end="")
        return 0
    address, port = place_of(request.values.get("--listen", f"{ADDRESS}:{PORT}"))
    watch = Watch(options.pids_of(request))
    client = need("prometheus_client", "exporter")
    registry = metrics.registry_of(watch)
    if "--once" in request.switches:
        text = need("prometheus_client.openmetrics.exposition", "exporter")
        print(text.generate_latest(registry).decode(), end="")
        return 0
    return serve(client, registry, address, port)
