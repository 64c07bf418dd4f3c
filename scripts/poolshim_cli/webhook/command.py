# SPDX-License-Identifier: MIT
"""`poolshim webhook`: answers the API server of a cluster, which asks about each new pod.

    scripts/poolshim webhook --cert tls.crt --key tls.key --image NAME --listen 0.0.0.0:8443

Exit status: 0 ended by a signal; 2 usage; 125 no certificate, or the address cannot be listened on.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from .. import http_service
from ..errors import BadRequest, OwnFailure
from ..inject import wishes
from ..inject.command import SETTINGS_HELP
from ..live import options
from . import server

HELP = f"""usage: poolshim webhook --image NAME --cert FILE --key FILE [OPTIONS]

Serves the reviews of a mutating webhook of Kubernetes: adds the library to each new pod that the
API server asks about. The chart in scripts/packages/kubernetes installs it. Each pod is admitted:
where the library cannot be added, the pod is created as it was, with a warning that kubectl shows
and the annotation {wishes.STATUS}. One line per pod is printed. POST {server.REVIEW} takes reviews,
GET {server.HEALTH} is for probes. No access to the cluster is needed.

  --listen ADDRESS:PORT  where [127.0.0.1:8443]
  --cert FILE            certificate of the service, PEM; files that are renewed are read again
  --key FILE             its key
{SETTINGS_HELP}

Exit status: 0 ended by a signal, 2 usage, 125 the certificate cannot be read or the address cannot
be listened on.
"""
LISTEN = f"{http_service.ADDRESS}:8443"
VALUED = {"--listen", "--cert", "--key", *wishes.VALUED}


def certificate_of(request: options.Words) -> server.Certificate:
    """The files, which belong together."""
    lacking = [name for name in ("--cert", "--key") if name not in request.values]
    if lacking:
        raise BadRequest(f"{lacking[0]} FILE is missing: an API server speaks HTTPS alone")
    chain, key = Path(request.values["--cert"]), Path(request.values["--key"])
    try:
        return server.Certificate(chain, key)
    except ssl.SSLError as error:
        pair = f"{chain} and {key}"
        raise OwnFailure(f"{pair} are no certificate and its key: {error.reason}") from None
    except OSError as error:
        raise OwnFailure(f"{error.filename or chain}: {error.strerror}") from None


def main(words: list[str]) -> int:
    """Serves until a signal."""
    request = options.parse(words, wishes.SWITCHES, VALUED)
    if request.is_help:
        print(HELP, end="")
        return 0
    if request.rest:
        raise BadRequest(f"no word is expected: {request.rest[0]}")
    place = http_service.place_of(request.values.get("--listen", LISTEN))
    settings = wishes.settings_of(request)
    certificate = certificate_of(request)
    try:
        found = server.Server(place, certificate, settings)
    except OSError as error:
        raise OwnFailure(f"{place[0]}:{place[1]}: {error.strerror or error}") from None
    return http_service.run_until_signal(found, "https", server.REVIEW)
