# SPDX-License-Identifier: MIT
"""The Dockerfiles and the pod of docs/containers.md, built and run.

    scripts/test --packages tests/package/test_images.py        needs root and buildah
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from bare_system import clone, only, run_ok
from conftest import ROOT, run_captured
from images import Images, snippets

pytestmark = pytest.mark.package
pytest_plugins = ["made_once"]
FILES = snippets("containers.md", "dockerfile")
LIBRARY = "usr/lib/libpoolshim.so"


@pytest.fixture(scope="module")
def images(base_system: Path, tmp_path_factory: pytest.TempPathFactory) -> Images:
    """The images of the manual, by its names for them; only `package` is not built yet."""
    found = Images(tmp_path_factory.mktemp("images") / "store", base_system)
    context = clone(tmp_path_factory.mktemp("context") / "poolshim")
    found.build("poolshim-library", FILES["library"], context)
    found.build("poolshim-debian", FILES["service"], context)
    return found


def test_the_image_of_the_library_has_nothing_else(images: Images) -> None:
    files = images.files("poolshim-library")
    assert list(files) == [LIBRARY]
    text = (ROOT / "docs" / "containers.md").read_text()
    (said_kib,) = re.findall(r"an image of one file of (\d+) KiB", text)
    assert files[LIBRARY] / 1024 == pytest.approx(int(said_kib), rel=0.1)


def test_the_service_of_an_image_runs_on_it(images: Images) -> None:
    out = images.run("poolshim-debian")
    assert f" /{LIBRARY}\n" in out
    out = images.run("poolshim-debian", ["sh", "-c", "POOLSHIM_STATS=1 cat /dev/null 2>&1"])
    assert out.startswith("poolshim"), out


def test_the_debian_package_in_an_image(images: Images, dist: Path, tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    shutil.copy(only(dist, "poolshim_*.deb"), tmp_path / "dist")
    images.build("package", FILES["package"], tmp_path)
    assert "/libpoolshim.so.0" in images.run("package")


@pytest.fixture
def pod() -> dict:
    yaml = pytest.importorskip("yaml")
    (text,) = snippets("containers.md", "manifest").values()
    return yaml.safe_load(text)


def test_the_pod_runs(images: Images, pod: dict, tmp_path: Path) -> None:
    """Runs the pod as the kubelet does: the init container to its end, then the service."""
    spec = pod["spec"]
    volumes = {one["name"]: tmp_path / one["name"] for one in spec["volumes"]}
    for folder in volumes.values():
        folder.mkdir()
    images.buildah("tag", "debian:bookworm-slim", "service")

    def run(container: dict, command: list[str]) -> str:
        env = {one["name"]: one["value"] for one in container.get("env", [])}
        mounts = {volumes[one["name"]]: one["mountPath"] + (":ro" if one.get("readOnly") else "")
                  for one in container["volumeMounts"]}  # fmt: skip
        return images.run(container["image"], command, env, mounts)

    for container in spec["initContainers"]:
        run(container, container["command"])
    (service,) = spec["containers"]
    assert " /poolshim/libpoolshim.so\n" in run(service, ["cat", "/proc/self/maps"])


def test_the_pod_follows_the_schema(pod: dict, tmp_path: Path) -> None:
    """That of Kubernetes itself, which the package contains."""
    yaml = pytest.importorskip("yaml")
    run_ok(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "kubernetes-validate"]
    if run_captured(install, timeout=300).returncode != 0:
        pytest.skip("kubernetes-validate cannot be installed: no network?")
    validate = [tmp_path / "venv" / "bin" / "kubernetes-validate", "--strict"]
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(yaml.safe_dump(pod))
    run_ok(*validate, good)
    pod["spec"]["containers"][0]["volumeMount"] = []
    bad.write_text(yaml.safe_dump(pod))
    assert run_captured([*validate, bad]).returncode != 0
