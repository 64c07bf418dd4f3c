# SPDX-License-Identifier: MIT
"""Processes of containers, read from outside: other namespaces, other roots, other file systems.

    scripts/test tests/cli/test_cli_namespaces.py

Namespaces and roots are those of containers, made by hand; likewise for the recipes of
docs/containers.md.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from running import POOLSHIM, Start, spawn
from sampling import Sample, await_looks, end, program, sample, target_of, work
from serving import get, samples_in, value_of
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof  # noqa: E402

__all__ = ["program", "sample", "spawn"]

pytestmark = [pytest.mark.preload, pytest.mark.root]

GUIDE = ROOT / "docs" / "containers.md"
UNSHARE = ["unshare", "--fork", "--kill-child"]
ENTER = [
    sys.executable, "-c", "import os, sys; os.chroot(sys.argv[1]); os.chdir('/')\n"
    "os.execve('/program', ['program'], {'LD_PRELOAD': '/libpoolshim.so'})",
]  # fmt: skip

Place = Callable[[Path, Path, Path], "list[str | Path]"]


def tree(folder: Path, program: Path, shim: Path) -> None:
    """A root with a program, the library, and what both are linked to."""
    folder.chmod(0o755)
    listed = run_captured(["ldd", program]).stdout + run_captured(["ldd", shim]).stdout
    for name in set(re.findall(r"(/\S+) \(0x", listed)):
        target = folder / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, target)
    shutil.copy(program, folder / "program")
    shutil.copy(shim.resolve(), folder / "libpoolshim.so")


def in_pid_namespace(folder: Path, program: Path, shim: Path) -> list[str | Path]:
    """Other process ids, another /proc, other mounts."""
    return [*UNSHARE, "-p", "-m", "--mount-proc", "env", f"LD_PRELOAD={shim}", program]


def in_own_mounts(folder: Path, program: Path, shim: Path) -> list[str | Path]:
    """Files that this side does not see at all."""
    script = (
        f"mount -t tmpfs none {folder} && cp {program} {folder}/program && "
        f"cp {shim.resolve()} {folder}/libpoolshim.so && "
        f"LD_PRELOAD={folder}/libpoolshim.so exec {folder}/program"
    )
    return ["unshare", "-m", "sh", "-c", script]


def in_chroot(folder: Path, program: Path, shim: Path) -> list[str | Path]:
    """Another root, the same namespaces, no /proc."""
    tree(folder, program, shim)
    return [*ENTER, folder]


def on_overlay(folder: Path, program: Path, shim: Path) -> list[str | Path]:
    """The library on overlayfs, as in the layers of an image: its device differs in /proc/PID/maps
    from what stat tells."""
    lower, changes, merged = (folder / name for name in ("lower", "changes", "merged"))
    for one in (lower, changes, merged):
        one.mkdir()
    tree(lower, program, shim)
    script = (
        f"mount -t tmpfs none {changes} && mkdir {changes}/upper {changes}/work && "
        f"mount -t overlay -o lowerdir={lower},upperdir={changes}/upper,workdir={changes}/work "
        f"none {merged} && "
        f"touch {merged}/libpoolshim.so && exec {shlex.join([*ENTER, str(merged)])}"
    )
    return ["unshare", "-m", "sh", "-c", script]


def in_all_namespaces(folder: Path, program: Path, shim: Path) -> list[str | Path]:
    """What a container has: processes, mounts, groups, names, messages, and a root of its own."""
    tree(folder, program, shim)
    (folder / "proc").mkdir()
    script = f"mount -t proc proc {folder}/proc && exec {shlex.join([*ENTER, str(folder)])}"
    return [*UNSHARE, "-p", "-m", "-C", "-u", "-i", "-n", "sh", "-c", script]


PLACES: dict[str, Place] = {
    "pid": in_pid_namespace, "mounts": in_own_mounts, "chroot": in_chroot,
    "overlay": on_overlay, "all": in_all_namespaces,
}  # fmt: skip


def is_program(pid: int) -> bool:
    """Not one of those that start it."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() in ("program", "sites")
    except OSError:
        return False


