# SPDX-License-Identifier: MIT
"""`poolshim inject`: what it adds to which pod, and what it leaves as it is.

    scripts/test tests/cli/test_inject.py
"""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from pods import container_of, pod_of, variables
from running import POOLSHIM
from running import complaint as complaint_of
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.inject import pods, wishes  # noqa: E402

IMAGE = "mirror.example/poolshim-library:1"
SETTINGS = wishes.Settings(image=IMAGE)
LIBRARY = "/poolshim/$LIB/libpoolshim.so"
BOTH = [container_of("app"), container_of("side")]


def inject(pod: dict[str, Any], **settings: Any) -> pods.Outcome:
    """Twice: the second injection finds nothing to add. The pod that was passed is as it was."""
    before = copy.deepcopy(pod)
    used = wishes.Settings(image=IMAGE, **settings)
    once = pods.inject(pod, used)
    assert pod == before
    assert pods.inject(once.pod, used).pod == once.pod
    return once


def preload(value: str) -> dict[str, Any]:
    return pod_of([container_of(env=[{"name": "LD_PRELOAD", "value": value}])])


def test_a_pod_gets_volume_init_container_variables_and_mount() -> None:
    outcome = inject(pod_of(BOTH))
    spec = outcome.pod["spec"]
    assert outcome.done == ["app", "side"] and not outcome.notes
    assert [one["name"] for one in spec["volumes"]] == ["poolshim"]
    (init,) = spec["initContainers"]
    assert init["image"] == IMAGE and init["volumeMounts"][0]["mountPath"] == "/poolshim"
    for container in spec["containers"]:
        assert variables(container) == {"LD_PRELOAD": LIBRARY, "POOLSHIM_LIMIT": "80%"}
        assert container["volumeMounts"] == [
            {"name": "poolshim", "mountPath": "/poolshim", "readOnly": True}
        ]
    assert outcome.pod["metadata"]["annotations"] == {wishes.STATUS: "injected: app, side"}


def test_annotations_go_before_the_settings() -> None:
    annotations = {wishes.CONTAINERS: " side ", wishes.LIMIT: "300MiB", wishes.FLIGHT: "true",
                   wishes.LIMIT_HARD: "95%"}  # fmt: skip
    spec = inject(pod_of(BOTH, annotations=annotations), limit="50%").pod["spec"]
    app, side = spec["containers"]
    assert app == BOTH[0]
    assert variables(side) == {
        "LD_PRELOAD": LIBRARY, "POOLSHIM_LIMIT": "300MiB", "POOLSHIM_LIMIT_HARD": "95%",
        "POOLSHIM_FLIGHT": "/poolshim-flight",
    }  # fmt: skip
    # A record of one container cannot be truncated by another: each has a folder.
    assert side["volumeMounts"][1] == {
        "name": "poolshim-flight", "mountPath": "/poolshim-flight", "subPath": "side",
    }  # fmt: skip
    no_flight = pod_of(annotations={wishes.FLIGHT: "false"})
    assert "POOLSHIM_FLIGHT" not in variables(
        inject(no_flight, has_flight=True).pod["spec"]["containers"][0]
    )


def test_variables_that_are_there_remain() -> None:
    env = [{"name": "POOLSHIM_LIMIT", "value": "1GiB"}, {"name": "PATH", "value": "/bin"}]
    (app,) = inject(pod_of([container_of(env=env)])).pod["spec"]["containers"]
    assert variables(app) == {"POOLSHIM_LIMIT": "1GiB", "PATH": "/bin", "LD_PRELOAD": LIBRARY}
    assert app["env"][:2] == env


@each_row("value, wanted, note", [
    ("", LIBRARY, ""),
    ("libfaketime.so.1", f"{LIBRARY}:libfaketime.so.1", ""),
    ("a.so b.so", f"{LIBRARY}:a.so:b.so", ""),
    (f"{LIBRARY}:a.so", f"{LIBRARY}:a.so", ""),
    (f"a.so:{LIBRARY}", f"{LIBRARY}:a.so", ""),
    ("$(FIRST)", f"{LIBRARY}:$(FIRST)", ""),
    ("/usr/lib/libjemalloc.so.2", f"{LIBRARY}:/usr/lib/libjemalloc.so.2", "libjemalloc.so.2"),
    ("/lib/libtcmalloc_minimal.so.4", f"{LIBRARY}:/lib/libtcmalloc_minimal.so.4", "is put first"),
    ("libasan.so.8", "libasan.so.8", "a sanitizer"),
])  # fmt: skip
def test_a_preload_that_is_there_is_preserved(value: str, wanted: str, note: str) -> None:
    outcome = inject(preload(value))
    assert variables(outcome.pod["spec"]["containers"][0])["LD_PRELOAD"] == wanted
    assert note in outcome.status and bool(note) == bool(outcome.notes)


