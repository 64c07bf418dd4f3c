# SPDX-License-Identifier: MIT
"""An API server of Kubernetes with a store and without nodes, on the loopback interface.

    cluster = Cluster(tools, folder); cluster.kubectl("get", "pods"); cluster.close()

Go compiles the programs of tests/package/kubernetes/go.mod, once: half an hour on two cores, later
runs minutes at most. TEST_KUBERNETES names a folder with these programs, made before. The name of a
service leads to this machine, in a mount namespace of the API server alone: no proxy runs here.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from bare_system import run_ok
from conftest import ROOT, SLOWNESS, run_captured

PROGRAMS = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl", "helm": "helm.sh/helm/v3/cmd/helm",
}  # fmt: skip
READY_SECONDS = 120
TOKEN = "of-this-test-alone"


def make_tools(folder: Path) -> Path:
    """The programs; skips where they cannot be had."""
    if "TEST_KUBERNETES" in os.environ:
        return Path(os.environ["TEST_KUBERNETES"]).resolve()
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    module = ROOT / "tests" / "package" / "kubernetes"
    if run_captured(["go", "mod", "download"], cwd=module, timeout=900).returncode != 0:
        pytest.skip("the modules of Kubernetes cannot be had: no network, or an old go?")
    version = yaml.safe_load(run_ok("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes",
                                    cwd=module))  # fmt: skip
    stamp = f"-X k8s.io/component-base/version.gitVersion={version}"
    for name, package in PROGRAMS.items():
        options = ("-trimpath", "-ldflags", f"-s -w {stamp}", "-o", folder / name)
        run_ok("go", "build", *options, package, cwd=module, timeout=7200)
    return folder


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Cluster:
    """Runs until close()."""

    def __init__(self, tools: Path, folder: Path, names: list[str]) -> None:
        if os.geteuid() != 0 or not shutil.which("etcd"):
            pytest.skip("this needs root, and etcd: scripts/setup package")
        self.tools, self.folder = tools, folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.store, self.port = free_port(), free_port()
        self.write_files(names)
        self.start_store()
        self.start_server()
        self.wait()

    def write_files(self, names: list[str]) -> None:
        """Keys, the one user, the addresses of names, and how kubectl and helm find the server."""
        key = self.folder / "accounts.key"
        run_ok("openssl", "genrsa", "-out", key, "2048")
        run_ok("openssl", "rsa", "-in", key, "-pubout", "-out", self.folder / "accounts.pub")
        (self.folder / "tokens").write_text(f"{TOKEN},admin,1,system:masters\n")
        lines = [f"127.0.0.1 {name}\n" for name in ("localhost", *names)]
        (self.folder / "hosts").write_text("".join(lines))
        server = {"server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}
        (self.folder / "config").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }))  # fmt: skip

    def start(self, name: str, *words: str | Path) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder))

    def start_store(self) -> None:
        here, peer = (f"http://127.0.0.1:{port}" for port in (self.store, free_port()))
        options = {
            "data-dir": self.folder / "etcd", "listen-client-urls": here,
            "advertise-client-urls": here, "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer, "initial-cluster": f"default={peer}",
        }  # fmt: skip
        self.start("etcd", "etcd", *(f"--{name}={value}" for name, value in options.items()))

    def start_server(self) -> None:
        enter = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
        options = {
            "etcd-servers": f"http://127.0.0.1:{self.store}", "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1", "secure-port": self.port,
            "cert-dir": self.folder / "certs", "authorization-mode": "RBAC",
            "token-auth-file": self.folder / "tokens", "endpoint-reconciler-type": "none",
            "service-account-issuer": "https://localhost",
            "service-account-key-file": self.folder / "accounts.pub",
            "service-account-signing-key-file": self.folder / "accounts.key",
            # No controller makes the accounts that this would demand of pods.
            "disable-admission-plugins": "ServiceAccount",
        }  # fmt: skip
        self.start("kube-apiserver", "unshare", "--mount", "--propagation", "private", "sh", "-c",
                   enter, "sh", self.folder / "hosts", self.tools / "kube-apiserver",
                   *(f"--{name}={value}" for name, value in options.items()))  # fmt: skip

    def wait(self) -> None:
        """Until the server says that it is ready, and has the first namespaces."""
        end = time.monotonic() + READY_SECONDS * SLOWNESS
        while True:
            done = self.run("kubectl", "get", "--raw", "/readyz")
            if done.returncode == 0 and self.run("kubectl", "get", "ns", "default").returncode == 0:
                return
            if time.monotonic() > end or any(one.poll() is not None for one in self.processes):
                logs = [self.folder / f"{name}.log" for name in ("etcd", "kube-apiserver")]
                tails = [path.read_text(errors="replace")[-2000:] for path in logs]
                self.close()
                pytest.fail("\n".join([done.stderr, *tails]), pytrace=False)
            time.sleep(1)

    def run(self, program: str, *words: str | Path, text: str | None = None) -> Any:
        """kubectl or helm, which keep nothing outside of the folder."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder),
               "KUBECONFIG": str(self.folder / "config")}  # fmt: skip
        return run_captured([self.tools / program, *words], env=env, input=text, timeout=120)

    def ok(self, program: str, *words: str | Path, text: str | None = None) -> str:
        done = self.run(program, *words, text=text)
        assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
        return str(done.stdout)

    def kubectl(self, *words: str | Path, text: str | None = None) -> str:
        return self.ok("kubectl", *words, text=text)

    def get(self, *words: str) -> Any:
        """An object, or a list."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def create(self, document: dict[str, Any], namespace: str) -> tuple[dict[str, Any], str]:
        """What the server stores, and its warnings."""
        done = self.run("kubectl", "-n", namespace, "create", "-f", "-", "-o", "json",
                        text=json.dumps(document))  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    def close(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(30 * SLOWNESS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
