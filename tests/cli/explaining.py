# SPDX-License-Identifier: MIT
"""A server to watch, and readings that are made up, for the tests of `poolshim explain`.

    def test_x(spawn: Start, server: Path) -> None: explain("--pid", str(spawn([server]).pid))
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from programs import compile_program

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.explain.account import PARTS, Account  # noqa: E402
from poolshim_cli.explain.history import History  # noqa: E402
from poolshim_cli.explain.watch import Moment, Watch  # noqa: E402

POOLSHIM = ROOT / "scripts" / "poolshim"
MIB = 1 << 20
PID = 1 << 30

# Replaces blocks for ever; with a word on its command line, some of them are never freed.
SERVER = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *table[4000];
static void *kept;
__attribute__((noinline)) static void *serve(void) { return memset(malloc(1000), 1, 1000); }
__attribute__((noinline)) static void hoard(void) {
    void **block = malloc(3000);
    memset(block, 1, 3000);
    block[0] = kept;
    kept = block;
}
int main(int count, char **words) {
    (void)words;
    for (unsigned i = 0, random = 1; i < 2000000000; i++) {
        random = random * 1103515245 + 12345;
        free(table[random / 65536 % 4000]);
        table[random / 65536 % 4000] = serve();
        if (i == 100000 && write(1, "1\n", 2) != 2) {
            return 1;
        }
        if (count > 1 && i % 8 == 0) {
            hoard();
        }
        if (i % 32 == 0 && i > 100000) {
            usleep(2000);
        }
    }
    return 0;
}
"""

@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SERVER."""
    folder = tmp_path_factory.mktemp("served")
    return compile_program(folder, "server", SERVER, "-g", "-fno-builtin")


def explain(*words: str | Path, status: int = 0) -> dict[str, Any]:
    """The document, which is there whatever the status is."""
    done = run_captured([POOLSHIM, "explain", "--json", *words], timeout=240)
    assert done.returncode == status, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def account_of(live: float, rss: int = 0, **parts: float) -> Account:
    """The account of a process on the library."""
    amounts = {**dict.fromkeys(PARTS, 0.0), "live": live, **parts}
    names: dict[str, Counter[str]] = {one: Counter() for one in ("files", "other", "shared")}
    return Account(PID, rss or round(sum(amounts.values())), pss=rss or round(live), parts=amounts,
                   names=names, has_heap=True, has_calls=True)  # fmt: skip


def history_of(accounts: list[Account], **watched: int) -> History:
    watch = Watch(PID, **watched)
    watch.moments = [Moment(0.1 * i, {PID: one}) for i, one in enumerate(accounts)]
    return History(watch)