def test_the_preload_keeps_its_place_among_variables_that_refer_to_others() -> None:
    env = [{"name": "FIRST", "value": "a.so"}, {"name": "LD_PRELOAD", "value": "$(FIRST)"},
           {"name": "COPY", "value": "$(LD_PRELOAD)"}]  # fmt: skip
    (app,) = inject(pod_of([container_of(env=env)])).pod["spec"]["containers"]
    assert [one["name"] for one in app["env"]][:3] == ["FIRST", "LD_PRELOAD", "COPY"]


@each_row("more, text", [
    ({"annotations": {wishes.LIMIT: "800%"}}, "limit: 800% is not a percentage from 1% to 100%"),
    ({"annotations": {wishes.LIMIT: "80"}}, "is too small (a percentage is written 80%)"),
    ({"annotations": {wishes.LIMIT: "much"}}, "neither a percentage such as 80% nor a size"),
    ({"annotations": {wishes.LIMIT_HARD: "-1"}}, "limit-hard: -1 is neither"),
    ({"annotations": {wishes.FLIGHT: "yes"}}, "flight: yes is neither true nor false"),
    ({"annotations": {wishes.CONTAINERS: "ap"}}, "no container ap; there are app"),
    ({"annotations": {wishes.CONTAINERS: " ,"}}, "names no container"),
    ({"annotations": {wishes.DOMAIN + "limits": "80%"}}, "no annotation poolshim.dev/limits;"),
    ({"os": {"name": "windows"}}, "the pod is for windows"),
    ({"nodeSelector": {"kubernetes.io/os": "windows"}}, "the pod is for windows"),
    ({"volumes": [{"name": "poolshim", "secret": {}}]}, "has a volume poolshim of its own"),
    ({"volumes": 7}, "volumes is no list"),
    ({"os": 7}, "os is no table"),
    ({"securityContext": [1]}, "securityContext is no table"),
    ({"containers": [{"image": "x"}]}, "a container has no name"),
    ({"containers": []}, "the pod has no containers"),
])  # fmt: skip
def test_a_pod_that_cannot_have_it_gets_the_reason_alone(more: dict[str, Any], text: str) -> None:
    containers = more.pop("containers", [container_of()])
    pod = pod_of(**more)
    pod["spec"]["containers"] = containers
    outcome = inject(pod)
    assert outcome.pod["spec"] == pod["spec"] and not outcome.done
    assert text in outcome.status and outcome.status.startswith("skipped (")
    assert outcome.pod["metadata"]["annotations"][wishes.STATUS] == outcome.status


@each_row("container, text", [
    ({"env": [{"name": "LD_PRELOAD", "valueFrom": {"configMapKeyRef": {}}}]}, "not known"),
    ({"volumeMounts": [{"name": "data", "mountPath": "/poolshim/"}]}, "own at /poolshim"),
])  # fmt: skip
def test_a_container_that_cannot_have_it_is_left_out_alone(
    container: dict[str, Any], text: str
) -> None:
    spec = pod_of([container_of("odd", **container), container_of("app")])
    outcome = inject(spec)
    odd, app = outcome.pod["spec"]["containers"]
    assert odd == spec["spec"]["containers"][0] and outcome.done == ["app"]
    assert variables(app)["LD_PRELOAD"] == LIBRARY
    assert outcome.status.startswith("injected: app (odd is left out: ") and text in outcome.status


@each_row("metadata", [{"labels": {wishes.INJECT: "false"}},
                       {"annotations": {wishes.INJECT: "false"}}])  # fmt: skip
def test_a_pod_that_says_no_is_not_touched(metadata: dict[str, Any]) -> None:
    pod = pod_of(**metadata)
    assert inject(pod).pod == pod


@each_row("context, wanted", [({}, None), ({"runAsUser": 1000}, None), ({"runAsUser": 0}, 65534)])
def test_the_init_container_is_never_root(context: dict[str, int], wanted: int | None) -> None:
    """Also in a pod whose containers are, where its own demand would keep it from starting."""
    (init,) = inject(pod_of(securityContext=context)).pod["spec"]["initContainers"]
    own = init["securityContext"]
    assert own["runAsNonRoot"] and own.get("runAsUser") == wanted
    assert own["readOnlyRootFilesystem"] and own["capabilities"] == {"drop": ["ALL"]}


