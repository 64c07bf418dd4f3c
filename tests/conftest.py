# SPDX-License-Identifier: MIT
"""What all tests share: where the build lies, and how to run a program under the shim.

    scripts/test -k elf        (or, with everything built: python -m pytest tests -k elf)
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from outcomes import Outcomes, is_in_shard
from progress import Progress

ROOT = Path(__file__).resolve().parent.parent
BUILD_DIR = Path(os.environ.get("POOLSHIM_BUILD_DIR", ROOT / "build" / "release")).resolve()

# A shell without job control starts background jobs with this signal ignored; tests send it to
# commands, which inherit this setting.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Another processor's programs run under an emulator: its absolute path and its options. Programs
# that start themselves again (tests/unit/again.h) read it too.
EMULATOR = shlex.split(os.environ.get("TEST_EMULATOR", ""))

# All limits of time are as many times longer; tests/unit/fresh.h has it for tests in programs.
SLOWNESS = int(os.environ.get("TEST_SLOWNESS", 1))

RunShim = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_configure(config: pytest.Config) -> None:
    """Programs that abort on purpose leave no core files."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if "TEST_PROGRESS" in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config))
    if "TEST_OUTCOMES" in os.environ:
        path = Path(os.environ["TEST_OUTCOMES"])
        config.pluginmanager.register(Outcomes(path, hasattr(config, "workerinput")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests of the packages are left out, not skipped: they are `scripts/test --packages`. So
    are those of other shards. Slow tests come first, so that no processor waits for one at the
    end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # stable
    left_out = []
    if os.environ.get("TEST_PACKAGES") != "1":
        left_out = [item for item in items if item.get_closest_marker("package")]
    if shard := os.environ.get("TEST_SHARD"):
        left_out += [item for item in items if not is_in_shard(item.nodeid, shard)]
    others = set(left_out)
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=list(others))


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """The build under test: $POOLSHIM_BUILD_DIR, else build/release."""
    if not (BUILD_DIR / "build.ninja").exists():
        pytest.fail(f"{BUILD_DIR} is not built: run scripts/test", pytrace=False)
    return BUILD_DIR


@pytest.fixture(scope="session")
def shim(build_dir: Path) -> Path:
    """libpoolshim.so of the build under test."""
    library = build_dir / "libpoolshim.so"
    if not library.exists():
        pytest.fail(f"{library} is not built: run scripts/test", pytrace=False)
    return library


def library_that_does_not_load(folder: Path) -> Path:
    """It defines malloc, but says that it is an object file: the loader goes on without it."""
    source, library = folder / "broken.c", folder / "libbroken.so"
    source.write_text("void *malloc(unsigned long bytes) { (void)bytes; return 0; }\n")
    assert run_captured(["gcc", "-shared", "-fPIC", source, "-o", library]).returncode == 0
    data = bytearray(library.read_bytes())
    data[16] = 1  # e_type: ET_REL
    library.write_bytes(data)
    return library


def load_script(name: str) -> ModuleType:
    """A script without a suffix, as a module. It is found wherever the scripts lie."""
    (path,) = (ROOT / "scripts").rglob(name)
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # for its dataclasses
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


def run_captured(
    command: Sequence[str | os.PathLike[str]], timeout: float = 60, **options: Any
) -> subprocess.CompletedProcess[str]:
    """subprocess.run with text output captured, which on a timeout also ends grandchildren."""
    input_text: str | None = options.pop("input", None)
    options.setdefault("stdin", subprocess.DEVNULL if input_text is None else subprocess.PIPE)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    options.setdefault("errors", "replace")
    arguments = [os.fspath(word) for word in command]
    with subprocess.Popen(arguments, text=True, start_new_session=True, **options) as process:
        try:
            stdout, stderr = process.communicate(input_text, timeout=timeout * SLOWNESS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


@pytest.fixture(scope="session")
def run_shim(shim: Path) -> RunShim:
    """run_shim(cmd, env=None, timeout=60, preload=True, **Popen options) -> CompletedProcess.

    env is added to the inherited environment, without the POOLSHIM_* and LD_PRELOAD of that. An
    LD_PRELOAD in env comes after the shim.
    """

    def run(
        cmd: Sequence[str | os.PathLike[str]],
        env: dict[str, str] | None = None,
        timeout: float = 60,
        preload: bool = True,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        full = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("POOLSHIM_") and name != "LD_PRELOAD"
        }
        full.update(env or {})
        if preload:
            others = full.get("LD_PRELOAD")
            full["LD_PRELOAD"] = f"{shim}:{others}" if others else str(shim)
        if EMULATOR:  # whose own libraries are the machine's
            others = full.pop("LD_PRELOAD", "")
            cmd = [*EMULATOR, "-E", f"LD_PRELOAD={others}", *cmd]
        return run_captured(cmd, timeout, env=full, **options)

    return run
