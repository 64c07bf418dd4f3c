# SPDX-License-Identifier: MIT
"""What is installed works for others: CMake package, pkg-config file, sub-project; also when moved.

    scripts/test tests/repo/test_install.py
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from table import each_row

DOCUMENTS = ("LICENSE", "README.md", "CHANGELOG.md", "docs/options.md", "docs/pictures/layers.dot",
             "examples/region.c")  # fmt: skip
SHARED = ("man/man1/poolshim.1", "man/man3/poolshim_region.h.3", "man/man7/libpoolshim.7",
          "bash-completion/completions/poolshim", "zsh/site-functions/_poolshim",
          "fish/vendor_completions.d/poolshim.fish")  # fmt: skip
CONSUMER = ROOT / "tests" / "repo" / "consumer"


def run_ok(*command: str | Path, **options: object) -> str:
    result = run_captured(command, timeout=300, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def prefix(shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installed tree that was moved after its installation."""
    first = tmp_path_factory.mktemp("install") / "first"
    run_ok("cmake", "--install", shim.parent, "--prefix", first)
    return first.rename(first.with_name("moved"))


def installed_library(prefix: Path, name: str = "libpoolshim.so.0") -> Path:
    (library,) = prefix.glob(f"lib*/**/{name}")
    return library


def check_consumer(program: Path, library: Path, **env: str) -> None:
    output = run_ok(program, env={**os.environ, **env}).splitlines()
    assert [Path(name).resolve() for name in output[:2]] == [library.resolve()] * 2
    assert library.resolve().name.endswith(output[2])


def check_linked(*programs: Path) -> None:
    """malloc is a part of them: they print the version, and report at exit."""
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for program in programs:
        result = run_captured([program], env={**env, "POOLSHIM_STATS": "1"})
        assert result.returncode == 0 and result.stdout.startswith("0."), result.stderr
        assert ": statistics of process" in result.stderr


def check_pools_consumer(program: Path, pools: Path, shim: Path | None) -> None:
    """Alone, the pages are the pools library's own; under the shim they are the shim's."""
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if shim is not None:
        env["LD_PRELOAD"] = str(shim)
    library, inside, cache = run_ok(program, env=env).splitlines()
    assert Path(library).resolve() == (shim or pools).resolve()
    assert (inside, cache) == ("same", "own" if shim is None else "shared")


def test_tree_is_complete(prefix: Path) -> None:
    files = {p.relative_to(prefix).as_posix() for p in prefix.rglob("*") if not p.is_dir()}
    assert {f"share/doc/poolshim/{name}" for name in DOCUMENTS} <= files
    assert {f"share/{name}" for name in SHARED} <= files
    sources = (ROOT / "pools" / "include").rglob("*.h*")
    headers = {path.relative_to(ROOT / "pools").as_posix() for path in sources}
    assert headers and headers <= files
    names = [Path(name).name for name in files]
    for name in ("libpoolshim.so", "libpoolshim-pools.so", "poolshim.pc", "poolshim-pools.pc",
                 "poolshim-config.cmake"):  # fmt: skip
        assert names.count(name) == 1 + (name == "libpoolshim.so")  # the command has a link
    archives = sorted(name for name in names if name.endswith(".a"))
    assert archives == ["libpoolshim-pools.a", "libpoolshim.a"]
    texts = {f: (prefix / f).read_bytes() for f in files}  # programs and libraries have debug data
    assert not [f for f, text in texts.items() if os.fsencode(ROOT) in text
                and not text.startswith((b"\x7fELF", b"!<arch>"))]  # fmt: skip


