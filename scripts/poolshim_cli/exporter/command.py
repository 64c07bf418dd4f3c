# SPDX-License-Identifier: MIT
"""`poolshim exporter`: serves the figures of running processes on poolshim as OpenMetrics.

    scripts/poolshim exporter --listen 127.0.0.1:9921
    scripts/poolshim exporter --once

Exit status: 0 ended by a signal, or printed; 2 usage; 125 the address cannot be listened on.
"""

from __future__ import annotations

from .. import http_service
from ..errors import BadRequest, OwnFailure
from ..live import containers, options
from ..live.processes import Watch
from . import exposition, push
from .metrics import Collector
from .profiles import Sampler
from .server import Server

HELP = """usage: poolshim exporter [OPTIONS] [PID...]

Serves the figures of running processes on poolshim over HTTP, for Prometheus and what else reads
OpenMetrics. Without PID: of all that this user may read, those that start later included. The
processes are read at each request, are not stopped and take no part in it. Instead of a PID also
the name of a program, or container:ID. /debug/pprof/heap?pid=N samples a process for seconds=10
and answers with its heap profile; /targets lists the processes for clients that discover targets.

  --listen ADDRESS:PORT  where [127.0.0.1:9921]
  --container ID         the processes of a container, by the beginning of its id, or of a pod, by
                         its uid; those that start later included
  --pss                  also proportional resident memory; the kernel looks at each page for it
  --sums                 only sums over the processes of each control group
  --push URL             also send heap profiles to a server: Pyroscope, or an OpenTelemetry
                         collector where the path is /v1development/profiles
  --push-every TIME      pause between the profiles of a process [60s]
  --once                 print the figures and end
  -h, --help             print this text

Exit status: 0 ended by a signal, 1 a named process does not run on poolshim, 2 usage, 125 the
address cannot be listened on, 126 not permitted (the right to trace a process is needed), 127 no
such process or container.
"""
LISTEN = f"{http_service.ADDRESS}:9921"
SWITCHES = {"--once", "--pss", "--sums"}
VALUED = {"--listen", "--push", "--push-every", options.CONTAINER}


def watch_of(request: options.Words) -> Watch:
    """The processes asked for."""
    container = request.values.get(options.CONTAINER, "")
    has_pss = "--pss" in request.switches
    if options.CONTAINER not in request.values:
        return Watch(options.pids_of(request), has_pss)
    if request.rest:
        raise BadRequest("--container names the processes: no PID")
    containers.processes_of(container)
    return Watch([], has_pss, container)


def pusher_of(request: options.Words, collector: Collector) -> push.Pusher | None:
    """What sends profiles, if that is asked for. It does not take the turns of clients."""
    every = request.values.get("--push-every")
    if "--push" not in request.values:
        if every is not None:
            raise BadRequest("--push-every goes with --push")
        return None
    seconds = options.seconds_of("--push-every", every) if every is not None else push.EVERY_SECONDS
    if seconds < push.EVERY_LEAST:
        raise BadRequest(f"--push-every: {every} is less than {push.EVERY_LEAST:g} s")
    destination = push.destination_of(request.values["--push"])
    sampler = Sampler(collector.watch.is_served)
    return push.Pusher(destination, collector.rows, sampler, seconds)


def main(words: list[str]) -> int:
    """All, or those named."""
    request = options.parse(words, SWITCHES, VALUED)
    if request.is_help:
        print(HELP, end="")
        return 0
    place = http_service.place_of(request.values.get("--listen", LISTEN))
    watch = watch_of(request)
    collector = Collector(watch, "--sums" not in request.switches)
    pusher = pusher_of(request, collector)
    if "--once" in request.switches:
        print(exposition.text_of(collector.families(), True), end="")
        return 0
    try:
        server = Server(place, collector, Sampler(watch.is_served))
    except OSError as error:
        raise OwnFailure(f"{place[0]}:{place[1]}: {error.strerror or error}") from None
    if pusher is not None:
        pusher.start()
    return http_service.run_until_signal(server, "http", "/metrics")
