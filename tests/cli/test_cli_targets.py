# SPDX-License-Identifier: MIT
"""Processes named by a container, a pod or a program: `stats container:ID`, `--container`, NAME.

    scripts/test tests/cli/test_cli_targets.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from memory_cgroup import entering, named_group
from running import POOLSHIM, SILENT, Start, spawn, start
from running import complaint as complaint_of
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.live.containers import (  # noqa: E402
    Identity,
    identity_in,
    identity_of,
    is_asked_for,
    paths_in,
)
from poolshim_cli.live.scripts import name_of  # noqa: E402

__all__ = ["spawn", "start"]

ID, OTHER = "4f3c" + "a1" * 30, "4f3d" + "b2" * 30
UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
UNIT = UID.replace("-", "_")


@each_row(
    ("path", "container", "pod", "group"),
    [
        (f"/docker/{ID}", ID, "", f"/docker/{ID}"),
        (f"/system.slice/docker-{ID}.scope", ID, "", f"/system.slice/docker-{ID}.scope"),
        (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNIT}.slice/"
         f"cri-containerd-{ID}.scope", ID, UID, None),
        (f"/kubepods.slice/kubepods-pod{UNIT}.slice/crio-{ID}.scope", ID, UID, None),
        (f"/kubepods/besteffort/pod{UID}/{ID}", ID, UID, None),
        (f"/system.slice/containerd.service/kubepods-burstable-pod{UNIT}.slice:cri-containerd:{ID}",
         ID, UID, None),
        (f"/../cri-containerd-{ID}.scope", ID, "", None),
        (f"/machine.slice/libpod-{ID}.scope/container", ID, "",
         f"/machine.slice/libpod-{ID}.scope"),
        (f"/libpod_parent/libpod-{ID}", ID, "", None),
        (f"/docker/{OTHER}/kubelet/kubepods/pod{UID}/{ID}", ID, UID, None),
        (f"/kubepods.slice/kubepods-pod{UNIT}.slice/crio-conmon-{ID}.scope", "", UID, ""),
        (f"/machine.slice/libpod-conmon-{ID}.scope", "", "", ""),
        ("/lxc.payload.web/init.scope", "web", "", "/lxc.payload.web"),
        ("/lxc/web", "web", "", None),
        (r"/machine.slice/machine-my\x2dbox.scope/payload", "my-box", "",
         r"/machine.slice/machine-my\x2dbox.scope"),
        ("/user.slice/user-0.slice/session-1.scope", "", "", ""),
        (f"/system.slice/{ID[:63]}.service", "", "", ""),
        ("/", "", "", ""),
    ],
)
def test_the_path_of_a_group_names_its_container(
    path: str, container: str, pod: str, group: str | None
) -> None:
    found = identity_of(path)
    assert (found.container, found.pod) == (container, pod)
    assert found.group == (path if group is None else group)


def test_any_hierarchy_may_name_it() -> None:
    lines = ("12:cpu,cpuacct:/", f"4:memory:/docker/{ID}", "1:name=systemd:/x:y", "0::/", "broken")
    paths = paths_in("\n".join(lines))
    assert paths == {"cpu": "/", "cpuacct": "/", "memory": f"/docker/{ID}", "name=systemd": "/x:y",
                     "": "/"}  # fmt: skip
    assert identity_in(paths).container == ID
    assert identity_in({"memory": "/", "": f"/docker/{OTHER}"}).container == OTHER
    assert identity_in({}) == Identity()


@each_row(
    ("text", "is_it"),
    [(ID, True), (ID[:12], True), (UID, True), (UID[:8], False), (ID + "0", False), ("", False),
     ("4f3d", False)],
)  # fmt: skip
def test_what_asks_for_a_container(text: str, is_it: bool) -> None:
    assert is_asked_for(Identity(ID, UID, "/x"), text) is is_it
    assert not is_asked_for(Identity(), text)
    assert is_asked_for(Identity("web", "", "/lxc.payload.web"), "web")
    assert not is_asked_for(Identity("web", "", "/lxc.payload.web"), "we")


def stats(*words: str) -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, "stats", "--json", *words])


def complaint(done: subprocess.CompletedProcess[str], status: int) -> str:
    return complaint_of(done, "stats", status)


@pytest.fixture
def group() -> Iterator[Path]:
    """A group that is called like a container of docker."""
    with named_group(1 << 30, f"docker-{ID}.scope") as folder:
        yield folder


@pytest.fixture
def inside(group: Path, shim: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two processes in it, one of them on poolshim; they end before the group does."""
    running = []
    for settings in ({"LD_PRELOAD": str(shim)}, {}):
        process = subprocess.Popen([sys.executable, "-S", "-c", SILENT], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**os.environ, **settings},
                                   preexec_fn=entering(group))  # fmt: skip
        running.append(process)
        assert process.stdout is not None and process.stdout.readline() == "1\n"
    yield running
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.preload
@pytest.mark.root
def test_a_container_is_its_process_on_poolshim(inside: list[subprocess.Popen[str]]) -> None:
    for words in ([f"container:{ID[:12]}"], ["--container", ID], [f"--container={ID[:5]}"]):
        done = stats(*words)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["pid"] == inside[0].pid


