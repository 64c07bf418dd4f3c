# SPDX-License-Identifier: MIT
"""The Rust crate, pools/rust: its own tests by cargo, also in the debug modes of the pools; its
example; what it is assembled from.

    scripts/test tests/pools/test_rust.py

`scripts/test --packages` has more: tests/package/test_crate.py.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from cargo import CRATE, cargo, environment, executables, need_cargo
from conftest import ROOT, run_captured

sys.path.insert(0, str(ROOT / "scripts"))
from packages import amalgamation, crate  # noqa: E402

TESTS = sorted(path.stem for path in (CRATE / "tests").glob("*.rs"))
IS_UNSAFE = re.compile(r"\bunsafe (?:\{|fn|impl|extern)")


@pytest.fixture(scope="module", autouse=True)
def _needed() -> None:
    need_cargo()


def test_all_tests_of_the_crate_pass() -> None:
    """Those of the documentation too; some of them must not compile."""
    result = cargo("test")
    assert result.returncode == 0, result.stdout + result.stderr
    written = sum((CRATE / "tests" / f"{name}.rs").read_text().count("#[test]") for name in TESTS)
    sources = "".join(path.read_text() for path in (CRATE / "src").glob("*.rs"))
    documented = len(re.findall(r"//[/!] ```\S*$", sources, re.MULTILINE)) // 2
    passed = sum(map(int, re.findall(r"(\d+) passed; 0 failed", result.stdout)))
    assert passed == written + documented > 20, result.stdout


@pytest.mark.parametrize("mode", ["check", "malloc"])
@pytest.mark.parametrize("name", ["region", "slots"])
def test_pools_pass_in_debug_modes(name: str, mode: str, tmp_path: Path) -> None:
    own = os.environ | {"PS_DEBUG": mode}
    result = run_captured([executables()[name]], cwd=tmp_path, env=own, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_example_runs() -> None:
    result = cargo("run", "--quiet", "--example", "server")
    assert result.returncode == 0, result.stderr
    assert "request 5 of cleo: A REGION FOR EACH REQUEST\n" in result.stdout
    assert result.stdout.endswith("2 connections are left\n")


@pytest.mark.slow
def test_programs_for_musl_have_the_global_allocator(tmp_path: Path) -> None:
    """They are static, so no preload reaches them."""
    target = "x86_64-unknown-linux-musl"
    root = Path(run_captured(["rustc", "--print", "sysroot"]).stdout.strip())
    if shutil.which("musl-gcc") is None or not (root / "lib/rustlib" / target).exists():
        pytest.skip(f"needs musl-gcc and `rustup target add {target}`")
    machine = run_captured(["gcc", "-print-multiarch"]).stdout.strip()
    for name, place in (("linux", "linux"), ("asm-generic", "asm-generic"),
                        ("asm", f"{machine}/asm")):  # fmt: skip
        (tmp_path / name).symlink_to(Path("/usr/include") / place)
    suffix = target.replace("-", "_")
    more = {f"CC_{suffix}": "musl-gcc", f"CFLAGS_{suffix}": f"-idirafter {tmp_path}"}
    for name in ("global", "usage"):
        result = cargo("test", "--target", target, "--test", name, more=more)
        assert result.returncode == 0, result.stdout + result.stderr
        assert re.search(r"[1-9]\d* passed; 0 failed", result.stdout)


def test_examples_have_no_unsafe_code() -> None:
    for path in (CRATE / "examples").glob("*.rs"):
        text = path.read_text()
        assert "\n#![forbid(unsafe_code)]\n" in text and not IS_UNSAFE.search(text), path


def test_layout_is_rustfmts() -> None:
    if shutil.which("rustfmt") is None:
        pytest.skip("rustfmt is not installed")
    result = cargo("fmt", "--check")
    assert result.returncode == 0, result.stdout


def test_the_assembled_crate_has_every_source_once(tmp_path: Path) -> None:
    """What build.rs compiles in a checkout, beside itself; cargo packs all of it."""
    folder = tmp_path / "poolshim"
    assembled = run_captured([sys.executable, ROOT / "scripts/dev/crate", "--output", folder])
    assert assembled.returncode == 0, assembled.stderr
    c_files = {path.relative_to(folder / "c").as_posix() for path in (folder / "c").rglob("*.c")}
    library = {path.relative_to(ROOT).as_posix() for path in amalgamation.sources(ROOT)}
    engine = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("pools/engine/*/*.c")}
    assert c_files == library | engine | {"pools/rust/native/binding.c"}
    command = ["cargo", "package", "--list", "--offline", "--allow-dirty"]
    listed = run_captured(command, cwd=folder, env=environment())
    assert listed.returncode == 0, listed.stderr
    packed = set(listed.stdout.split())
    assert {f"c/{name}" for name in c_files} | {"LICENSE", "build.rs", "src/lib.rs"} <= packed
    again = run_captured([sys.executable, ROOT / "scripts/dev/crate", "--output", folder])
    assert again.returncode == 1 and "exists" in again.stderr, "nothing is replaced"


def test_versions_agree() -> None:
    assert crate.version_of(ROOT) == amalgamation.version_of(ROOT)