def by_default_the_library_alone_is_built(tmp_path: Path) -> None:
    """Without a preset: what is installed, neither tests nor benchmarks."""
    run_ok("cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path)
    commands = json.loads((tmp_path / "compile_commands.json").read_text())
    sources = [Path(command["file"]).relative_to(ROOT).as_posix() for command in commands]
    assert not [path for path in sources if not path.startswith(("pools/", "shim/", "scripts/"))]
    assert not [path for path in sources if "/examples/" in path]
    assert {"shim/config.c", "scripts/native/run.c", "pools/region/region.c"} <= set(sources)


def make_builds_the_archive_alone(tmp_path: Path) -> None:
    """What it is linked from comes first: make, unlike ninja, knows no files of other targets."""
    run_ok("cmake", "-G", "Unix Makefiles", "-S", ROOT, "-B", tmp_path,
           "-DPOOLSHIM_BUILD_MANUALS=OFF", "-DCMAKE_BUILD_TYPE=Debug")  # fmt: skip
    run_ok("cmake", "--build", tmp_path, "-j2", "--target", "poolshim-static")
    assert (tmp_path / "libpoolshim.a").exists()


def make_tree(prefix: Path, names: list[str]) -> Path:
    """Some files under a prefix, and the manifest that lists them."""
    for name in names:
        path = prefix / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    manifest = prefix.with_name("install_manifest.txt")
    manifest.write_text("\n".join(str(prefix / name) for name in names))
    return manifest


def uninstall(manifest: Path) -> subprocess.CompletedProcess[str]:
    return run_captured(["cmake", f"-DMANIFEST={manifest}", "-P", ROOT / "cmake/uninstall.cmake"])


def uninstall_removes_what_was_installed_and_nothing_else(tmp_path: Path) -> None:
    prefix, python = tmp_path / "prefix", "lib/poolshim/python/poolshim_cli"
    libraries = ["lib/libpoolshim.so.0.1.0", "include/poolshim/pool.h"]
    manifest = make_tree(prefix, ["bin/poolshim", f"{python}/tune/cost.py", *libraries])
    (prefix / "lib/libpoolshim.so").symlink_to("libpoolshim.so.0.1.0")
    with manifest.open("a") as file:
        file.write(f"\n{prefix}/lib/libpoolshim.so\n")
    others = ["bin/other", "include/poolshim/mine.h"]
    for name in [*others, f"{python}/tune/__pycache__/cost.cpython-311.pyc"]:
        (prefix / name).parent.mkdir(exist_ok=True)
        (prefix / name).touch()
    assert uninstall(manifest).returncode == 0
    left = sorted(p.relative_to(prefix).as_posix() for p in prefix.rglob("*") if not p.is_dir())
    assert left == others
    assert (prefix / "lib").exists() and not (prefix / "lib" / "poolshim").exists()
    again = uninstall(manifest)
    assert again.returncode == 0 and "Not there: " in again.stdout
    result = uninstall(tmp_path / "none" / "install_manifest.txt")  # without an installation
    assert result.returncode != 0 and "nothing was installed from this build" in result.stderr


def cmake_package(prefix: Path, tmp_path: Path) -> None:
    run_ok("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run_ok("cmake", "--build", tmp_path)
    check_consumer(tmp_path / "consumer", installed_library(prefix))
    check_linked(tmp_path / "linked", tmp_path / "linked-static")
    pools = installed_library(prefix, "libpoolshim-pools.so.0")
    check_pools_consumer(tmp_path / "pools", pools, None)
    check_pools_consumer(tmp_path / "pools", pools, installed_library(prefix))
    check_pools_consumer(tmp_path / "pools-static", tmp_path / "pools-static", None)
    run_ok(tmp_path / "pools-cxx")
    run_ok(tmp_path / "pools-fork")
    env = {**os.environ, "LD_PRELOAD": str(installed_library(prefix))}
    run_ok(tmp_path / "pools-fork", env=env)


def cmake_package_refuses_another_version(prefix: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(CONSUMER, project)
    lists = project / "CMakeLists.txt"
    lists.write_text(re.sub(r"poolshim \d+\.\d+", "poolshim 99.1", lists.read_text()))
    command = ["cmake", "-G", "Ninja", "-S", project, "-B", tmp_path / "build"]
    result = run_captured([*command, f"-DCMAKE_PREFIX_PATH={prefix}"], timeout=120)
    assert result.returncode != 0
    assert 'compatible with requested version "99.1"' in result.stderr


def pkg_config(prefix: Path, tmp_path: Path) -> None:
    library = installed_library(prefix)
    env = {**os.environ, "PKG_CONFIG_PATH": str(library.parent / "pkgconfig")}
    flags = run_ok("pkg-config", "--cflags", "--libs", "poolshim >= 0.1", env=env).split()
    program = tmp_path / "consumer"
    run_ok("gcc", CONSUMER / "consumer.c", *flags, "-o", program)
    check_consumer(program, library, LD_LIBRARY_PATH=str(library.parent))
    flags = run_ok("pkg-config", "--static", "--cflags", "--libs", "poolshim", env=env).split()
    linked = tmp_path / "linked-static"
    run_ok("gcc", "-static", CONSUMER / "linked.c", *flags, "-Wl,--fatal-warnings", "-o", linked)
    check_linked(linked)


def pkg_config_of_the_pools(prefix: Path, tmp_path: Path) -> None:
    library = installed_library(prefix, "libpoolshim-pools.so.0")
    env = {**os.environ, "PKG_CONFIG_PATH": str(library.parent / "pkgconfig")}
    flags = run_ok("pkg-config", "--cflags", "--libs", "poolshim-pools >= 0.1", env=env).split()
    program = tmp_path / "pools"
    rpath = f"-Wl,-rpath,{library.parent}"
    run_ok("gcc", CONSUMER / "pools.c", *flags, rpath, "-o", program)
    check_pools_consumer(program, library, None)
    run_ok("g++", "-std=c++17", CONSUMER / "pools_cxx.cpp", *flags, rpath, "-o", program)
    run_ok(program)


@each_row(
    "check",
    [cmake_package, cmake_package_refuses_another_version, pkg_config, pkg_config_of_the_pools],
)
def test_programs_find_the_libraries(
    prefix: Path, tmp_path: Path, check: Callable[[Path, Path], None]
) -> None:
    if check in (pkg_config, pkg_config_of_the_pools) and not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    check(prefix, tmp_path)


@pytest.mark.slow
def test_subproject(tmp_path: Path) -> None:
    """As part of another project: neither tests nor benchmarks nor install rules come with it."""
    run_ok("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", tmp_path, f"-DPOOLSHIM_SOURCE={ROOT}")
    run_ok("cmake", "--build", tmp_path)
    assert not list(tmp_path.rglob("scenario*")) and not list(tmp_path.rglob("list100m*"))
    check_consumer(tmp_path / "consumer", tmp_path / "poolshim" / "libpoolshim.so")
    check_linked(tmp_path / "linked", tmp_path / "linked-static")
    pools = tmp_path / "poolshim" / "libpoolshim-pools.so"
    check_pools_consumer(tmp_path / "pools", pools, None)


def test_command_works_where_it_was_moved(prefix: Path, tmp_path: Path) -> None:
    """Through a link, from another folder: nothing of the checkout is used but .venv's Python."""
    program = tmp_path / "poolshim"
    program.symlink_to(prefix / "bin" / "poolshim")
    library = installed_library(prefix).resolve()
    python = ROOT / ".venv" / "bin"
    names = ("LD_PRELOAD", "POOLSHIM_BUILD_DIR")
    env = {name: value for name, value in os.environ.items() if name not in names}
    env["PATH"] = f"{python}:{env['PATH']}" if python.exists() else env["PATH"]
    options = {"env": env, "cwd": tmp_path}
    assert run_ok(program, "run", "--", "printenv", "LD_PRELOAD", **options) == f"{library}\n"
    assert str(library) in run_ok(program, "run", "--", "cat", "/proc/self/maps", **options)
    assert run_ok(program, "--version", **options).startswith("poolshim 0.")
    report = run_ok(program, "doctor", "--json", "--run", "--", "true", **options)
    assert json.loads(report)["library"] == str(library)


def recipe_of_conan_exports_all_that_is_installed(tmp_path: Path) -> None:
    """The recipe lists the sources by hand; CMake finds a missing file when it installs."""
    recipe = ast.parse((ROOT / "conanfile.py").read_text())
    (exports,) = (
        ast.literal_eval(node.value) for node in ast.walk(recipe)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "exports_sources"
    )  # fmt: skip
    source = tmp_path / "source"
    for pattern in exports:  # "cmake/*" has all below cmake
        for path in ROOT.glob(pattern.removesuffix("/*")):
            copy = shutil.copytree if path.is_dir() else shutil.copy
            (source / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            copy(path, source / path.relative_to(ROOT))
    run_ok("cmake", "-S", source, "-B", tmp_path / "build", "-DPOOLSHIM_BUILD_COMMAND=OFF",
           "-DPOOLSHIM_BUILD_MANUALS=OFF")
    script = (tmp_path / "build" / "cmake_install.cmake").read_text()
    named = set(re.findall(rf'"({re.escape(str(source))}/[^"]*)"', script))
    assert len(named) > 5
    assert sorted(name for name in named if not Path(name).exists()) == []


@each_row(
    "check",
    [
        by_default_the_library_alone_is_built,
        make_builds_the_archive_alone,
        uninstall_removes_what_was_installed_and_nothing_else,
        recipe_of_conan_exports_all_that_is_installed,
    ],
)
def test_trees_without_an_installation(tmp_path: Path, check: Callable[[Path], None]) -> None:
    check(tmp_path)
