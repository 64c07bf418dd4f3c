# SPDX-License-Identifier: MIT
"""The chart, the webhook, the component and the manifests against an API server of Kubernetes.

    scripts/test --packages tests/package/test_kubernetes.py        needs root, go and etcd

No kubelet runs: pods are stored as they would be started. test_pods.py starts one.
"""

from __future__ import annotations

import base64
import copy
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, free_port, make_tools
from conftest import ROOT, run_captured

sys.path.insert(0, str(ROOT / "tests" / "cli"))

from pods import container_of, pod_of, variables  # noqa: E402
from running import POOLSHIM  # noqa: E402

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.package
KUBERNETES = ROOT / "scripts" / "packages" / "kubernetes"
CHART, COMPONENT = KUBERNETES / "chart", KUBERNETES / "kustomize"
NAMESPACE, RELEASE = "poolshim", "poolshim"
HOST = f"{RELEASE}-webhook.{NAMESPACE}.svc"
IMAGES = ("--set", "library.repository=library,command.repository=command")
OFFLINE = ("--kube-version", "1.36.0", *IMAGES)
LIBRARY = "/poolshim/$LIB/libpoolshim.so"
STATUS = "poolshim.dev/status"
YES = {"poolshim.dev/inject": "true"}
EVERYTHING = (
    "exporter.serviceMonitor.enabled=true,exporter.networkPolicy.enabled=true,"
    "exporter.dashboard.enabled=true,pods.flight=true,pods.imageVolume=true,"
    "webhook.certManager.enabled=true,imagePullSecrets={one,two}"
)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tools(tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="module")
def cluster(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tools, tmp_path_factory.mktemp("cluster"), [HOST])
    yield found
    found.close()


def helm(cluster: Cluster, verb: str, *words: str) -> str:
    return cluster.ok("helm", verb, RELEASE, *words, "-n", NAMESPACE)


def certificate(cluster: Cluster) -> dict[str, bytes]:
    found = cluster.get("-n", NAMESPACE, "secret", f"{RELEASE}-webhook-tls")["data"]
    return {name: base64.b64decode(text) for name, text in found.items()}


