# SPDX-License-Identifier: MIT
"""A program whose live memory grows, or not, in known ways, for the tests of `poolshim gate`.

    gated MODE server PORT SEED     a server: a connection names a number of requests
    gated MODE load PORT COUNT      a round
    gated MODE loop SECONDS SEED    the same requests in a loop
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from programs import compile_program

POOLSHIM = ROOT / "scripts" / "poolshim"
REQUESTS = 10_000
# All replace blocks of a table, of random sizes. leak: 64 bytes per request are never freed; rare:
# of every 100th request. cache: fills to a bound in 7 rounds. table: doubles. warm: the first
# 15,000 requests allocate for good.
GATED = r"""
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define SITE __attribute__((noinline)) static void
#define END __asm__ volatile("")
static unsigned long long state;
static unsigned long requests;
static const char *mode;
static void *forgotten, *table[20000], *cache[70000], *grown;
static size_t cached, capacity = 1024, used;
static unsigned draw(unsigned below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % below;
}
static int is(const char *name) { return strcmp(mode, name) == 0; }
static inline void *touched(void *block, size_t bytes) { return memset(block, 1, bytes); }
SITE forget(size_t bytes) {
    void **block = malloc(bytes);
    *block = forgotten;
    forgotten = block;
    END;
}
SITE replace(void) {
    unsigned place = draw(20000);
    size_t bytes = draw(200) ? 16 + draw(2000) : 100000;
    free(table[place]);
    table[place] = draw(3) ? touched(malloc(bytes), bytes) : NULL;
    END;
}
SITE insert(void) {
    size_t place = cached < 70000 ? cached++ : draw(70000);
    free(cache[place]);
    cache[place] = touched(malloc(200), 200);
    END;
}
SITE append(void) {
    if (++used > capacity) {
        capacity *= 2;
        grown = realloc(grown, capacity * 16);
        touched(grown, capacity * 16);
    }
    END;
}
SITE serve(void) {
    requests++;
    replace();
    if (is("leak") || (is("rare") && requests % 100 == 0)) {
        forget(64);
    } else if (is("cache")) {
        insert();
    } else if (is("table")) {
        append();
    } else if (is("warm") && requests < 15000) {
        forget(500);
    }
    END;
}
static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}
int main(int count, char **words) {
    if (count != 5) {
        return 2;
    }
    mode = words[1];
    state = strtoull(words[4], NULL, 10) * 7919 + 1;
    for (int i = 0; i < 200000; i++) {
        replace(); /* in balance from the start */
    }
    if (strcmp(words[2], "loop") == 0) {
        for (double end = now() + atof(words[3]); now() < end; usleep(5000)) {
            for (int i = 0; i < 300; i++) {
                serve();
            }
        }
        return is("fail") ? 3 : 0;
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = htons((unsigned short)atoi(words[3]));
    int socket_fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    char text[32] = {0};
    if (strcmp(words[2], "load") == 0) {
        return connect(socket_fd, (void *)&at, sizeof at) != 0 ||
               write(socket_fd, words[4], strlen(words[4])) < 1 || read(socket_fd, text, 1) != 1;
    }
    setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(socket_fd, (void *)&at, sizeof at) != 0 || listen(socket_fd, 16) != 0) {
        return 1;
    }
    for (;;) {
        int connection = accept(socket_fd, NULL, NULL);
        ssize_t length = read(connection, text, sizeof text - 1);
        text[length > 0 ? length : 0] = 0;
        for (long left = atol(text); left > 0; left--) {
            serve();
        }
        if (length > 0 && write(connection, "1", 1) != 1) {
            return 1;
        }
        close(connection);
    }
}
"""


@pytest.fixture(scope="session")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GATED."""
    folder = tmp_path_factory.mktemp("gated")
    return compile_program(folder, "gated", GATED, "-g", "-fno-builtin")


def serving(gated: Path, mode: str, seed: int = 1, requests: int = REQUESTS) -> list[str]:
    """The words for a server and its load."""
    program = shlex.quote(str(gated))
    return ["--server", f"{program} {mode} server {{port}} {seed}",
            "--load", f"{program} {mode} load {{port}} {requests}"]  # fmt: skip


def gate(*words: str | Path, status: int = 0) -> dict[str, Any]:
    """The document."""
    done = run_captured([POOLSHIM, "gate", "--json", *words], timeout=240)
    assert done.returncode == status, (done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["grows"] == (status == 1)
    return found