def test_the_quality_of_service_of_a_pod_remains() -> None:
    """Guaranteed: all containers have limits equal to requests. BestEffort: none has any."""
    amounts = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    (init,) = inject(pod_of([container_of(resources=amounts)])).pod["spec"]["initContainers"]
    assert init["resources"]["requests"] == init["resources"]["limits"]
    assert set(init["resources"]["limits"]) == {"cpu", "memory"}
    (init,) = inject(pod_of()).pod["spec"]["initContainers"]
    assert "resources" not in init


def test_it_is_the_first_init_container_and_others_may_be_named() -> None:
    pod = pod_of(initContainers=[container_of("migrate")],
                 annotations={wishes.CONTAINERS: "app,migrate"})  # fmt: skip
    outcome = inject(pod)
    ours, migrate = outcome.pod["spec"]["initContainers"]
    assert (ours["name"], migrate["name"]) == ("poolshim", "migrate")
    assert variables(migrate)["LD_PRELOAD"] == LIBRARY and outcome.done == ["app", "migrate"]


def test_an_image_volume_needs_no_init_container() -> None:
    spec = inject(pod_of(), is_image_volume=True, pull="Always").pod["spec"]
    assert "initContainers" not in spec
    assert spec["volumes"][0]["image"] == {"reference": IMAGE, "pullPolicy": "Always"}


WORDS = ("app", "true", "poolshim", "/poolshim", "LD_PRELOAD", "80%", "name", "env", "containers",
         "volumes", "volumeMounts", "securityContext", "metadata", "annotations", "value",
         wishes.LIMIT, wishes.CONTAINERS)  # fmt: skip
FULL = pod_of(
    [container_of(env=[{"name": "LD_PRELOAD", "value": "a.so"}, {"name": "B", "valueFrom": {}}],
                  volumeMounts=[{"name": "v", "mountPath": "/v"}], resources={"limits": {}})],
    labels={"a": "b"}, annotations={wishes.LIMIT: "70%", wishes.CONTAINERS: "app"},
    os={"name": "linux"}, nodeSelector={"a": "b"}, securityContext={"runAsUser": 0},
    volumes=[{"name": "v", "emptyDir": {}}], initContainers=[container_of("first")],
)  # fmt: skip


def any_value(seeded: random.Random, depth: int = 0) -> Any:
    """A value of JSON."""
    kind = seeded.randrange(6 if depth < 3 else 3)
    if kind < 3:
        return (None, seeded.choice((0, -1, 1.5, True)), seeded.choice(WORDS))[kind]
    values = [any_value(seeded, depth + 1) for _ in range(seeded.randrange(4))]
    return values if kind == 3 else {seeded.choice(WORDS): value for value in values}


def change_somewhere(seeded: random.Random, value: Any) -> None:
    """Another value in the place of one."""
    keys: Any = list(value) if isinstance(value, dict) else range(len(value))
    key = seeded.choice(keys)
    is_inner = isinstance(value[key], (dict, list)) and value[key]
    if is_inner and seeded.random() < 0.7:
        change_somewhere(seeded, value[key])
    else:
        value[key] = any_value(seeded)


def test_pods_of_any_form_are_changed_once_or_left() -> None:
    seeded, done = random.Random(7), 0
    for _ in range(3000):
        pod = copy.deepcopy(FULL)
        for _ in range(seeded.randrange(1, 4)):
            change_somewhere(seeded, pod)
        outcome = inject(pod)
        done += bool(outcome.done)
        if not outcome.done:
            assert outcome.pod.get("spec") == pod.get("spec")
    assert 500 < done < 2500, done


KUBERNETES = ROOT / "scripts" / "packages" / "kubernetes"


def read_yaml(*names: str) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(KUBERNETES.joinpath(*names).read_text())


def test_the_component_of_kustomize_says_the_same() -> None:
    """tests/package/test_kubernetes.py has kustomize itself make it."""
    template = read_yaml("kustomize", "volume.yaml")["spec"]["template"]["spec"]
    amounts = {"limits": {"cpu": "1"}}
    pod = pod_of([container_of(resources=amounts)], securityContext={"runAsUser": 0})
    ours = inject(pod, has_flight=True).pod["spec"]
    (init,), (other,) = ours["initContainers"], template["initContainers"]
    del init["image"], init["imagePullPolicy"], other["image"]
    assert init == other and ours["volumes"] == template["volumes"]
    settings = read_yaml("kustomize", "settings.yaml")["spec"]
    (app,) = ours["containers"]
    assert variables(app) == {
        "LD_PRELOAD": settings["preload"], "POOLSHIM_LIMIT": settings["limit"],
        "POOLSHIM_FLIGHT": settings["flight"],
    }  # fmt: skip
    assert app["volumeMounts"][0] == {"name": "poolshim", **settings["library"]}