def start_webhook(cluster: Cluster, folder: Path) -> subprocess.Popen[bytes]:
    """What the chart's Deployment says, here; and the service's name leads the API server there."""
    for name, text in certificate(cluster).items():
        (folder / name).write_bytes(text)
    spec = cluster.get("-n", NAMESPACE, "deployment", f"{RELEASE}-webhook")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    port = free_port()
    words = [word.replace("=/tls/", f"={folder}/") for word in container["args"]]
    words[0] = f"--listen=127.0.0.1:{port}"
    process = subprocess.Popen([POOLSHIM, *container["command"][1:], *words],
                               stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None and process.stdout.readline().startswith(b"https://")
    name = f"{RELEASE}-webhook.{NAMESPACE}"
    steps = [step for at in range(2) for step in (
        {"op": "remove", "path": f"/webhooks/{at}/clientConfig/service"},
        {"op": "add", "path": f"/webhooks/{at}/clientConfig/url",
         "value": f"https://{HOST}:{port}/inject"},
    )]  # fmt: skip
    cluster.kubectl("patch", "mutatingwebhookconfiguration", name, "--type=json", "-p",
                    json.dumps(steps))  # fmt: skip
    return process


@pytest.fixture(scope="module")
def webhook(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster in which the chart is installed and its webhook answers."""
    helm(cluster, "install", str(CHART), "--create-namespace", *IMAGES,
         "--set", "webhook.excludedNamespaces={kube-system,silent}")  # fmt: skip
    process = start_webhook(cluster, tmp_path_factory.mktemp("tls"))
    cluster.kubectl("create", "namespace", "shop")
    yield cluster
    process.kill()
    process.communicate()
    helm(cluster, "uninstall")


def status_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"].get("annotations", {}).get(STATUS, ""))


def created(cluster: Cluster, name: str, namespace: str = "shop", **more: Any) -> dict[str, Any]:
    pod = pod_of(**{"labels": YES, **more})
    pod["metadata"]["name"] = name
    return cluster.create(pod, namespace)[0]


# ---- the chart ----


@pytest.mark.parametrize("values", ["webhook.replicas=1", EVERYTHING, "webhook.enabled=false",
                                    "exporter.enabled=false"])  # fmt: skip
def test_the_chart_is_in_order(cluster: Cluster, values: str) -> None:
    cluster.ok("helm", "lint", "--strict", CHART, *OFFLINE, "--set", values)
    made = cluster.ok("helm", "template", RELEASE, CHART, *OFFLINE, "--set", values)
    for document in yaml.safe_load_all(made):
        assert document["metadata"]["labels"]["app.kubernetes.io/name"] == "poolshim"


@pytest.mark.parametrize("value, text", [
    ("pods.limit=much", "/pods/limit"), ("webhook.replicas=0", "/webhook/replicas"),
    ("webhook.colour=red", "colour"), ("exporter.port=70000", "/exporter/port"),
    ("pods.init.cpu=some", "/pods/init/cpu"), ("library.repository=a b", "/library/repository"),
    ("library.repository=", "which image? --set library.repository=NAME"),
])  # fmt: skip
def test_wrong_values_are_refused(cluster: Cluster, value: str, text: str) -> None:
    done = cluster.run("helm", "template", RELEASE, CHART, *OFFLINE, "--set", value)
    assert done.returncode != 0 and text in done.stderr.replace("'", ""), done.stderr


def test_the_api_server_knows_each_field(webhook: Cluster) -> None:
    """Strictly: a field that it does not know is an error. Objects of other vendors are left."""
    values = EVERYTHING.replace("serviceMonitor.enabled=true", "serviceMonitor.enabled=false")
    values = values.replace("certManager.enabled=true", "certManager.enabled=false")
    made = webhook.ok("helm", "template", "other", CHART, *OFFLINE, "--set", values, "-n", "shop")
    options = ("--dry-run=server", "--validate=strict", "-n", "shop", "-f", "-")
    webhook.kubectl("create", *options, text=made)
    wrong = webhook.run("kubectl", "create", *options, text=made.replace("hostPID:", "hostPld:"))
    assert "hostPld" in wrong.stderr and wrong.returncode != 0


def test_the_webhook_is_content_with_the_strictest_profile(webhook: Cluster) -> None:
    """The exporter needs another: the API server says so, which shows that it looks."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    for kind, name in (("deployment", "webhook"), ("daemonset", "exporter")):
        spec = webhook.get("-n", NAMESPACE, kind, f"{RELEASE}-{name}")["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec["spec"],
               "metadata": {"name": name, "labels": spec["metadata"]["labels"]}}  # fmt: skip
        namespace = f"strict-{name}"
        webhook.kubectl("create", "namespace", namespace)
        webhook.kubectl("label", "namespace", namespace, label)
        done = webhook.run("kubectl", "-n", namespace, "create", "--dry-run=server", "-f", "-",
                           text=json.dumps(pod))  # fmt: skip
        assert (done.returncode == 0) == (name == "webhook"), done.stderr
        assert name == "webhook" or "hostPID=true" in done.stderr


def test_an_upgrade_keeps_the_certificate_and_an_uninstallation_leaves_nothing(
    cluster: Cluster,
) -> None:
    words = (str(CHART), "-n", "second", *IMAGES)
    cluster.ok("helm", "install", "second", *words, "--create-namespace")

    def key() -> str:
        secret = cluster.get("-n", "second", "secret", "second-webhook-tls")
        return str(secret["data"]["tls.key"])

    first = key()
    cluster.ok("helm", "upgrade", "second", *words, "--set", "pods.limit=50%")
    assert key() == first
    arguments = cluster.get("-n", "second", "deployment", "second-webhook")["spec"]["template"]
    assert "--limit=50%" in arguments["spec"]["containers"][0]["args"]
    kinds = ",".join(cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split())
    chosen = ("-A", "-l", "app.kubernetes.io/instance=second", "--ignore-not-found")
    assert len(cluster.get(kinds, *chosen)["items"]) >= 6
    cluster.ok("helm", "uninstall", "second", "-n", "second")
    left = cluster.kubectl("get", kinds, *chosen, "-o", "name").split()
    # What the server deletes later, once its owner is gone; no controller runs here.
    assert [name for name in left if "endpoint" not in name] == []


# ---- pods that the API server asks about ----


def test_a_pod_with_the_label_gets_the_library(webhook: Cluster) -> None:
    pod = created(webhook, "labelled")
    assert status_of(pod) == "injected: app"
    (app,) = pod["spec"]["containers"]
    assert variables(app) == {"LD_PRELOAD": LIBRARY, "POOLSHIM_LIMIT": "80%"}
    (init,) = pod["spec"]["initContainers"]
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    assert init["image"] == f"library:{version}"


def test_a_pod_without_the_label_does_not(webhook: Cluster) -> None:
    pod = created(webhook, "plain", labels={})
    assert "initContainers" not in pod["spec"] and not status_of(pod)


def test_a_namespace_with_the_label(webhook: Cluster) -> None:
    webhook.kubectl("create", "namespace", "all")
    webhook.kubectl("label", "namespace", "all", "poolshim.dev/inject=true")
    assert status_of(created(webhook, "each", "all", labels={})) == "injected: app"
    assert status_of(created(webhook, "twice", "all")) == "injected: app"
    refusing = created(webhook, "refusing", "all", labels={"poolshim.dev/inject": "false"})
    assert not status_of(refusing)


def test_pods_of_excluded_namespaces_are_not_touched(webhook: Cluster) -> None:
    assert not status_of(created(webhook, "system", "kube-system"))


@pytest.mark.parametrize("annotations, text", [
    ({"poolshim.dev/limit": "800%"}, "poolshim.dev/limit: 800% is not a percentage"),
    ({"poolshim.dev/containers": "ap"}, "no container ap; there are app"),
])  # fmt: skip
def test_bad_annotations_are_a_warning_and_a_status(
    webhook: Cluster, annotations: dict[str, str], text: str
) -> None:
    pod = pod_of(labels=YES, annotations=annotations)
    pod["metadata"] = {**pod["metadata"], "name": f"bad-{len(text)}"}
    stored, warnings = webhook.create(pod, "shop")
    assert f"Warning: poolshim: {text}" in warnings
    assert status_of(stored).startswith(f"skipped ({text}")
    assert "initContainers" not in stored["spec"]


def test_a_pod_for_windows_is_left(webhook: Cluster) -> None:
    pod = created(webhook, "windows", os={"name": "windows"})
    assert status_of(pod) == "skipped (the pod is for windows, the library for linux)"


RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
              "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"},
              "readOnlyRootFilesystem": True}  # fmt: skip


