# SPDX-License-Identifier: MIT
"""`poolshim exporter`: heap profiles on request, and those that it sends.

    scripts/test tests/cli/test_exporter_profiles.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from conftest import ROOT, SLOWNESS, run_captured
from programs import compile_program
from running import SILENT, Start, spawn, start
from serving import Receiver, Serve, get, receiver, serve
from table import each_row
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import pprof, symbols  # noqa: E402
from poolshim_cli.exporter import otlp, push  # noqa: E402

__all__ = ["receiver", "serve", "spawn", "start"]

# Allocates and frees, and leaves one block in a hundred, until its input ends.
CHURN = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static void keep_some(int turn) {
    void *volatile block = malloc(4000);
    if (turn % 100 != 0) {
        free(block);
    }
}
int main(void) {
    char c;
    write(1, "1\n", 2);
    fcntl(0, F_SETFL, O_NONBLOCK);
    for (int turn = 1; read(0, &c, 1) != 0; turn++) {
        keep_some(turn);
        usleep(100);
    }
    return 0;
}
"""
UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"


@pytest.fixture(scope="session")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CHURN."""
    return compile_program(tmp_path_factory.mktemp("churn"), "churn", CHURN, "-O1",
                           "-Wno-unused-result")  # fmt: skip


def heap_at(address: str, query: str) -> str:
    return address.replace("/metrics", f"/debug/pprof/heap?{query}")


@pytest.mark.preload
def test_a_profile_of_a_process(
    spawn: Start, churn: Path, serve: Serve, tmp_path: Path
) -> None:
    need("addr2line")
    process = spawn([churn])
    _exporter, address = serve(str(process.pid))
    status, body, headers = get(heap_at(address, f"pid={process.pid}&seconds=2&debug=0"))
    assert (status, headers["Content-Type"]) == (200, "application/octet-stream")
    path = tmp_path / "heap.pb.gz"
    path.write_bytes(body)
    profile = pprof.read(path)
    words = rf"process {process.pid}, churn: sampled for ([\d.]+) s"
    sampled = re.match(words, profile.comments[0])
    assert sampled and 2 <= float(sampled[1]) < 2 + 0.05 * SLOWNESS, profile.comments
    assert profile.duration_nanos >= 2e9 and profile.default_type == "inuse_space"
    names = {name for one in profile.samples for each in one.locations for name in each.names}
    assert {"keep_some", "main"} <= names
    assert profile.total("alloc_space") > profile.total("inuse_space")


@pytest.mark.preload
def test_pprof_fetches_it(spawn: Start, churn: Path, serve: Serve, tmp_path: Path) -> None:
    need("addr2line")
    go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    if go is None:
        pytest.skip("go is not installed")
    pid = spawn([churn]).pid
    _exporter, address = serve(str(pid))
    environment = {**os.environ, "PPROF_TMPDIR": str(tmp_path)}
    # Go builds the tool when it is first used.
    command = [go, "tool", "pprof", "-top", "-sample_index=alloc_space"]
    url = heap_at(address, f"pid={pid}&seconds=1")
    top = run_captured([*command, url], 240, env=environment)
    assert top.returncode == 0, top.stderr
    assert "keep_some" in top.stdout


@pytest.mark.preload
def test_an_idle_process_has_an_empty_profile(start: Start, serve: Serve, tmp_path: Path) -> None:
    pid = start(SILENT).pid
    _exporter, address = serve(str(pid))
    status, body, _ = get(heap_at(address, f"pid={pid}&seconds=0.2"))
    assert status == 200
    path = tmp_path / "heap.pb.gz"
    path.write_bytes(body)
    profile = pprof.read(path)
    assert not profile.samples and len(profile.types) == 5
    assert any("it calls malloc too rarely" in comment for comment in profile.comments)


@pytest.mark.preload
def test_one_sampling_of_a_process_at_a_time(spawn: Start, churn: Path, serve: Serve) -> None:
    pid = spawn([churn]).pid
    _exporter, address = serve(str(pid))
    answers: list[int] = []
    threads = [
        Thread(target=lambda: answers.append(get(heap_at(address, f"pid={pid}&seconds=3"))[0]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(answers) == {200: 1, 429: 3}
    assert get(heap_at(address, f"pid={pid}&seconds=0.5"))[0] == 200


@pytest.mark.preload
def test_a_refusal_is_one_line(start: Start, serve: Serve) -> None:
    hardened, plain = start(SILENT, POOLSHIM_HARDEN="2").pid, start(SILENT, preload=False).pid
    _exporter, address = serve()
    rows = [
        ("", 400, "which process? pid=N or container=ID"),
        ("pid=x", 400, "pid: x is no number"),
        ("pid=-1", 400, "pid: -1 is out of range"),
        ("pid=1&container=2", 400, "which process? pid=N or container=ID"),
        ("container=none", 404, "no container none has a process here"),
        ("pid=2147483646", 404, "no process 2147483646"),
        (f"pid={hardened}&seconds=301", 400, "seconds: 301 is more than 300"),
        (f"pid={hardened}&seconds=nan", 400, "seconds: nan is out of range"),
        (f"pid={plain}", 409, f"process {plain} does not run on poolshim"),
        (f"pid={hardened}", 409, f"process {hardened} cannot be sampled: it runs with "
         "POOLSHIM_HARDEN, POOLSHIM_GUARD_SAMPLE or POOLSHIM_RECORD"),
        ("&".join(f"a{index}=1" for index in range(100)), 400, "too many fields"),
    ]  # fmt: skip
    for query, status, line in rows:
        found = get(heap_at(address, query))
        assert (found[0], found[1].decode()) == (status, line + "\n"), query
    assert get(address.replace("/metrics", "/none"))[0] == 404


@pytest.mark.preload
def test_only_named_processes_are_sampled(start: Start, serve: Serve) -> None:
    one, other = start(SILENT).pid, start(SILENT).pid
    _exporter, address = serve(str(one))
    status, body, _ = get(heap_at(address, f"pid={other}"))
    assert (status, body.decode()) == (404, f"process {other} is not served by this exporter\n")


@pytest.mark.preload
@pytest.mark.root
def test_not_permitted(start: Start) -> None:
    """The same code in a process without rights."""
    if os.geteuid() != 0:
        pytest.skip("needs two users")
    script = (
        "import os, sys; from poolshim_cli.exporter import profiles, server\n"
        "os.setgid(65534); os.setgroups([]); os.setuid(65534)\n"
        "try: profiles.Sampler(lambda pid: True).sample(int(sys.argv[1]), 1.0)\n"
        "except Exception as error: print(server.status_of(error), error)\n"
    )
    pid = start(SILENT).pid
    done = run_captured([sys.executable, "-c", script, str(pid)], cwd=ROOT / "scripts")
    assert done.stdout.startswith(f"403 process {pid}: not permitted"), done.stderr


@pytest.mark.preload
def test_targets_for_discovery(start: Start, serve: Serve) -> None:
    pid = start(SILENT).pid
    _exporter, address = serve(str(pid))
    (target,) = json.loads(get(address.replace("/metrics", "/targets"))[1])
    assert target["targets"] == [urlsplit(address).netloc]
    assert target["labels"]["__param_pid"] == target["labels"]["pid"] == str(pid)
    assert target["labels"]["program"].startswith("python")


# ---- what is sent ----


@pytest.mark.preload
def test_profiles_are_sent_to_pyroscope(
    spawn: Start, churn: Path, serve: Serve, receiver: Receiver, tmp_path: Path
) -> None:
    need("addr2line")
    pid = spawn([churn]).pid
    serve(str(pid), "--push", receiver.url, "--push-every", "2s")
    path, headers, body = receiver.wait_for(2)[1]
    assert urlsplit(path).path == "/ingest"
    assert headers["Content-Type"] == "application/octet-stream"
    query = {name: one[0] for name, one in parse_qs(urlsplit(path).query).items()}
    assert query["name"] == f"churn{{pid={pid}}}" and query["format"] == "pprof"
    assert 1 <= int(query["until"]) - int(query["from"]) <= 2
    file = tmp_path / "heap.pb.gz"
    file.write_bytes(body)
    profile = pprof.read(file)
    names = {name for one in profile.samples for each in one.locations for name in each.names}
    assert "keep_some" in names


@pytest.mark.preload
def test_profiles_are_sent_as_opentelemetry_has_them(
    spawn: Start, churn: Path, serve: Serve, receiver: Receiver
) -> None:
    need("addr2line")
    pid = spawn([churn]).pid
    serve(str(pid), "--push", receiver.url + push.OTLP_PATH, "--push-every", "2s")
    path, headers, body = receiver.wait_for(1)[0]
    assert (path, headers["Content-Type"]) == (push.OTLP_PATH, "application/x-protobuf")
    found = Decoded(body)
    assert found.resource["process.pid"] == pid and found.resource["service.name"] == "churn"
    assert {"alloc_space", "alloc_objects"} <= found.profiles.keys()
    (stack,) = {stack for stack, _ in found.profiles["alloc_space"] if "keep_some" in stack}
    assert stack.index("keep_some") < stack.index("main")


@pytest.mark.preload
def test_a_server_that_refuses_is_reported_once(
    spawn: Start, churn: Path, serve: Serve, receiver: Receiver
) -> None:
    pid = spawn([churn]).pid
    receiver.status = 503
    exporter, _address = serve(str(pid), "--push", receiver.url, "--push-every", "1s")
    receiver.wait_for(3)
    receiver.status = 200
    receiver.wait_for(5)
    exporter.terminate()
    assert exporter.stderr is not None and exporter.wait(60) == 0
    where = f"poolshim exporter: {receiver.url}/ingest: "
    assert exporter.stderr.read() == (
        f"{where}no profile is taken: it answered 503\n{where}profiles are taken again\n"
    )


# The numbers of fields in the published schema, opentelemetry/proto/profiles/v1development.
DICTIONARY = ("", "mappings", "locations", "functions", "links", "texts", "attributes", "stacks")


def fields(data: bytes) -> dict[int, list[bytes]]:
    """The fields of a message that have a content."""
    found: dict[int, list[bytes]] = {}
    for number, value in pprof.fields_of(data):
        found.setdefault(number, []).append(value if isinstance(value, bytes) else b"")
    return found


def numbers(data: bytes) -> dict[int, int]:
    """The fields that are numbers."""
    return {number: value for number, value in pprof.fields_of(data) if isinstance(value, int)}


def packed(data: bytes) -> Iterator[int]:
    """Numbers in one field."""
    at = 0
    while at < len(data):
        value, at = pprof.varint(data, at)
        yield value


class Decoded:
    """A request of one resource, by a decoder that shares no code with the writer."""

    def __init__(self, body: bytes) -> None:
        request = fields(body)
        tables = fields(request[2][0])
        self.tables = {DICTIONARY[number]: rows for number, rows in tables.items()}
        assert all(self.tables[name][0] == b"" for name in DICTIONARY[1:]), "row 0 is empty"
        self.texts = [row.decode() for row in self.tables["texts"]]
        resource = fields(request[1][0])
        self.resource = dict(map(self.attribute, fields(resource[1][0])[1]))
        self.profiles = dict(map(self.profile, fields(resource[2][0])[2]))

    def attribute(self, row: bytes) -> tuple[str, str | int]:
        """A KeyValue."""
        parts = fields(row)
        value = fields(parts[2][0])
        text = value[1][0].decode() if 1 in value else numbers(parts[2][0])[3]
        return parts[1][0].decode(), text

    def stack(self, index: int) -> tuple[str, ...]:
        """The names of its functions, innermost first."""
        found = []
        (places,) = fields(self.tables["stacks"][index])[1]
        for place in packed(places):
            row = self.tables["locations"][place]
            assert numbers(row).get(1, 0) < len(self.tables["mappings"])
            for line in fields(row).get(3, []):
                function = self.tables["functions"][numbers(line)[1]]
                found.append(self.texts[numbers(function)[1]])
        return tuple(found)

    def profile(self, row: bytes) -> tuple[str, list[tuple[tuple[str, ...], int]]]:
        """The type of a profile, and its stacks and values."""
        parts = fields(row)
        kind = self.texts[numbers(parts[1][0])[1]]
        assert len(parts[7][0]) == 16 and any(parts[7][0]), "the id of a profile"
        samples = []
        for sample in parts.get(2, []):
            (value,) = packed(fields(sample)[4][0])
            samples.append((self.stack(numbers(sample)[1]), value))
        return kind, samples


def known_profile() -> pprof.Profile:
    code = pprof.Mapping(0x1000, 0x2000, 0, "/bin/x", "ab12")
    a, b = pprof.Location(0x1010, code, ("inner", "outer")), pprof.Location(0x1020, code, ("main",))
    return pprof.Profile(
        types=[("alloc_space", "bytes"), ("inuse_space", "bytes")],
        samples=[pprof.Sample((a, b), (300, 0)), pprof.Sample((b,), (200, 1 << 40))],
        mappings=[code], period=4096, time_nanos=5_000_000_000, duration_nanos=2_000_000_000,
    )  # fmt: skip


def test_known_values_in_the_opentelemetry_form() -> None:
    body = otlp.encode(known_profile(), symbols.Symbols(), {"service.name": "x", "process.pid": 7})
    found = Decoded(body)
    assert found.resource == {"service.name": "x", "process.pid": 7}
    assert found.profiles == {
        "alloc_space": [(("inner", "outer", "main"), 300), (("main",), 200)],
        "inuse_space": [(("main",), 1 << 40)],
    }


def test_the_published_classes_read_it() -> None:
    service = pytest.importorskip(
        "opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2"
    )
    body = otlp.encode(known_profile(), symbols.Symbols(), {"service.name": "x", "process.pid": 7})
    found = service.ExportProfilesServiceRequest.FromString(body)
    (resource,) = found.resource_profiles
    tables = found.dictionary
    assert [one.value.string_value or one.value.int_value for one in resource.resource.attributes
            ] == ["x", 7]  # fmt: skip
    (scope,) = resource.scope_profiles
    alloc, inuse = scope.profiles
    assert scope.scope.name == "poolshim"
    assert tables.string_table[alloc.sample_type.type_strindex] == "alloc_space"
    assert (alloc.time_unix_nano, alloc.duration_nano, alloc.period) == (3 * 10**9, 2 * 10**9, 4096)
    assert [list(one.values) for one in alloc.samples] == [[300], [200]]
    assert [list(one.values) for one in inuse.samples] == [[1 << 40]]
    stack = tables.stack_table[alloc.samples[0].stack_index]
    names = [tables.string_table[tables.function_table[line.function_index].name_strindex]
             for index in stack.location_indices for line in tables.location_table[index].lines]
    assert names == ["inner", "outer", "main"]
    mapping = tables.mapping_table[tables.location_table[1].mapping_index]
    assert (mapping.memory_start, tables.string_table[mapping.filename_strindex]) == (0x1000,
                                                                                      "/bin/x")
    attribute = tables.attribute_table[mapping.attribute_indices[0]]
    assert tables.string_table[attribute.key_strindex] == "process.executable.build_id.gnu"
    assert attribute.value.string_value == "ab12"
    for table in (tables.mapping_table, tables.location_table, tables.function_table,
                  tables.link_table, tables.attribute_table, tables.stack_table):
        assert table[0].ByteSize() == 0
    assert tables.string_table[0] == ""


@each_row(
    ("text", "url", "is_otlp"),
    [
        ("http://a:4040", "http://a:4040/ingest", False),
        ("http://a:4040/", "http://a:4040/ingest", False),
        ("https://a/pyroscope/ingest", "https://a/pyroscope/ingest", False),
        ("http://[::1]:4318/v1development/profiles", "http://[::1]:4318/v1development/profiles",
         True),
    ],
)
def test_the_path_tells_the_protocol(text: str, url: str, is_otlp: bool) -> None:
    assert push.destination_of(text) == push.Destination(url, is_otlp)


def test_a_name_of_pyroscope_has_no_letters_of_its_syntax() -> None:
    labels = {"program": 'a{b}="c",d', "pid": "7", "container": "", "pod": UID}
    assert push.name_of(labels) == f"a_b___c__d{{pid=7,pod={UID}}}"