@pytest.mark.preload
@pytest.mark.root
def test_a_container_without_poolshim_is_one_line(inside: list[subprocess.Popen[str]]) -> None:
    inside[0].kill()
    inside[0].wait()
    line = complaint(stats("--container", ID), 1)
    assert line == f"process {inside[1].pid} does not run on poolshim\n"


@pytest.mark.preload
@pytest.mark.root
def test_two_containers_whose_ids_begin_alike(inside: list[subprocess.Popen[str]]) -> None:
    assert inside
    with named_group(1 << 30, f"cri-containerd-{OTHER}.scope") as other:
        process = subprocess.Popen(["sleep", "1000"], preexec_fn=entering(other))
        try:
            line = complaint(stats("--container", "4f3"), 2)
            assert line == f"4f3 begins 2 container ids: {ID}, {OTHER}\n"
        finally:
            process.kill()
            process.wait()


@pytest.mark.preload
def test_a_program_by_its_name(spawn: Start, tmp_path: Path) -> None:
    program = tmp_path / f"named-{os.getpid() % 10000}"
    shutil.copy(sys.executable, program)
    home = {"PYTHONHOME": sys.base_prefix}
    processes = [spawn([program, "-S", "-c", SILENT], **home) for _ in range(2)]
    first, second = processes
    line = complaint(stats(program.name), 2)
    assert line == (f"{program.name} names 2 processes, and PID has to be one of them: "
                    f"{first.pid} ({program.name}), {second.pid} ({program.name})\n")  # fmt: skip
    first.kill()
    first.wait()
    done = stats(program.name)
    assert done.returncode == 0 and json.loads(done.stdout)["pid"] == second.pid
    assert complaint(stats(program.name[:-1]), 127).startswith("no process has the name named-")
    trimmed = run_captured([POOLSHIM, "trim", "--json", "--timeout", "0.1", program.name])
    assert trimmed.returncode in (0, 1) and "no process" not in trimmed.stderr


@each_row(
    ("line", "name"),
    [
        ("/usr/bin/python3.11 -u -W ignore /srv/app.py --port 80", "app.py"),
        ("python3 -m gunicorn app:app", "gunicorn"),
        ("java -Xmx1g -cp a.jar:b.jar -Da=b shop.Main", "shop.Main"),
        ("java -jar /srv/shop.jar x", "shop.jar"),
        ("node --require ./trace.js server.js", "server.js"),
        ("ruby /srv/bin/puma", "puma"),
        ("python3 -c pass app.py", ""),
        ("python3 -m", ""),
        ("python3", ""),
        ("vim app.py", ""),
        ("", ""),
    ],
)
def test_the_script_of_a_command_line(line: str, name: str) -> None:
    assert name_of(line.split()) == name


@pytest.mark.preload
def test_a_script_by_its_name(spawn: Start, tmp_path: Path) -> None:
    script = tmp_path / f"script-{os.getpid()}.py"
    script.write_text(SILENT)
    process = spawn([sys.executable, "-S", script])
    done = stats(script.name)
    assert done.returncode == 0 and json.loads(done.stdout)["pid"] == process.pid


@each_row(
    ("words", "status", "line"),
    [
        (["--container", "x y"], 127, "no container x y has a process here"),
        (["--container", "\033[2J"], 127, "no container ?[2J has a process here"),
        (["no-such-program"], 127, "no process has the name no-such-program"),
        (["a\nb"], 127, "no process has the name a?b"),
        (["--container", ""], 2, "--container: the id of a container is missing"),
        (["--container", "a", "--container"], 2, "--container needs a value"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], status: int, line: str) -> None:
    assert complaint(stats(*words), status) == line + "\n"