def test_a_pod_of_the_strictest_profile_remains_one(webhook: Cluster) -> None:
    webhook.kubectl("create", "namespace", "strict")
    webhook.kubectl("label", "namespace", "strict",
                    "pod-security.kubernetes.io/enforce=restricted")  # fmt: skip
    containers = [container_of(securityContext=RESTRICTED)]
    annotations = {"poolshim.dev/flight": "true"}
    pod = created(webhook, "strict", "strict", containers=containers, annotations=annotations)
    assert status_of(pod) == "injected: app"
    assert {one["name"] for one in pod["spec"]["volumes"]} == {"poolshim", "poolshim-flight"}


AMOUNTS = {"cpu": "500m", "memory": "64Mi"}


@pytest.mark.parametrize("name, resources", [
    ("guaranteed", {"limits": AMOUNTS, "requests": AMOUNTS}), ("besteffort", {}),
    ("burstable", {"requests": AMOUNTS}),
])  # fmt: skip
def test_the_quality_of_service_remains(
    webhook: Cluster, name: str, resources: dict[str, Any]
) -> None:
    """The API server computes it of the pod that it stores."""
    pod = created(webhook, name, containers=[container_of(resources=resources)])
    assert "initContainers" in pod["spec"]
    assert pod["status"]["qosClass"].lower() == name


