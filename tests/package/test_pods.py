# SPDX-License-Identifier: MIT
"""A pod that `poolshim inject` has changed runs: the image that the library is copied from, built
from its Dockerfile, and the containers with the mounts, users and variables of the pod.

    scripts/test --packages tests/package/test_pods.py        needs root, buildah and debootstrap

A chroot in a mount namespace, on a read-only root, is the container that a kubelet would make.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bare_system import clone, copy, run_ok
from conftest import ROOT, run_captured
from images import Images
from memory_cgroup import entering, limited_group

sys.path.insert(0, str(ROOT / "tests" / "cli"))

from pods import container_of, pod_of  # noqa: E402
from running import POOLSHIM  # noqa: E402

pytestmark = pytest.mark.package
pytest_plugins = ["made_once"]
DOCKERFILE = ROOT / "scripts" / "packages" / "kubernetes" / "Dockerfile"
IMAGE = "poolshim-library"
USER = 1000
PRIVATE = ("unshare", "--mount", "--propagation", "private")
LIMIT_MIB = 100
MUSL = "lib/ld-musl-x86_64.so.1"
# Arguments: the root, USER, pairs of what is mounted where, --, the command. A read-only root has
# its mounts made before, as container runtimes do.
ENTER = """
set -e
root=$1 user=$2
shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
while [ "$1" != -- ]; do
    mount --bind "$1" "$root$2"
    [ "$3" != ro ] || mount -o remount,ro,bind "$root$2"
    shift 3
done
shift
mount -o remount,ro,bind "$root"
exec chroot --userspec="$user:$user" "$root" /usr/bin/env -i "$@"
"""


@pytest.fixture(scope="module")
def images(base_system: Path, tmp_path_factory: pytest.TempPathFactory) -> Images:
    found = Images(tmp_path_factory.mktemp("images") / "store", base_system)
    context = clone(tmp_path_factory.mktemp("context") / "poolshim")
    text = DOCKERFILE.read_text()
    assert "BASE=debian:bullseye" in text
    found.build(IMAGE, text.replace("debian:bullseye", "debian:bookworm"), context)
    return found


@pytest.fixture(scope="module")
def root(base_system: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file system of the service, with places for its mounts and a loader of musl."""
    found = copy(base_system, tmp_path_factory.mktemp("service") / "root")
    for name in ("poolshim", "poolshim-flight", "sys/fs/cgroup", "proc"):
        (found / name).mkdir(parents=True, exist_ok=True)
    build = ["gcc", "-O2", "-pthread", f"-I{ROOT}", "-o", found / "load_limit"]
    run_ok(*build, ROOT / "tests" / "faults" / "load_limit.c")
    if Path("/", MUSL).exists():
        shutil.copy(Path("/", MUSL), found / MUSL)
        source = found / "maps.c"
        source.write_text(MAPS)
        run_ok("musl-gcc", "-o", found / "maps", source)
    return found


MAPS = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    char line[512];
    FILE *file = fopen("/proc/self/maps", "r");
    void *volatile block = malloc(100);
    free(block);
    while (fgets(line, sizeof line, file)) {
        fputs(line, stdout);
    }
    return 0;
}
"""


class Pod:
    """A pod after `poolshim inject`, and its volumes; the init container has run."""

    def __init__(self, images: Images, root: Path, folder: Path, **annotations: str) -> None:
        before = pod_of(
            [container_of("app", securityContext={"readOnlyRootFilesystem": True})],
            securityContext={"runAsUser": USER, "runAsNonRoot": True},
            annotations={f"poolshim.dev/{name}": text for name, text in annotations.items()},
        )
        done = run_captured([POOLSHIM, "inject", "--image", IMAGE], input=json.dumps(before))
        assert done.returncode == 0, done.stderr
        self.root, self.folder = root, folder
        self.spec: dict[str, Any] = json.loads(done.stdout)["spec"]
        for volume in self.spec["volumes"]:
            self.path(volume).mkdir()
            self.path(volume).chmod(0o777)  # as kubelets make an emptyDir
        (init,) = self.spec["initContainers"]
        mounts = {self.path(one): one["mountPath"] for one in init["volumeMounts"]}
        for _ in range(2):  # a kubelet may run it again
            images.run(init["image"], init["command"], {}, mounts)

    def path(self, mount: dict[str, Any]) -> Path:
        """The folder of a volume, or of a part of it."""
        found = self.folder / mount["name"] / mount.get("subPath", "")
        if "subPath" in mount and not found.exists():
            found.mkdir()
            found.chmod(0o777)
        return found

    def run(
        self, command: list[str], group: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """A command in the place of the container's own."""
        (app,) = self.spec["containers"]
        mounts: list[str] = []
        for one in app["volumeMounts"]:
            kind = "ro" if one.get("readOnly") else "rw"
            mounts += [str(self.path(one)), one["mountPath"], kind]
        env = {one["name"]: one["value"] for one in app["env"]} | more
        variables = [f"{name}={text}" for name, text in env.items()]
        words = [*PRIVATE, "sh", "-c", ENTER, "sh", str(self.root), str(USER), *mounts, "--",
                 *variables, *command]  # fmt: skip
        enter = {"preexec_fn": entering(group)} if group else {}
        return run_captured(words, timeout=120, **enter)


