/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the heap layer share: a configuration that a test sets before its first call,
 * random sizes, blocks filled with a pattern that shows when another thread wrote there, and what
 * must always be true of a census. Over the fake OS; all but the configuration from any thread.
 */
#ifndef PS_TESTS_UNIT_ENGINE_H
#define PS_TESTS_UNIT_ENGINE_H

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/block.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/record/census.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"

#include <errno.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* ---- configuration ---- */

static struct ps_config engine_config = PS_CONFIG_DEFAULT;

/* Small enough for tests to have many mappings. */
__attribute__((constructor)) static void engine_lower_mmap_min(void) {
    engine_config.mmap_min_bytes = 4 * MIB;
}

void ps_configure(struct ps_config *config) { *config = engine_config; }

/* In a test of what long slabs do: size classes as far as there can be, as few programs have. */
#define ENGINE_LONG_CLASSES                                                                        \
    __attribute__((constructor)) static void engine_long_classes(void) {                           \
        engine_config.small_max_bytes = PS_CLASS_BYTES_LIMIT;                                      \
    }

/* In a test of caches: switches the bound of surplus.h off, as a background thread does. */
#define ENGINE_NO_SURPLUS                                                                          \
    __attribute__((constructor)) static void engine_no_surplus(void) {                             \
        ps_control_page.x_background = PS_BACKGROUND_ASLEEP;                                       \
    }

/* ---- random numbers for any thread; unit_random is for one ---- */

static inline uint64_t engine_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Mostly small, now and then large: of 1000, about 3 are mappings. */
static inline size_t engine_random_size(uint64_t *state) {
    uint64_t kind = engine_random(state) % 1000;
    size_t limit = kind < 600 ? 256 : kind < 900 ? 4 * KIB : kind < 980 ? 64 * KIB : 512 * KIB;
    return kind >= 997 ? 4 * MIB + engine_random(state) % (2 * MIB)
                       : engine_random(state) % (limit + 1);
}

/* ---- blocks with a pattern ---- */

#define PATTERN_DENSE_BYTES 512 /* every byte up to here, then a word per KiB, and the end */
#define PATTERN_END_BYTES 64

struct live_block {
    unsigned char *address; /* NULL: none */
    size_t bytes;
    uint64_t seed;
};

static inline unsigned char pattern_byte(uint64_t seed, size_t offset) {
    return (unsigned char)(((seed + offset) * 0x9e3779b97f4a7c15u) >> 56);
}

/* The next offset that carries the pattern. */
static inline size_t pattern_next(size_t offset, size_t bytes) {
    offset++;
    if (offset < PATTERN_DENSE_BYTES || offset + PATTERN_END_BYTES >= bytes) {
        return offset;
    }
    size_t end = bytes - PATTERN_END_BYTES;
    size_t next = offset % KIB < 8 ? offset : (offset / KIB + 1) * KIB;
    return next < end ? next : end;
}

static inline void live_fill(const struct live_block *live) {
    for (size_t i = 0; i < live->bytes; i = pattern_next(i, live->bytes)) {
        live->address[i] = pattern_byte(live->seed, i);
    }
}

/* Whether the first `kept` bytes still have their pattern. */
static inline bool live_is_intact(const struct live_block *live, size_t kept) {
    for (size_t i = 0; i < live->bytes && i < kept; i = pattern_next(i, live->bytes)) {
        if (live->address[i] != pattern_byte(live->seed, i)) {
            return false;
        }
    }
    return true;
}

static inline bool engine_is_zero(const unsigned char *address, size_t bytes) {
    for (size_t i = 0; i < bytes; i = pattern_next(i, bytes)) {
        if (address[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Takes on a block that was just allocated. NULL: takes on nothing. */
static inline void live_start(struct live_block *live, void *address, size_t bytes, uint64_t seed) {
    *live = (struct live_block){address, bytes, seed};
    if (address == NULL) {
        return;
    }
    CHECK_EQ((uintptr_t)address % (bytes > 8 ? 16 : 8), 0);
    CHECK_CMP(ps_block_usable(address), >=, bytes);
    live_fill(live);
}

static inline void live_end(struct live_block *live) {
    CHECK(live_is_intact(live, live->bytes));
    ps_heap_free(live->address);
    live->address = NULL;
}

/* Allocates so many blocks of one size. */
static inline void live_start_all(struct live_block *blocks, size_t count, size_t bytes) {
    for (size_t i = 0; i < count; i++) {
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
        REQUIRE(blocks[i].address != NULL);
    }
}

static inline void live_end_all(struct live_block *blocks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].address != NULL) {
            live_end(&blocks[i]);
        }
    }
}

/* Allocates so many blocks of engine_random_size, and frees them. */
static inline void live_rise_and_fall(struct live_block *blocks, size_t count) {
    uint64_t random = 1;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = engine_random_size(&random);
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
        REQUIRE(blocks[i].address != NULL);
    }
    live_end_all(blocks, count);
}

/* Resizes with the pattern; false when memory was out and the block is as it was. */
static inline bool live_resize(struct live_block *live, size_t bytes, uint64_t seed) {
    void *moved = ps_block_resize(live->address, bytes);
    if (moved == NULL) {
        CHECK(live_is_intact(live, live->bytes));
        return false;
    }
    live->address = moved;
    CHECK(live_is_intact(live, bytes));
    live_start(live, moved, bytes, seed);
    return true;
}

/* ---- census ---- */

__attribute__((unused)) static struct ps_census engine_census(void) {
    struct ps_census census;
    ps_census_take(&census);
    return census;
}

__attribute__((unused)) static uint64_t census_live_blocks(const struct ps_census *census) {
    uint64_t live = census->run_live_count + census->map_live_count;
    for (uint32_t i = 0; i < census->class_count; i++) {
        live += census->classes[i].live_blocks;
    }
    return live;
}

/*
 * True when no other thread is inside the engine: nothing is lost, nothing counted twice. Mappings
 * that the system refused to unmap are arenas.
 */
__attribute__((unused)) static void check_census(const struct ps_census *census) {
    CHECK_EQ(census->arena_bytes, census->cache_dirty_bytes + census->cache_clean_bytes +
                                      census->run_live_bytes + census->run_cached_bytes +
                                      census->small_slab_bytes);
    CHECK_EQ(census->arena_bytes + census->map_live_bytes + census->map_cached_bytes +
                 census->metadata_bytes,
             fake_os_mapped_bytes());
    for (uint32_t i = 0; i < census->class_count; i++) {
        const struct ps_census_class *class = &census->classes[i];
        CHECK_CMP((class->live_blocks + class->prepared_blocks) * class->block_bytes, <=,
                  class->slab_bytes);
    }
}

/* Checks the census, and that so many blocks are live. */
__attribute__((unused)) static void check_live_blocks(uint64_t wanted) {
    struct ps_census census = engine_census();
    check_census(&census);
    CHECK_EQ(census_live_blocks(&census), wanted);
}

#endif