def test_the_chart_has_the_defaults_of_the_command_and_a_type_for_each_value() -> None:
    values = read_yaml("chart", "values.yaml")
    pods_values, plain = values["pods"], wishes.Settings(image="")
    assert (pods_values["limit"], pods_values["limitHard"]) == (plain.limit, plain.limit_hard)
    assert pods_values["init"] == {"cpu": plain.cpu, "memory": plain.memory}
    schema = json.loads((KUBERNETES / "chart" / "values.schema.json").read_text())

    def compare(table: dict[str, Any], rule: dict[str, Any]) -> None:
        if "$ref" in rule:
            rule = schema["definitions"][rule["$ref"].rpartition("/")[2]]
        if rule.get("additionalProperties") is False:
            assert set(table) == set(rule["properties"]) - {"global"}
            for name, value in table.items():
                if isinstance(value, dict):
                    compare(value, rule["properties"][name])

    compare(values, schema)


# ---- the command ----


def run(*words: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, "inject", *words], input=text)


def deployment(kind: str = "Deployment") -> dict[str, Any]:
    spec: dict[str, Any] = {"template": {"metadata": {}, "spec": pod_of()["spec"]}}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    return {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec}


@each_row("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod"])
def test_workloads_of_each_kind(kind: str) -> None:
    document = pod_of() if kind == "Pod" else deployment(kind)
    done = run("--image", IMAGE, text=json.dumps({"kind": "List", "items": [document]}))
    assert done.returncode == 0, done.stderr
    name = "service" if kind == "Pod" else "web"
    assert done.stderr == f"poolshim inject: {kind}/{name}: injected: app\n"
    assert done.stdout.count(LIBRARY) == 1


def test_yaml_of_many_documents(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    path = tmp_path / "all.yaml"
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    path.write_text(yaml.safe_dump_all([service, deployment(), pod_of()]))
    done = run("--image", IMAGE, "--flight", path)
    assert done.returncode == 0, done.stderr
    first, second, third = yaml.safe_load_all(done.stdout)
    assert first == service
    for spec in (second["spec"]["template"]["spec"], third["spec"]):
        assert variables(spec["containers"][0])["POOLSHIM_FLIGHT"] == "/poolshim-flight"


def test_a_pod_that_is_left_is_an_exit_status() -> None:
    wrong = pod_of(annotations={wishes.LIMIT: "x"})
    items = json.dumps({"kind": "List", "items": [wrong, deployment()]})
    done = run("--image", IMAGE, text=items)
    assert done.returncode == 1 and "Deployment/web: injected: app" in done.stderr
    assert done.stderr.endswith("poolshim inject: left as it is: Pod/service\n")
    assert len(json.loads(done.stdout)["items"]) == 2


@each_row("words, text, said", [
    ([], "", "which image has the library? --image NAME"),
    (["--image", "a b"], "", "is no name of an image"),
    (["--image", "a", "--limit", "800%"], "", "--limit: 800% is not a percentage"),
    (["--image", "a", "--limit-hard", "x"], "", "--limit-hard: x is neither"),
    (["--image", "a", "--pull", "never"], "", "is none of Always, IfNotPresent, Never"),
    (["--image", "a", "--cpu", "much"], "", "is no quantity"),
    (["--image", "a", "--colour"], "", "no option --colour"),
    (["--image", "a", "b", "c"], "", "one file at a time"),
    (["--image", "a", "/nowhere"], "", "/nowhere: No such file"),
    (["--image", "a"], "{", "this is no JSON"),
    (["--image", "a"], '{"a": 1}', "it has no kind"),
    (["--image", "a"], '{"kind": "Service"}', "there is no pod and no template of pods"),
    (["--image", "a"], '{"kind": "Job", "spec": {}}', "Job/ has no template of pods"),
])  # fmt: skip
def test_refused(words: list[str], text: str, said: str) -> None:
    done = run(*words, text=text)
    assert said in complaint_of(done, "inject", 2) and not done.stdout
