# SPDX-License-Identifier: MIT
"""Control groups as `poolshim why` reads them, from trees of files like those of real machines.

    scripts/test tests/cli/test_why_group.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import ROOT
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.live import containers, targets, usage  # noqa: E402
from poolshim_cli.live.groups import Groups, Place, below, processes_of  # noqa: E402

MIB = 1 << 20
PID = 4711
ID = "3f2a9c41d07e" + "5b" * 26
UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
UNLIMITED = "9223372036854771712\n"
MOUNT_2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
MOUNT_1 = "33 24 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
STAT_2 = (f"anon {40 * MIB}\nfile {50 * MIB}\nkernel {3 * MIB}\nshmem {20 * MIB}\n"
          f"inactive_file {10 * MIB}\nnonsense\n")  # fmt: skip
STAT_1 = (f"cache 1\nrss 2\ntotal_rss {40 * MIB}\ntotal_cache {50 * MIB}\n"
          f"total_shmem {20 * MIB}\ntotal_swap {5 * MIB}\n")  # fmt: skip
PRESSURE = ("some avg10=12.50 avg60=3.00 avg300=1.00 total=5\n"
            "full avg10=4.00 avg60=1.00 avg300=0.00 total=2\n")  # fmt: skip


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def tree_2(root: Path, path: str, mount: str = MOUNT_2, limit: str = "max") -> Path:
    """A machine of version 2 with a process in one group."""
    folder = root / "sys/fs/cgroup" / path.strip("/")
    write(root, {f"proc/{PID}/cgroup": f"0::{path}\n", "proc/self/mountinfo": mount})
    write(folder, {
        "memory.current": f"{95 * MIB}\n", "memory.max": f"{limit}\n", "memory.high": "max\n",
        "memory.peak": f"{99 * MIB}\n", "memory.swap.current": f"{7 * MIB}\n",
        "memory.stat": STAT_2, "memory.events": "low 0\nhigh 0\nmax 17\noom 2\noom_kill 1\n",
        "memory.pressure": PRESSURE, "cgroup.procs": f"{PID}\n",
    })  # fmt: skip
    return folder


def place_in(root: Path) -> Place | None:
    """Of the process."""
    path = root / "proc" / str(PID) / "cgroup"
    return Groups(root).place_of(containers.paths_in(path.read_text() if path.exists() else ""))


def found_in(root: Path) -> usage.Group:
    place = place_in(root)
    assert place is not None
    return usage.read(place)


def test_version_2(tmp_path: Path) -> None:
    tree_2(tmp_path, "/kubepods.slice/pod.slice/cri-containerd-x.scope", limit=str(100 * MIB))
    found = found_in(tmp_path)
    assert (found.version, found.current, found.peak) == (2, 95 * MIB, 99 * MIB)
    assert (found.anon, found.cache, found.shmem, found.swap) == (
        40 * MIB, 30 * MIB, 20 * MIB, 7 * MIB)  # fmt: skip
    assert (found.kernel, found.unreclaimable) == (3 * MIB, 65 * MIB)
    assert (found.kills, found.hits, found.pressure["some"]) == (1, 17, 12.5)
    level = found.tightest
    assert level is not None and (level.limit, level.left) == (100 * MIB, 5 * MIB)


def test_version_1(tmp_path: Path) -> None:
    path = f"/kubepods/burstable/pod1/{ID}"
    folder = tmp_path / "sys/fs/cgroup/memory" / path.strip("/")
    write(tmp_path, {f"proc/{PID}/cgroup": f"5:cpu:/\n4:memory:{path}\n0::/\n",
                     "proc/self/mountinfo": MOUNT_1})  # fmt: skip
    write(folder, {
        "memory.usage_in_bytes": str(95 * MIB), "memory.limit_in_bytes": str(128 * MIB),
        "memory.stat": STAT_1, "memory.failcnt": "3\n", "memory.kmem.usage_in_bytes": "4096",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    })  # fmt: skip
    write(folder.parent, {"memory.limit_in_bytes": UNLIMITED, "memory.usage_in_bytes": "1"})
    found = found_in(tmp_path)
    assert (found.version, found.anon, found.cache, found.shmem) == (
        1, 40 * MIB, 30 * MIB, 20 * MIB)  # fmt: skip
    assert (found.swap, found.kernel, found.kills, found.hits) == (5 * MIB, 4096, 2, 3)
    assert [one.limit for one in found.levels] == [128 * MIB]


def test_the_tightest_limit_may_be_above(tmp_path: Path) -> None:
    """Of a pod with several containers, whose own limits are larger than the rest of the pod's."""
    folder = tree_2(tmp_path, "/kubepods/pod1/one", limit=str(1000 * MIB))
    write(folder.parent, {"memory.max": str(200 * MIB), "memory.current": str(190 * MIB),
                          "memory.high": str(150 * MIB)})  # fmt: skip
    level = found_in(tmp_path).tightest
    assert level is not None
    assert (level.path, level.limit, level.source) == ("/kubepods/pod1", 150 * MIB, "memory.high")


@each_row("path, part, wanted", [
    ("/a/b", "/", "/a/b"), ("/a/b", "/a", "/b"), ("/a", "/a", ""), ("/ab", "/a", None),
    ("/../other", "/", None), ("/", "/", ""), ("/docker/x", "/docker/x", ""),
    ("/../../pod1/x", "/../..", "/pod1/x"), ("/../../../x", "/../..", None),
])  # fmt: skip
def test_the_part_below_a_mount(path: str, part: str, wanted: str | None) -> None:
    assert below(path, part) == wanted