def test_a_stored_pod_that_is_created_anew_is_the_same(webhook: Cluster) -> None:
    first = created(webhook, "again")
    again = copy.deepcopy(first)
    again["metadata"] = {key: first["metadata"][key] for key in ("labels", "annotations")}
    again["metadata"]["name"] = "again-2"
    assert webhook.create(again, "shop")[0]["spec"] == first["spec"]


def test_without_the_webhook_pods_start_as_they_were(cluster: Cluster) -> None:
    """Of a release whose webhook never answers: the API server goes on."""
    cluster.ok("helm", "install", "silent", CHART, "-n", "silent", "--create-namespace", *IMAGES,
               "--set", "webhook.timeoutSeconds=1")  # fmt: skip
    try:
        pod = created(cluster, "alone", "silent")
        assert pod["spec"]["containers"][0]["image"] == "service"
        assert "initContainers" not in pod["spec"] and not status_of(pod)
    finally:
        cluster.ok("helm", "uninstall", "silent", "-n", "silent")


# ---- manifests ----


def workload(kind: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod_of()["spec"]}
    spec: dict[str, Any] = {"template": template}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": {"app": "web"}}
    if kind == "StatefulSet":
        spec["serviceName"] = "web"
    return {"apiVersion": "batch/v1" if kind == "Job" else "apps/v1", "kind": kind, "spec": spec,
            "metadata": {"name": f"web-{kind.lower()}", "labels": YES}}  # fmt: skip


KINDS = ("Deployment", "StatefulSet", "DaemonSet", "Job")


def injected(cluster: Cluster, *words: str) -> list[dict[str, Any]]:
    """By the command."""
    items = [workload(kind) for kind in KINDS]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    done = run_captured([POOLSHIM, "inject", "--image", "poolshim-library", *words], input=text)
    assert done.returncode == 0, done.stderr
    cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", text=done.stdout)
    found: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    return found


def test_the_component_makes_the_same_as_the_command(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(yaml.safe_dump_all([workload(kind) for kind in KINDS]))
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": YES},
         "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}}
    ))  # fmt: skip
    component = tmp_path / "component"
    component.mkdir()
    for path in COMPONENT.iterdir():
        (component / path.name).write_text(path.read_text())
    (tmp_path / "kustomization.yaml").write_text(
        "resources: [web.yaml, other.yaml]\ncomponents: [component]\n"
        "images: [{name: poolshim-library, newName: moved, newTag: '1'}]\n"
    )
    made = cluster.kubectl("kustomize", tmp_path)
    cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", text=made)
    found = {one["kind"]: one for one in yaml.safe_load_all(made)}
    assert set(found) == {*KINDS, "Service"}
    assert set(found["Service"]["spec"]) == {"ports", "selector"}
    for wanted in injected(cluster, "--flight"):
        ours, theirs = (one["spec"]["template"]["spec"] for one in (wanted, found[wanted["kind"]]))
        (app,), (other,) = ours["containers"], theirs["containers"]
        assert variables(app) == variables(other)
        for one in app["volumeMounts"]:
            one.pop("subPath", None)  # one container alone has the volume here
        assert app["volumeMounts"] == other["volumeMounts"]
        assert theirs["initContainers"][0]["image"] == "moved:1"
        assert [one["command"] for one in ours["initContainers"]] == [
            one["command"] for one in theirs["initContainers"]
        ]
        assert ours["volumes"] == theirs["volumes"]


def test_a_mounted_image_is_a_volume_that_the_server_knows(cluster: Cluster) -> None:
    for one in injected(cluster, "--image-volume"):
        assert one["spec"]["template"]["spec"]["volumes"][0]["image"]["reference"]


def test_the_document_names_values_and_annotations_that_exist() -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    named = set(re.findall(r"`((?:library|command|pods|webhook|exporter)\.[\w.]+)(?:=\w+)?`", text))
    assert len(named) > 8
    for name in named:
        place: Any = values
        for word in name.split("."):
            assert word in place, name
            place = place[word]
