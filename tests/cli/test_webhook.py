# SPDX-License-Identifier: MIT
"""`poolshim webhook`: reviews over HTTPS as API servers send them, and clients that are worse.

    scripts/test tests/cli/test_webhook.py

tests/package/test_kubernetes.py has a real API server ask it.
"""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SLOWNESS, run_captured
from pods import container_of, patched, pod_of, review_of, variables
from running import POOLSHIM
from running import complaint as complaint_of
from table import each_row

IMAGE = "mirror.example/poolshim-library:1"


def make_certificate(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    chain, key = folder / "tls.crt", folder / "tls.key"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
    done = run_captured(["openssl", "req", "-x509", *kind, *names, "-keyout", key, "-out", chain])
    assert done.returncode == 0, done.stderr
    return chain, key


class Webhook:
    """One that runs, and a client of it."""

    def __init__(self, folder: Path) -> None:
        self.chain, self.key = make_certificate(folder)
        self.process = subprocess.Popen(
            [POOLSHIM, "webhook", "--image", IMAGE, "--listen", "127.0.0.1:0",
             "--cert", self.chain, "--key", self.key, "--limit", "70%"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.port = int(self.address.rpartition(":")[2].partition("/")[0])

    def connect(self) -> http.client.HTTPSConnection:
        """As an API server does, it trusts this one certificate."""
        context = ssl.create_default_context(cafile=str(self.chain))
        return http.client.HTTPSConnection("localhost", self.port, timeout=60 * SLOWNESS,
                                           context=context)  # fmt: skip

    def post(self, body: bytes, path: str = "/inject", **headers: str) -> tuple[int, bytes]:
        connection = self.connect()
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def ask(self, pod: Any, **more: Any) -> dict[str, Any]:
        status, body = self.post(json.dumps(review_of(pod, **more)).encode())
        assert status == 200, body
        review = json.loads(body)
        assert review["kind"] == "AdmissionReview"
        response: dict[str, Any] = review["response"]
        assert response["allowed"] is True
        return response


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    found = Webhook(tmp_path_factory.mktemp("webhook"))
    yield found
    found.process.kill()
    found.process.communicate()


def test_a_pod_is_changed_by_the_patch(webhook: Webhook) -> None:
    pod = pod_of([container_of("app", resources={"limits": {"memory": "64Mi"}})])
    response = webhook.ask(pod)
    assert response["uid"] == review_of(pod)["request"]["uid"] and "warnings" not in response
    after = patched(pod, response)
    (app,) = after["spec"]["containers"]
    assert variables(app)["POOLSHIM_LIMIT"] == "70%"
    assert after["spec"]["initContainers"][0]["image"] == IMAGE
    assert "patch" not in webhook.ask(after), "a second review finds nothing to change"


def test_a_pod_that_cannot_have_it_is_admitted_with_a_warning(webhook: Webhook) -> None:
    pod = pod_of(annotations={"poolshim.dev/limit": "0.5%"})
    response = webhook.ask(pod)
    (warning,) = response["warnings"]
    assert warning.startswith("poolshim: poolshim.dev/limit: 0.5% is not a percentage")
    assert patched(pod, response)["spec"] == pod["spec"]


@each_row("more", [
    {"operation": "UPDATE"},
    {"resource": {"group": "", "version": "v1", "resource": "services"}},
])  # fmt: skip
def test_other_requests_are_admitted_as_they_are(webhook: Webhook, more: dict[str, Any]) -> None:
    assert set(webhook.ask(pod_of(), **more)) == {"uid", "allowed"}


@each_row("body, text", [
    (b"", b"a body of 1 to "),
    (b"{", b"the body is no JSON"),
    (b"[" * 100000, b"the body is no JSON"),
    (b"\xff\xfe", b"the body is no JSON"),
    (b"[]", b"no AdmissionReview of admission.k8s.io/v1"),
    (b'{"apiVersion": "v1", "kind": "AdmissionReview"}', b"no AdmissionReview"),
    (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', b"no request with a uid"),
    (json.dumps(review_of(7)).encode(), b"the review has no pod"),
])  # fmt: skip
def test_bodies_that_are_no_review(webhook: Webhook, body: bytes, text: bytes) -> None:
    status, said = webhook.post(body)
    assert status == 400 and text in said and said.count(b"\n") == 1


@each_row("pod", [
    {}, {"spec": 7}, {"metadata": 7}, {"metadata": {"annotations": [1]}},
    {"spec": {"containers": "x"}},
    {"metadata": {}, "spec": {"containers": [{"name": "a", "env": 7}]}},
    {"metadata": {}, "spec": {"containers": [{"name": "a", "env": [{}], "volumeMounts": 1}]}},
    {"metadata": {}, "spec": {"containers": [{"name": "a"}], "os": 7, "nodeSelector": [1]}},
    {"metadata": {}, "spec": {"containers": [{"name": "a"}], "securityContext": "x"}},
])  # fmt: skip
def test_pods_of_another_form_are_admitted_as_they_are(webhook: Webhook, pod: Any) -> None:
    """An API server has checked the form before; what reaches the port otherwise has no effect."""
    assert patched(pod, webhook.ask(pod)).get("spec") == pod.get("spec")


@each_row("length", ["-1", "x", str(1 << 40)])
def test_lengths_that_lie(webhook: Webhook, length: str) -> None:
    connection = webhook.connect()
    connection.putrequest("POST", "/inject")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


def test_clients_that_say_nothing_delay_no_other(webhook: Webhook) -> None:
    silent = [socket.create_connection(("127.0.0.1", webhook.port)) for _ in range(20)]
    plain = socket.create_connection(("127.0.0.1", webhook.port))
    plain.sendall(b"POST /inject HTTP/1.1\r\n\r\n")
    assert webhook.ask(pod_of())["patch"]
    for one in (*silent, plain):
        one.close()


def test_a_connection_takes_many_reviews(webhook: Webhook) -> None:
    connection = webhook.connect()
    for _ in range(3):
        connection.request("POST", "/inject", json.dumps(review_of(pod_of())))
        answer = connection.getresponse()
        assert answer.status == 200 and json.loads(answer.read())["response"]["patch"]
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"ok\n")
    connection.request("GET", "/metrics")
    assert connection.getresponse().status == 404
    connection.close()


def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    found = Webhook(tmp_path)
    try:
        found.ask(pod_of())
        found.key.unlink()
        assert found.ask(pod_of())["patch"], "while files are replaced, the former one is in use"
        (tmp_path / "next").mkdir()
        for path in make_certificate(tmp_path / "next"):
            shutil.move(path, tmp_path / path.name)
        assert found.ask(pod_of())["patch"], "this client trusts the new one alone"
    finally:
        found.process.send_signal(signal.SIGTERM)
        out, err = found.process.communicate(timeout=60 * SLOWNESS)
    assert found.process.returncode == 0
    assert out.splitlines() == ["shop/service: injected: app"] * 3
    assert "the former certificate remains in use" in err and "Traceback" not in err


def complaint(*words: str | Path, status: int = 2) -> str:
    return complaint_of(run_captured([POOLSHIM, "webhook", *words]), "webhook", status)


def test_refused(tmp_path: Path) -> None:
    chain, key = make_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    _chain, other = make_certificate(tmp_path / "other")
    image = ("--image", IMAGE)
    files = ("--cert", chain, "--key", key)
    assert "--cert FILE is missing" in complaint(*image)
    assert "--key FILE is missing" in complaint(*image, "--cert", chain)
    assert "which image has the library?" in complaint(*files)
    assert "no word is expected: x" in complaint(*image, *files, "x")
    assert "is not ADDRESS:PORT" in complaint(*image, *files, "--listen", "0:70000")
    assert "No such file" in complaint(*image, *files, "--key", "/nowhere", status=125)
    assert "are no certificate and its key" in complaint(*image, *files, "--key", other, status=125)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "Address already in use" in complaint(*image, *files, "--listen", place, status=125)