def test_a_container_that_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    mount = f"30 24 0:26 /docker/{ID} /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
    tree_2(tmp_path, "/", mount, "max")
    write(tmp_path, {f"proc/{PID}/cgroup": f"0::/docker/{ID}\n"})
    assert found_in(tmp_path).current == 95 * MIB


def test_a_mount_with_blanks_in_its_path(tmp_path: Path) -> None:
    tree_2(tmp_path, "/a", MOUNT_2.replace("/sys/fs/cgroup", "/sys/fs/c\\040group"))
    (tmp_path / "sys/fs/cgroup").rename(tmp_path / "sys/fs/c group")
    assert found_in(tmp_path).anon == 40 * MIB


def test_a_kernel_without_pressure_peaks_and_events(tmp_path: Path) -> None:
    folder = tree_2(tmp_path, "/a")
    for name in ("memory.pressure", "memory.peak", "memory.events", "memory.swap.current"):
        (folder / name).unlink()
    found = found_in(tmp_path)
    assert (found.pressure, found.peak, found.kills, found.swap) == ({}, 0, 0, 0)
    assert found.levels == [] and found.tightest is None


@each_row("text", ["", "max", "-5", "1e9", "9" * 40, "\0\0", "12 13", "x"])
def test_files_with_other_contents(tmp_path: Path, text: str) -> None:
    folder = tree_2(tmp_path, "/a")
    write(folder, dict.fromkeys(("memory.current", "memory.max", "memory.stat", "memory.events",
                                 "memory.pressure", "cgroup.procs"), text))  # fmt: skip
    found = found_in(tmp_path)
    assert (found.current, found.anon, found.levels, found.pressure) == (0, 0, [], {})
    place = place_in(tmp_path)
    assert place is not None and processes_of(place) in ([], [12, 13])


@each_row("files", [
    {}, {f"proc/{PID}/cgroup": "0::/a\n"}, {"proc/self/mountinfo": MOUNT_2},
    {f"proc/{PID}/cgroup": "0::/a\n", "proc/self/mountinfo": MOUNT_1},
    {f"proc/{PID}/cgroup": "0::/gone\n", "proc/self/mountinfo": MOUNT_2},
    {f"proc/{PID}/cgroup": ":::\n::\n\n", "proc/self/mountinfo": "a - b\n - \n"},
])  # fmt: skip
def test_without_a_group(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    assert place_in(tmp_path) is None


@each_row("name, word, is_match", [
    (f"docker-{ID}.scope", ID, True), (f"docker-{ID}.scope", ID[:12], True),
    (f"crio-{ID}.scope", ID[:4], True), (f"cri-containerd-{ID}.scope", ID[:20], True),
    (f"libpod-{ID}.scope", ID[:12], True), (ID, ID[:12], True), (ID, ID[:3], False),
    (ID, ID[1:12], False), ("nginx.service", "nginx", True), ("nginx.service", "ngin", False),
    (f"docker-{ID}.scope", f"docker-{ID}.scope", True), ("pod1", "pod1", True),
])  # fmt: skip
def test_names_of_containers(name: str, word: str, is_match: bool) -> None:
    for tail in ("", "/init.scope"):
        wanted = f"/x/{name}" if is_match else ""
        assert containers.part_named(f"/x/{name}{tail}", word) == wanted


def test_a_pod_and_a_container_that_has_a_name() -> None:
    pod = "/kubepods.slice/kubepods-pod" + UID.replace("-", "_") + ".slice"
    path = f"{pod}/cri-containerd-{ID}.scope"
    assert containers.part_named(path, UID) == pod
    assert containers.part_named(path, ID[:12]) == path
    assert containers.part_named("/lxc.payload.web/init.scope", "web") == "/lxc.payload.web"
    assert containers.short(path) == f"cri-containerd-{ID[:12]}.scope"
    assert containers.short(pod) == pod.rpartition("/")[2]


def test_a_container_is_found_with_all_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/kubepods.slice/pod1.slice/cri-containerd-{ID}.scope"
    folder = tree_2(tmp_path, path)
    write(folder / "worker", {"cgroup.procs": "12\n13\n0\n", "memory.current": "1"})
    monkeypatch.setattr(containers, "all_pids", lambda: [PID, 12])
    monkeypatch.setattr(containers, "paths_of",
                        lambda pid: {"": path + "/worker" * (pid == 12)})  # fmt: skip
    groups = Groups(tmp_path)
    for word in (ID[:12], path, str(folder), f"cri-containerd-{ID}", ID):
        (place,) = targets.groups_named(word, groups)
        assert place.folder == folder
        assert processes_of(place) == [12, 13, PID]
    assert targets.groups_named("../../proc", groups) == []
    assert targets.groups_named("deadbeef0000", groups) == []


def test_both_versions_at_once(tmp_path: Path) -> None:
    """Memory is counted by version 1 there; a process may be in other groups of version 2."""
    write(tmp_path, {f"proc/{PID}/cgroup": "4:memory:/a\n0::/b\n",
                     "proc/self/mountinfo": MOUNT_2 + MOUNT_1})  # fmt: skip
    for folder in ("memory/a", "b"):
        write(tmp_path / "sys/fs/cgroup" / folder, {"memory.stat": "total_rss 1\nanon 2\n"})
    found = found_in(tmp_path)
    assert (found.version, found.anon) == (1, 1)
    (tmp_path / "sys/fs/cgroup/memory/a/memory.stat").unlink()
    assert found_in(tmp_path).version == 2
