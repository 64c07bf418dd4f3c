# SPDX-License-Identifier: MIT
"""The sources, built and installed on a bare system, linked with in each way, and removed.

    scripts/test --packages tests/package/test_sources.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bare_system import clone, copy, in_chroot

pytestmark = pytest.mark.package
pytest_plugins = ["made_once"]
PREFIX = "/opt/tried"
CONSUMER = "/source/tests/repo/consumer"


@pytest.fixture(scope="module")
def root(base_system: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system with compilers, the commit in /source, installed in PREFIX from /build."""
    root = copy(base_system, tmp_path_factory.mktemp("sources") / "root")
    clone(root / "source")
    in_chroot(root, f"""
        apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends cmake make g++ pkg-config bash-completion \\
            zsh fish man-db python3 >/dev/null
        cmake -S /source -B /build -DCMAKE_INSTALL_PREFIX={PREFIX} >/dev/null
        cmake --build /build -j2 >/dev/null
        cmake --build /build -t install >/dev/null
        """)  # fmt: skip
    return root


def test_the_preload_takes_effect(root: Path) -> None:
    command = f"{PREFIX}/bin/poolshim run -- cat /proc/self/maps | grep -m 1 libpoolshim"
    assert f"{PREFIX}/lib/libpoolshim.so.0" in in_chroot(root, command)


@pytest.mark.parametrize(
    ("way", "owner"),
    [(f"-DCMAKE_PREFIX_PATH={PREFIX}", f"{PREFIX}/lib"), ("-DPOOLSHIM_SOURCE=/source", "/linked")],
    ids=["find_package", "FetchContent"],
)
def test_another_build_links_with_it(root: Path, way: str, owner: str) -> None:
    out = in_chroot(root, f"""
        rm -rf /linked
        cmake -S {CONSUMER} -B /linked {way} >/dev/null
        cmake --build /linked -j2 >/dev/null
        /linked/consumer
        /linked/pools
        /linked/pools-cxx
        """)  # fmt: skip
    libraries = [line for line in out.splitlines() if line.startswith("/")]
    assert len(libraries) >= 3 and all(line.startswith(owner) for line in libraries), out


def test_pkg_config_finds_it(root: Path) -> None:
    out = in_chroot(root, f"""
        export PKG_CONFIG_PATH={PREFIX}/lib/pkgconfig LD_LIBRARY_PATH={PREFIX}/lib
        gcc {CONSUMER}/pools.c $(pkg-config --cflags --libs poolshim-pools) -o /tmp/pools
        /tmp/pools
        """)  # fmt: skip
    assert out.startswith(f"{PREFIX}/lib/libpoolshim-pools.so")


def test_manual_pages_and_completions_are_found(root: Path) -> None:
    out = in_chroot(root, f"""
        export PATH={PREFIX}/bin:$PATH XDG_DATA_DIRS={PREFIX}/share:/usr/share
        man -w poolshim libpoolshim poolshim_region.h
        bash -c '. /usr/share/bash-completion/bash_completion
            _completion_loader poolshim; complete -p poolshim'
        zsh -fc 'fpath=({PREFIX}/share/zsh/site-functions $fpath); autoload -Uz compinit
            compinit -D; echo "zsh: $_comps[poolshim]"'
        fish -c 'complete -C "poolshim doc"'
        """)  # fmt: skip
    pages = [line for line in out.splitlines() if line.startswith(f"{PREFIX}/share/man/")]
    assert len(pages) == 3
    assert "poolshim\nzsh: _poolshim\n" in out
    assert out.splitlines()[-1].startswith("doctor")


def test_uninstall_leaves_nothing(root: Path) -> None:
    """The last one: the others need what it removes."""
    out = in_chroot(root, f"""
        cmake --build /build -t uninstall >/dev/null
        find {PREFIX} -mindepth 1 \\( -not -type d -o -name '*poolshim*' \\)
        echo removed
        """)  # fmt: skip
    assert out == "removed\n"
