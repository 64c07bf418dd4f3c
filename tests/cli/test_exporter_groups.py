# SPDX-License-Identifier: MIT
"""`poolshim exporter`: containers as labels, sums and the kernel's figures of control groups.

    scripts/test tests/cli/test_exporter_groups.py
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from conftest import ROOT, SLOWNESS, run_captured
from memory_cgroup import entering, inner_group, named_group, remove_group
from running import POOLSHIM, SILENT, Start, spawn, start
from sampling import await_that
from serving import Serve, get, samples_in, serve, value_of

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.exporter import exposition, metrics, sums  # noqa: E402
from poolshim_cli.live import usage  # noqa: E402
from poolshim_cli.live.groups import Groups, Mount, Place, mounts_in  # noqa: E402

__all__ = ["serve", "spawn", "start"]

MIB = 1 << 20
ID = "5e1f" + "0c" * 30
UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
LIMIT = 200 * MIB
QUIET = "import sys; kept = b'x' * (20 << 20); print(1, flush=True); sys.stdin.read(1)"
PARTS = metrics.PARTS

Inside = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def group() -> Iterator[Path]:
    """The group of a container in a pod."""
    with ExitStack() as stack:
        name = f"kubepods-pod{UID.replace('-', '_')}.slice"
        pod = stack.enter_context(named_group(1 << 40, name))
        child = inner_group(pod, f"cri-containerd-{ID}.scope")
        stack.callback(remove_group, child)
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (child / name).exists():
                (child / name).write_text(str(LIMIT))
        yield child


@pytest.fixture
def inside(group: Path, shim: Path) -> Iterator[Inside]:
    """Starts a Python program on poolshim in the group; it ends before the group does."""
    running: list[subprocess.Popen[str]] = []

    def begin(program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", program], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "LD_PRELOAD": str(shim)},
            preexec_fn=entering(group),
        )  # fmt: skip
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def started(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    return process.pid


def expressions() -> list[str]:
    """The queries of the board."""
    board = json.loads((ROOT / "docs" / "grafana.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def once(*words: str) -> Any:
    done = run_captured([POOLSHIM, "exporter", "--once", *words])
    assert done.returncode == 0, done.stderr
    return samples_in(done.stdout)


@pytest.mark.preload
@pytest.mark.root
def test_figures_of_a_container(group: Path, inside: Inside) -> None:
    pids = [started(inside(QUIET)) for _ in range(2)]
    found = once("--pss", "--container", ID[:12])
    assert value_of(found, "poolshim_processes") == 2
    for pid in pids:
        label = {"pid": str(pid), "container": ID, "pod": UID}
        assert value_of(found, "poolshim_live_blocks", **label) > 0
        pss = value_of(found, "poolshim_pss_bytes", **label)
        rss = sum(value_of(found, "poolshim_memory_bytes", part=part, **label) for part in PARTS)
        assert 20 * MIB < pss < rss
    label = {"container": ID, "pod": UID}
    assert value_of(found, "poolshim_group_processes", **label) == 2
    for part in PARTS:
        parts = [value_of(found, "poolshim_memory_bytes", part=part, pid=str(pid)) for pid in pids]
        assert value_of(found, "poolshim_group_memory_bytes", part=part, **label) == sum(parts)
    each = [value_of(found, "poolshim_pss_bytes", pid=str(pid)) for pid in pids]
    assert value_of(found, "poolshim_group_pss_bytes", **label) == sum(each)
    names = ("memory.current", "memory.usage_in_bytes")
    current = int(next(group / name for name in names if (group / name).exists()).read_text())
    counted = value_of(found, "poolshim_group_current_bytes", **label)
    assert counted == pytest.approx(current, abs=MIB)
    assert value_of(found, "poolshim_group_limit_bytes", **label) == LIMIT
    assert value_of(found, "poolshim_group_oom_kills_total", **label) == 0
    for expression in expressions():
        for name, labels in re.findall(r"(poolshim_\w+)(?:\{(.*?)\})?", expression):
            known = {key for each, _ in found[name] for key in each}
            assert set(re.findall(r"(\w+)[!=]", labels)) <= known, expression
    anon = value_of(found, "poolshim_group_anon_bytes", **label)
    assert 40 * MIB < anon < value_of(found, "poolshim_group_working_set_bytes", **label) <= current


@pytest.mark.preload
@pytest.mark.root
def test_a_kill_at_the_limit_is_counted(inside: Inside) -> None:
    pid = started(inside(QUIET))
    for kills in (1, 2):
        hog = inside(f"b = bytearray({2 * LIMIT}); b[::4096] = bytes(len(b) // 4096); print(1)")
        assert hog.wait(60 * SLOWNESS) == -9
        assert value_of(once("--container", ID), "poolshim_group_oom_kills_total") == kills
    assert value_of(once("--container", ID), "poolshim_live_blocks", pid=str(pid)) > 0


@pytest.mark.preload
@pytest.mark.root
def test_processes_that_start_in_a_container_later(inside: Inside, serve: Serve) -> None:
    first = started(inside(QUIET))
    _exporter, address = serve("--container", ID)
    assert value_of(samples_in(get(address)[1].decode()), "poolshim_processes") == 1
    second = started(inside(QUIET))
    found = samples_in(get(address)[1].decode())
    assert value_of(found, "poolshim_processes") == 2
    labels = json.loads(get(address.replace("metrics", "targets"))[1])
    assert [one["labels"]["pid"] for one in labels] == sorted([str(first), str(second)], key=int)
    assert {one["labels"]["pod"] for one in labels} == {UID}


@pytest.mark.preload
@pytest.mark.root
def test_sums_alone(inside: Inside) -> None:
    pid = started(inside(QUIET))
    found = once("--sums", str(pid))
    assert value_of(found, "poolshim_group_memory_bytes", part="live", container=ID) > 0
    assert not any("pid" in labels for samples in found.values() for labels, _ in samples)
    assert "poolshim_pss_bytes" not in found and "poolshim_group_pss_bytes" not in found


# ---- the kernel's files ----


def test_figures_of_version_2(tmp_path: Path) -> None:
    """With files as the kernel has them; the machine of a test may have the other version only."""
    folder = tmp_path / "pod" / "container"
    folder.mkdir(parents=True)
    files = {
        "memory.current": "1000000\n", "memory.max": "max\n",
        "memory.stat": "anon 600000\nfile 300000\ninactive_file 100000\nbroken\nx y\n",
        "memory.events": "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text)
    groups = Groups()
    groups.mounts = [Mount("", "/", tmp_path)]

    def figures() -> tuple[int | None, ...]:
        found = usage.counted(groups, "", "/pod/container")
        assert found is not None
        return tuple(getattr(found, name) for name, _, _ in sums.KERNEL)

    assert figures() == (1000000, 900000, 600000, 300000, None, 2)
    (tmp_path / "pod" / "memory.max").write_text("5000000\n")
    assert figures() == (1000000, 900000, 600000, 300000, 5000000, 2)
    (folder / "memory.max").write_text("4000000\n")
    (folder / "memory.high").write_text("3000000\n")  # throttles, and does not kill
    assert figures()[4] == 4000000
    (folder / "memory.current").unlink()
    (folder / "memory.current").mkdir()
    assert usage.counted(groups, "", "/pod/container") is None
    (tmp_path / "memory.current").write_text("1\n")
    assert usage.counted(groups, "", "/") is None, "the whole machine"


def test_figures_of_version_1(tmp_path: Path) -> None:
    """Groups above that are not mounted have limits, too: the kernel computes the lowest."""
    for name, text in {
        "memory.usage_in_bytes": "1000000\n", "memory.limit_in_bytes": "5000000\n",
        "memory.stat": "total_rss 7\ntotal_inactive_file 5\nhierarchical_memory_limit 4000000\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    groups = Groups()
    groups.mounts = [Mount("memory", "/docker/x", tmp_path)]
    found = usage.counted(groups, "memory", "/docker/x")
    assert found is not None
    assert (found.anon, found.working_set, found.limit) == (7, 999995, 4000000)
    assert found.oom_kills is None and found.kills == 0, "older kernels do not count them"


MOUNTS = r"""
30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw
31 1 0:27 /docker /mnt/a\040b rw - cgroup cgroup rw,memory
32 1 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
33 1 0:29 / / rw - ext4 /dev/sda rw
broken - cgroup2
"""


def test_the_folder_of_a_group(tmp_path: Path) -> None:
    memory, unified = mounts_in(MOUNTS)
    assert unified == Mount("", "/", Path("/sys/fs/cgroup"))
    assert memory == Mount("memory", "/docker", Path("/mnt/a b"))
    groups = Groups()
    groups.mounts = [unified, memory]
    assert groups.place_at("", "/a/b") == Place(unified, "/a/b")
    assert Place(unified, "/a/b").folder == Path("/sys/fs/cgroup/a/b")
    assert groups.place_at("memory", "/docker/x") == Place(memory, "/x")
    assert Place(memory, "/x").folder == Path("/mnt/a b/x")
    assert groups.place_at("memory", "/dockery/x") is None
    (tmp_path / "kubepods" / "pod1" / "one").mkdir(parents=True)
    (tmp_path / "kubepods" / "pod2" / "two").mkdir(parents=True)
    (tmp_path / "other" / "two").mkdir(parents=True)
    groups.mounts = [Mount("", "/../..", tmp_path)]
    place = groups.place_at("", "/../../pod1/one")
    assert place is not None and place.folder == tmp_path / "kubepods" / "pod1" / "one"
    place = groups.place_at("", "/../../other/two")
    assert place is not None and place.folder == tmp_path / "other" / "two"
    assert groups.place_at("", "/../two") is None, "two groups end so"
    assert groups.place_at("", "/../..") is None, "perhaps the whole machine"


# ---- how much there is ----


def row(pid: int, rss: int) -> Any:
    split = SimpleNamespace(rss=rss, **dict.fromkeys(PARTS, rss // len(PARTS)))
    census = SimpleNamespace(live_count=1, classes=[], has_calls=True)
    return SimpleNamespace(pid=pid, program="x", split=split, pss=None, census=census, counts={},
                           threads=None)  # fmt: skip


def test_the_number_of_groups_is_bounded() -> None:
    rows = [row(pid, 600 * pid) for pid in range(1, 2000)]
    paths = {one.pid: {"": f"/g{one.pid}"} for one in rows}
    reader = Groups()
    reader.mounts = []
    found = {one.name: one.samples for one in sums.of_groups(rows, paths, reader, PARTS)}
    assert len(found["poolshim_group_processes"]) == sums.GROUPS_MAX
    assert found["poolshim_groups_left_out"] == [("", 1999 - sums.GROUPS_MAX)]
    assert '{group="/g1999"}' in [labels for labels, _ in found["poolshim_group_processes"]]


def test_the_number_of_processes_with_metrics_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(pid, 600 * (pid % 1000)) for pid in range(1, 2000)]
    watch: Any = SimpleNamespace(read=lambda: rows)
    monkeypatch.setattr(metrics.containers, "paths_of", lambda pid: {"": "/one"})
    monkeypatch.setattr(metrics, "FIGURES", [])
    found = {one.name: one.samples for one in metrics.Collector(watch).families()}
    assert found["poolshim_processes"] == [("", 1999)]
    assert len(found["poolshim_live_blocks"]) == metrics.PROCESSES_MAX
    assert found["poolshim_group_processes"] == [('{group="/one"}', 1999)]
    assert '{pid="999",program="x"}' in [labels for labels, _ in found["poolshim_live_blocks"]]


@pytest.mark.preload
def test_rows_have_no_copies_of_memory(start: Start) -> None:
    """What says where memory is would be most of an exporter of many processes."""
    (found,) = metrics.Watch([start(SILENT).pid]).read()
    census = found.census
    assert census.live_count > 0 and census.classes
    assert not census.leaves and not census.metadata_pages and not census.blocks


# ---- the text ----


def test_text_in_both_formats() -> None:
    family = exposition.Family("x_total", 'a "b"\\\n')
    labels = exposition.labels_of({"c": "2", "b": 'say "\n\\"', "a": ""})
    family.add(labels, 12, bb="3")
    plain, opened = exposition.text_of([family], False), exposition.text_of([family], True)
    assert plain == ('# HELP x_total a "b"\\\\\\n\n# TYPE x_total counter\n'
                     'x_total{b="say \\"\\n\\\\\\"",bb="3",c="2"} 12\n')  # fmt: skip
    assert opened == ('# HELP x a \\"b\\"\\\\\\n\n# TYPE x counter\n'
                      'x_total{b="say \\"\\n\\\\\\"",bb="3",c="2"} 12\n# EOF\n')  # fmt: skip


@pytest.mark.preload
def test_what_a_client_asks_for(start: Start, serve: Serve) -> None:
    _exporter, address = serve(str(start(SILENT).pid))
    _, plain, headers = get(address)
    assert headers["Content-Type"] == exposition.PLAIN_TYPE and b"# EOF" not in plain
    _, packed, headers = get(address, **{"Accept-Encoding": "gzip, deflate", "Accept": "*/*"})
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed).startswith(b"# HELP poolshim_processes ")
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    assert get(address, Accept=accept)[1].endswith(b"# EOF\n")


@pytest.mark.preload
def test_a_client_that_says_nothing_delays_no_other(start: Start, serve: Serve) -> None:
    _exporter, address = serve(str(start(SILENT).pid))
    host, port = urlsplit(address).hostname, urlsplit(address).port
    silent = [socket.create_connection((host, port)) for _ in range(20)]
    assert get(address)[0] == 200
    silent[0].sendall(b"GET /" + b"x" * 100_000 + b"\r\n\r\n")
    silent[1].sendall(b"\x00\xff\r\n\r\n")
    assert get(address)[0] == 200
    for one in silent:
        one.close()


@pytest.mark.preload
def test_prometheus_reads_it(start: Start, serve: Serve, tmp_path: Path) -> None:
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        pytest.skip("prometheus is not installed")
    pid = start(SILENT).pid
    _exporter, address = serve("--pss", str(pid))
    text = get(address)[1].decode()
    done = run_captured(["promtool", "check", "metrics"], input=text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    rules = [{"record": "x:y", "expr": re.sub(r"\$\w+", "5m", one)} for one in expressions()]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "x", "rules": rules}]}))
    done = run_captured(["promtool", "check", "rules", tmp_path / "rules.json"])
    assert done.returncode == 0, done.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = tmp_path / "prometheus.yml"
    settings.write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: poolshim\n"
        f"  static_configs: [{{targets: ['{urlsplit(address).netloc}']}}]\n"
    )
    command = ["prometheus", f"--config.file={settings}",
               f"--storage.tsdb.path={tmp_path / 'data'}",
               f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        query = quote(f'poolshim_live_blocks{{pid="{pid}"}}')
        url = f"http://127.0.0.1:{port}/api/v1/query?query={query}"
        result: list[Any] = []

        def is_read() -> bool:
            with suppress(OSError, ValueError, KeyError):
                result[:] = json.loads(get(url)[1])["data"]["result"]
            return bool(result)

        await_that(is_read)
    finally:
        server.terminate()
        server.wait()
    (found,) = result
    blocks = value_of(samples_in(text), "poolshim_live_blocks", pid=str(pid))
    assert float(found["value"][1]) == pytest.approx(blocks, rel=0.01)