def descendants(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    for child in children:
        yield from descendants(int(child))


@pytest.fixture(params=PLACES)
def inside(
    request: pytest.FixtureRequest, spawn: Start, program: Path, shim: Path, tmp_path: Path
) -> subprocess.Popen[str]:
    """The program in one of the places; `pid` is its number out here."""
    need("unshare", "mount")
    if run_captured([*UNSHARE, "-p", "-m", "-C", "-u", "-i", "-n", "true"]).returncode != 0:
        pytest.skip("no such namespaces here")
    process = spawn(PLACES[request.param](tmp_path, program, shim), False)
    (process.pid,) = (pid for pid in descendants(process.pid) if is_program(pid))
    return process


def poolshim(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, *words])


def test_a_process_elsewhere(inside: subprocess.Popen[str], sample: Sample, tmp_path: Path) -> None:
    """Each command gives what it gives of a process beside it."""
    need("addr2line")
    pid = str(inside.pid)
    path = tmp_path / "heap.pb.gz"
    command = sample(inside, "-o", path)
    work(inside)
    done = end(command)
    assert done.returncode == 0, done.stderr
    profile = pprof.read(path)
    names = {name for one in profile.samples for each in one.locations for name in each.names}
    assert {"keep_small", "churn_small", "keep_large"} <= names
    done = poolshim("stats", "--json", pid)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["pid"] == inside.pid and found["program"] in ("program", "sites")
    assert found["memory"]["live_bytes"] > 50_000 * 1000 + 8000 * 1000 + 5 * 2_000_000
    done = poolshim("exporter", "--once", pid)
    assert f'poolshim_live_blocks{{pid="{pid}"' in done.stdout, done.stderr
    explain = subprocess.Popen(
        [POOLSHIM, "explain", "--pid", pid, "--seconds", "60", "--interval", "16K", "--json"],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    await_looks(target_of(inside))
    for _ in range(3):
        work(inside)
        await_looks(target_of(inside))
    done = end(explain)
    sites = {site["name"] for site in json.loads(done.stdout)["sites"]}
    assert {"keep_small", "keep_large"} <= sites, done.stderr
    done = poolshim("trim", "--timeout", "0.1", pid)
    assert done.returncode == 0 or "idle" in done.stderr or "did not answer" in done.stderr


# ---- the recipes of docs/containers.md ----


def snippet(kind: str) -> str:
    """The code below a comment of the guide."""
    found = re.search(rf"<!-- {kind}: \S+ -->\n```\w+\n(.*?\n)```", GUIDE.read_text(), re.DOTALL)
    assert found, kind
    return found[1]


@pytest.fixture
def contained(spawn: Start, program: Path, shim: Path, tmp_path: Path) -> subprocess.Popen[str]:
    """The program in all namespaces, of a user without rights; `pid` is its number out here."""
    need("unshare", "mount", "setpriv", "nsenter")
    if run_captured([*UNSHARE, "-p", "-m", "-C", "-u", "-i", "-n", "true"]).returncode != 0:
        pytest.skip("no such namespaces here")
    command = in_all_namespaces(tmp_path, program, shim)
    script = str(command[-1]).replace("os.execve", "os.setgid(65534); os.setuid(65534); os.execve")
    process = spawn([*command[:-1], script], False)
    (process.pid,) = (pid for pid in descendants(process.pid) if is_program(pid))
    return process


def with_capabilities(names: list[str]) -> list[str]:
    """Starts a command of root with these alone."""
    kept = ",".join(f"+{name.lower()}" for name in names)
    return ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all", "--"]


def test_the_exporter_of_each_node(contained: subprocess.Popen[str]) -> None:
    """With the capabilities and the words of the manifest, and no others."""
    yaml = pytest.importorskip("yaml")
    manifest = yaml.safe_load(snippet("daemonset"))
    assert (manifest["apiVersion"], manifest["kind"]) == ("apps/v1", "DaemonSet")
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["hostPID"] is True
    assert {one["name"] for one in container["volumeMounts"]} == {
        one["name"] for one in pod["volumes"]}  # fmt: skip
    rights = container["securityContext"]["capabilities"]
    assert rights["drop"] == ["ALL"]
    starter = with_capabilities(rights["add"])
    words = container["command"]
    assert words[0] == "poolshim"
    port = words[words.index("--listen") + 1].rpartition(":")[2]
    assert [one["containerPort"] for one in container["ports"]] == [int(port)]
    words = [word.replace("0.0.0.0:" + port, "127.0.0.1:0") for word in words[1:]]
    exporter = subprocess.Popen([*starter, POOLSHIM, *words, str(contained.pid)],
                                stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert exporter.stdout is not None
        address = exporter.stdout.readline().strip()
        found = samples_in(get(address)[1].decode())
        assert value_of(found, "poolshim_live_blocks", pid=str(contained.pid)) >= 50_000
        url = address.replace("/metrics", f"/debug/pprof/heap?pid={contained.pid}&seconds=0.5")
        status, body, _ = get(url)
        assert status == 200, body
    finally:
        exporter.kill()
        exporter.communicate()
    fewer = with_capabilities([name for name in rights["add"] if name != "SYS_PTRACE"])
    done = run_captured([*fewer, POOLSHIM, "stats", str(contained.pid)])
    assert done.returncode == 126 and "not permitted" in done.stderr


def test_inside_by_nsenter(contained: subprocess.Popen[str]) -> None:
    """The numbers of processes are those inside, the files of the command those out here."""
    script = snippet("nsenter").replace("poolshim", str(POOLSHIM), 1)
    done = run_captured(["sh", "-euc", script], env={**os.environ, "PID": str(contained.pid)})
    assert done.returncode == 0, done.stderr
    status = Path(f"/proc/{contained.pid}/status").read_text()
    inner = re.findall(r"^NSpid:.*\s(\d+)$", status, re.M)[0]
    assert re.search(rf"^ *{inner} program ", done.stdout, re.M), done.stdout
    assert done.stdout.count("\n") == 2, "a head and one process"


def test_an_ephemeral_container(contained: subprocess.Popen[str]) -> None:
    """Shares the processes of another container, and has files and capabilities of its own: those
    that runtimes give, and SYS_PTRACE, which the profile adds."""
    words = shlex.split(snippet("kubectl").partition("\n")[0])
    assert words[:2] == ["kubectl", "debug"] and "--profile=general" in words
    if shutil.which("kubectl"):
        options = run_captured(["kubectl", "debug", "--help"]).stdout
        for word in words[2 : words.index("--")]:
            name = word.partition("=")[0]
            assert not name.startswith("--") or re.search(rf"(^|\s){name}[=,]", options), name
    command = words[words.index("--") + 1 :]
    status = Path(f"/proc/{contained.pid}/status").read_text()
    inner = re.findall(r"^NSpid:.*\s(\d+)$", status, re.M)[0]
    assert command == ["poolshim", "stats", inner], "the first process of the container"
    starter = with_capabilities([
        "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
        "NET_BIND_SERVICE", "NET_RAW", "SYS_CHROOT", "MKNOD", "AUDIT_WRITE", "SETFCAP",
        "SYS_PTRACE",
    ])  # fmt: skip
    script = (f"mount -t proc proc /proc && exec {shlex.join(starter)} "
              f"{POOLSHIM} stats --json {inner}")  # fmt: skip
    done = run_captured(["nsenter", "--target", str(contained.pid), "--pid", "unshare", "--mount",
                         "sh", "-c", script])  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pid"] == int(inner)
