/* SPDX-License-Identifier: MIT */
/*
 * The history of each byte in an execution: the last accesses, unordered pairs of accesses (data
 * races), and earlier values, so that everything can be undone. Called by memory.c; no locks.
 */
#include "bytes.h"

#include "checker.h"

#include <string.h>

#define GRANULES_MAX ((size_t)1 << 14)
#define UNDO_MAX ((size_t)1 << 20)

/* The threads that accessed a byte, each with its step. */
struct cell {
    uint32_t written, read[CLOCKS], stored[CLOCKS], loaded[CLOCKS];
    uint8_t writer;
    uint8_t only; /* thread that was here, or MANY */
    bool is_dead;
};

#define MANY UINT8_MAX

struct granule {
    uintptr_t address; /* of 8 bytes */
    uint32_t run;
    struct cell cells[8];
};

struct undo {
    uintptr_t address;
    uint64_t old;
    uint32_t bytes;
};

static struct granule *granules[GRANULES_MAX];
static struct undo undos[UNDO_MAX];
static size_t undo_count;

static struct granule *granule_of(uintptr_t address) {
    size_t slot = checker_slot(address, GRANULES_MAX);
    while (granules[slot] != NULL && granules[slot]->address != address) {
        slot = (slot + 1) % GRANULES_MAX;
    }
    if (granules[slot] == NULL) {
        granules[slot] = checker_allocate(sizeof(struct granule));
        granules[slot]->address = address;
    }
    struct granule *granule = granules[slot];
    if (granule->run != checker.run) {
        memset(granule->cells, 0, sizeof granule->cells);
        granule->run = checker.run;
    }
    return granule;
}

static bool is_unordered(const uint32_t *steps) {
    for (unsigned i = 0; i < CLOCKS; i++) {
        if (steps[i] > checker_now()->at[i]) {
            return true;
        }
    }
    return false;
}

static void check_race(const struct cell *cell, enum access access) {
    bool is_race = cell->written > checker_now()->at[cell->writer];
    if (access == READ || access == WRITE) {
        is_race |= is_unordered(cell->stored);
    }
    if (access == WRITE || access == STORE) {
        is_race |= is_unordered(cell->read);
    }
    if (access == WRITE) {
        is_race |= is_unordered(cell->loaded);
    }
    if (is_race) {
        explore_fail("data race");
    }
}

static void touch_cell(struct cell *cell, enum access access) {
    if (cell->is_dead) {
        explore_fail("touched after its end");
    }
    if (cell->only != checker.thread) {
        check_race(cell, access);
        cell->only = cell->only == 0 ? (uint8_t)checker.thread : MANY;
    }
    uint32_t step = checker_now()->at[checker.thread];
    if (access == WRITE) {
        cell->written = step;
        cell->writer = (uint8_t)checker.thread;
    } else {
        (access == READ   ? cell->read
         : access == LOAD ? cell->loaded
                          : cell->stored)[checker.thread] = step;
    }
}

void bytes_touch(uintptr_t address, size_t bytes, enum access access) {
    if (checker.thread == 0) {
        return; /* before or after all others */
    }
    struct granule *granule = NULL;
    for (uintptr_t at = address; at < address + bytes; at++) {
        if (granule == NULL || at % 8 == 0) {
            granule = granule_of(at & ~(uintptr_t)7);
        }
        touch_cell(&granule->cells[at % 8], access);
    }
}

bool bytes_is_met(uintptr_t address, bool is_store) {
    const struct cell *cell = &granule_of(address & ~(uintptr_t)7)->cells[address % 8];
    return is_unordered(cell->stored) || (is_store && is_unordered(cell->loaded));
}

uint32_t bytes_last_write(uintptr_t address, uint8_t *writer) {
    const struct cell *cell = &granule_of(address & ~(uintptr_t)7)->cells[address % 8];
    *writer = cell->writer;
    return cell->written;
}

static void mark(const void *start, size_t bytes, bool is_dead) {
    for (uintptr_t at = (uintptr_t)start; at < (uintptr_t)start + bytes; at++) {
        granule_of(at & ~(uintptr_t)7)->cells[at % 8].is_dead = is_dead;
    }
}

void explore_kill(const void *start, size_t bytes) { mark(start, bytes, true); }

void explore_revive(const void *start, size_t bytes) { mark(start, bytes, false); }

uint64_t bytes_get(uintptr_t address, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, (const void *)address, bytes);
    return value;
}

void bytes_save(uintptr_t address, size_t bytes) {
    while (bytes != 0) {
        size_t part = bytes < 8 ? bytes : 8;
        if (undo_count == UNDO_MAX) {
            explore_fail("writes too much in one execution");
        }
        undos[undo_count++] = (struct undo){address, bytes_get(address, part), (uint32_t)part};
        address += part;
        bytes -= part;
    }
}

void bytes_put(uintptr_t address, size_t bytes, uint64_t value) {
    bytes_save(address, bytes);
    memcpy((void *)address, &value, bytes);
}

void bytes_begin(void) { undo_count = 0; }

void bytes_end(void) {
    while (undo_count != 0) {
        const struct undo *undo = &undos[--undo_count];
        memcpy((void *)undo->address, &undo->old, undo->bytes);
    }
}