@pytest.fixture(scope="module")
def pod(images: Images, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Pod:
    folder = tmp_path_factory.mktemp("volumes")
    return Pod(images, root, folder, limit="90%", flight="true")


def test_the_image_has_a_library_for_each_c_library_and_no_shell(images: Images) -> None:
    files = images.files(IMAGE)
    regular = ("bin/cp", "lib64/libpoolshim.so", "$LIB/libpoolshim.so")  # others are links
    assert set(regular) < set(files)
    assert all(name == "bin/cp" or name.endswith("/libpoolshim.so") for name in files)
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    (said_mb,) = re.findall(r"`library`: (\d+) MB", text)
    assert sum(files[name] for name in regular) / 1e6 == pytest.approx(int(said_mb), rel=0.2)
    assert images.config(IMAGE)["User"] == "65534:65534"


def test_the_library_serves_programs_of_glibc(pod: Pod) -> None:
    done = pod.run(["/bin/cat", "/proc/self/maps", "/proc/self/environ"])
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert " /poolshim/lib64/libpoolshim.so\n" in done.stdout
    assert "LD_PRELOAD=/poolshim/$LIB/libpoolshim.so\0" in done.stdout
    assert "POOLSHIM_LIMIT=90%\0" in done.stdout
    done = pod.run(["/bin/sh", "-c", "id -u; touch /poolshim/x || touch /x || echo read-only"])
    assert done.stdout == f"{USER}\nread-only\n"


def test_the_library_serves_programs_of_musl(pod: Pod) -> None:
    if not (pod.root / "maps").exists():
        pytest.skip("musl-tools is not installed")
    done = pod.run(["/maps"])
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert " /poolshim/$LIB/libpoolshim.so\n" in done.stdout


def test_a_loader_that_finds_nothing_goes_on(pod: Pod) -> None:
    """As where the library was not copied."""
    nowhere = {"LD_PRELOAD": "/poolshim-flight/$LIB/libpoolshim.so"}
    done = pod.run(["/bin/cat", "/proc/self/maps"], **nowhere)
    assert done.returncode == 0 and "libpoolshim" not in done.stdout
    assert "cannot be preloaded" in done.stderr
    if (pod.root / "maps").exists():
        done = pod.run(["/maps"], **nowhere)
        assert done.returncode == 0 and "libpoolshim" not in done.stdout


def test_a_program_that_the_limit_would_kill_survives(pod: Pod) -> None:
    words = ["/load_limit", "mapping", "60", "60"]
    kept = {"POOLSHIM_PURGE_DELAY_MS": "60000"}
    with limited_group(LIMIT_MIB << 20) as group:
        without = pod.run(words, group, **kept, POOLSHIM_LIMIT="off")
        assert without.returncode in (-signal.SIGKILL, 1), without.stdout
        within = pod.run(words, group, **kept)
    assert within.returncode == 0, within.stderr
    assert int(within.stdout) <= LIMIT_MIB


def test_the_record_remains_after_a_kill(pod: Pod) -> None:
    with limited_group(LIMIT_MIB << 20) as group:
        done = pod.run(["/load_limit", "mapping", "10", "300"], group)
    assert done.returncode in (-signal.SIGKILL, 1)
    assert "flight record poolshim-" in done.stderr
    records = [path for path in (pod.folder / "poolshim-flight" / "app").iterdir()
               if "-exit" not in path.name]  # fmt: skip
    told = [run_captured([POOLSHIM, "profile", "--read", path]).stdout for path in records]
    assert any(" MiB live at the end" in text for text in told), told


def test_where_volumes_have_no_code_the_program_runs_without(pod: Pod, tmp_path: Path) -> None:
    """As of a mounted image in container runtimes that say noexec."""
    image = tmp_path / "image"
    image.mkdir()
    script = 'mount -t tmpfs -o noexec none "$1" && cp -a "$2/." "$1" && shift 2 && exec "$@"'
    command = ["env", f"LD_PRELOAD={image}/lib64/libpoolshim.so", "cat", "/proc/self/maps"]
    words = [*PRIVATE, "sh", "-c", script, "sh", image, pod.folder / "poolshim", *command]
    done = run_captured(words)
    assert done.returncode == 0 and "failed to map segment" in done.stderr
    assert not re.search(r"r-xp .*libpoolshim", done.stdout)
