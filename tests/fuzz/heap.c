// sources: tests/unit/fake_os.c tests/fuzz/lib/forked.c
/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: the engine as a sequence of operations by several threads that take turns, over an
 * operating system that refuses when told to and whose clock the input moves. Each input meets a
 * fresh engine in a process of its own, with settings that the input chooses. Every byte of every
 * block is patterned; no two blocks may overlap; at the end all memory is accounted for.
 */
#include "tests/fuzz/lib/forked.h"
#include "tests/fuzz/lib/model.h"
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

enum {
    SLOTS = 96,
    BURST = 320, /* further slots, made and freed many at a time */
    THREADS = 4, /* the first is main */
    FORKS_MAX = 2,
    SIZE_POWERS = 10, /* to 128 KiB; larger ones are an operation of their own */
    OPERATIONS_MAX = 3000,
    LIVE_BYTES_MAX = 6 << 20,
    PATTERN_DENSE = 4096,
};

static struct live_block blocks[SLOTS + BURST];
static struct worker threads[THREADS];
static bool is_running[THREADS];
static unsigned turn;
static unsigned forks;
static size_t live_bytes;
static bool may_refuse;
static struct fuzz_input input;

/* ---- checks of one block ---- */

static void check_apart(const struct live_block *fresh) {
    const unsigned char *end = fresh->address + ps_block_usable(fresh->address);
    for (size_t i = 0; i < SLOTS + BURST; i++) {
        const struct live_block *other = &blocks[i];
        if (other != fresh && other->address != NULL) {
            FUZZ_CHECK(other->address + other->bytes <= fresh->address || end <= other->address);
        }
    }
}

static void start_block(struct live_block *slot, void *address, size_t bytes, size_t align) {
    static uint64_t seed;
    FUZZ_CHECK(address != NULL || (may_refuse && errno == ENOMEM));
    live_start(slot, address, bytes, ++seed);
    if (address != NULL) {
        FUZZ_CHECK((uintptr_t)address % align == 0);
        check_apart(slot);
        live_bytes += bytes;
    }
}

static void end_block(struct live_block *slot) {
    if (slot->address != NULL) {
        live_bytes -= slot->bytes;
        errno = 4711;
        live_end(slot);
        FUZZ_CHECK(errno == 4711);
    }
}

/* ---- operations; each is done by the thread whose turn it is ---- */

static size_t next_size(void) { return fuzz_size(&input, SIZE_POWERS); }

static struct live_block *next_slot(void) { return &blocks[fuzz_below(&input, SLOTS)]; }

static void make(struct live_block *slot, size_t bytes) {
    if (slot->address == NULL && live_bytes + bytes <= LIVE_BYTES_MAX) {
        start_block(slot, ps_heap_alloc(bytes), bytes, bytes > 8 ? 16 : 8);
    } else {
        end_block(slot);
    }
}

static void make_zeroed(void) {
    struct live_block *slot = next_slot();
    size_t bytes = next_size();
    end_block(slot);
    unsigned char *address = ps_block_zalloc(bytes);
    FUZZ_CHECK(address == NULL || engine_is_zero(address, bytes));
    start_block(slot, address, bytes, bytes > 8 ? 16 : 8);
}

static void make_aligned(void) {
    struct live_block *slot = next_slot();
    size_t align = (size_t)1 << fuzz_below(&input, 23);
    size_t bytes = next_size();
    end_block(slot);
    start_block(slot, ps_block_alloc_aligned(bytes, align), bytes, align);
}

/* To 4 MiB: runs of many pages, and mappings. */
static void make_large(void) {
    struct live_block *slot = next_slot();
    size_t bytes = ((size_t)1 + fuzz_byte(&input)) << 14;
    make(slot, bytes + fuzz_below(&input, 3) - 1);
}

static void resize_to(size_t bytes) {
    static uint64_t seed = 1 << 20;
    struct live_block *slot = next_slot();
    if (slot->address == NULL || bytes == 0 || live_bytes + bytes > LIVE_BYTES_MAX) {
        return;
    }
    live_bytes -= slot->bytes;
    bool is_done = live_resize(slot, bytes, ++seed);
    FUZZ_CHECK(is_done || (may_refuse && errno == ENOMEM));
    live_bytes += slot->bytes;
    check_apart(slot);
}

static void resize(void) { resize_to(next_size()); }

static void resize_large(void) { resize_to(((size_t)1 + fuzz_byte(&input)) << 14); }

static void make_burst(void) {
    size_t count = 1 + fuzz_byte(&input);
    size_t bytes = fuzz_size(&input, 6);
    for (size_t i = 0; i < BURST && count > 0; i++) {
        if (blocks[SLOTS + i].address == NULL) {
            make(&blocks[SLOTS + i], bytes);
            count--;
        }
    }
}

/* Upwards or downwards, all or one in so many: sequences open free streaks, gaps do not. */
static void free_burst(void) {
    uint8_t kind = fuzz_byte(&input);
    size_t step = 1 + (kind >> 1) % 4;
    for (size_t i = 0; i < BURST; i += step) {
        end_block(&blocks[SLOTS + ((kind & 1) != 0 ? i : BURST - 1 - i)]);
    }
}

static void check_block(void) {
    struct live_block *slot = next_slot();
    FUZZ_CHECK(slot->address == NULL || live_is_intact(slot, slot->bytes));
}

static void pass_time(void) { fake_os_advance_ms((uint64_t)fuzz_byte(&input) * 16); }

static void trim(void) { ps_maintenance_trim((size_t)fuzz_byte(&input) << 12); }

/* The system refuses one call, or kinds of calls until told otherwise. */
static void refuse(void) {
    uint8_t kind = fuzz_byte(&input);
    may_refuse = kind != 0;
    if (kind >= 32) {
        fake_os_fail_nth(kind - 31);
    } else {
        fake_os_refuse(kind);
    }
}

/* Nothing beyond any address space, whatever the heap looks like. */
static void ask_too_much(void) {
    size_t bytes = SIZE_MAX - ((size_t)fuzz_byte(&input) << (8 * fuzz_below(&input, 7)));
    errno = 0;
    void *address = ps_heap_alloc(bytes);
    FUZZ_CHECK(address == NULL && errno == ENOMEM);
    FUZZ_CHECK(ps_block_zalloc(bytes) == NULL);
    FUZZ_CHECK(ps_block_alloc_aligned(bytes, (size_t)1 << fuzz_below(&input, 40)) == NULL);
}

static void take_census(void) {
    struct ps_census census = engine_census();
    FUZZ_CHECK(census_live_blocks(&census) <= SLOTS + BURST + SLOTS * BURST);
}

static void end_all_blocks(void) {
    for (size_t i = 0; i < SLOTS + BURST; i++) {
        end_block(&blocks[i]);
    }
}

/* The child has the blocks of all threads, but only this thread. */
static void live_in_fork(void) {
    for (size_t i = fuzz_byte(&input) % 4; i < SLOTS + BURST; i += 2) {
        end_block(&blocks[i]);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        make(&blocks[i], i * 24);
    }
    ps_maintenance_trim(0);
    end_all_blocks();
    forked_keep_coverage();
    fflush(NULL);
    _exit(unit_failures == 0 ? 0 : 1);
}

static void fork_once(void) {
    if (forks == FORKS_MAX) {
        return;
    }
    forks++;
    pid_t child = fork();
    FUZZ_CHECK(child >= 0);
    if (child == 0) {
        alarm(FORKED_SECONDS_MAX);
        live_in_fork();
    }
    int status = 0;
    FUZZ_CHECK(waitpid(child, &status, 0) == child);
    FUZZ_CHECK(status == 0);
}

static void make_small(void) {
    struct live_block *slot = next_slot();
    make(slot, next_size());
}

static void free_one(void) { end_block(next_slot()); }

static void (*const operations[])(void) = {
    make_small, make_small,   free_one,    resize,      make_zeroed, make_aligned,
    make_large, resize_large, make_burst,  free_burst,  pass_time,   trim,
    refuse,     ask_too_much, take_census, check_block, fork_once,
};

enum { OPERATIONS = sizeof operations / sizeof operations[0], SWITCH_TURN = 29, END_THREAD = 30 };

/* ---- turns ---- */

static void do_operation(void *argument) { operations[(uintptr_t)argument](); }

static void end_thread(unsigned thread) {
    if (thread != 0 && is_running[thread]) {
        worker_stop(&threads[thread]);
        is_running[thread] = false;
    }
}

static void step(void) {
    unsigned code = fuzz_byte(&input) % 32;
    if (code == SWITCH_TURN || code == SWITCH_TURN + 2) {
        turn = fuzz_below(&input, THREADS);
    } else if (code == END_THREAD) {
        end_thread(fuzz_below(&input, THREADS));
    } else if (turn == 0) {
        operations[code % OPERATIONS]();
    } else {
        if (!is_running[turn]) {
            worker_start(&threads[turn]);
            is_running[turn] = true;
        }
        worker_do(&threads[turn], do_operation, (void *)(uintptr_t)(code % OPERATIONS));
    }
}

/* ---- settings ---- */

static void choose_settings(void) {
    static const uint32_t tables[][6] = {
        {8, 16, 32, 48}, {16, 4096}, {8}, {64, 80, 1008, 6000 / 16 * 16}};
    uint8_t kind = fuzz_byte(&input);
    unsigned table = kind % 8;
    for (uint32_t i = 0; table < 4 && i < 6 && tables[table][i] != 0; i++) {
        engine_config.class_bytes[i] = tables[table][i];
        engine_config.class_count = i + 1;
    }
    if ((kind & 8) != 0) {
        engine_config.small_max_bytes = table < 4 ? 8192 : 1024;
    }
    engine_config.mmap_min_bytes = (size_t)128 * KIB << (kind >> 4) % 4;
    engine_config.huge.policy = kind >= 248 ? PS_HUGE_THP : PS_HUGE_OFF;
    uint8_t delays = fuzz_byte(&input);
    engine_config.purge_delay_ms = (delays & 1) != 0 ? 1000 : delays;
    engine_config.cache_max_bytes = (size_t)(delays >> 4) << 20;
    if ((delays & 1) == 0 && (delays & 15) >= 8) {
        engine_config.harden = ((delays & 15) - 6) / 2; /* 1 to 4; 4 is none */
        engine_config.harden %= 4;
    }
    if ((delays & 15) >= 13) {
        engine_config.guard_sample = (delays & 15) == 13 ? 1 : 100;
        engine_config.guard_slots = (delays & 15) == 15 ? 8 : 64;
    }
}

/* The census does not count the pages of guarded samples and the quarantine of hardened blocks. */
static void check_nothing_is_lost(void) {
    if (engine_config.harden != 0) {
        return;
    }
    if (engine_config.guard_sample == 0) {
        check_live_blocks(0);
    }
    ps_maintenance_trim(0);
    struct ps_census census = engine_census();
    FUZZ_CHECK(census_live_blocks(&census) == 0 && census.small_slab_bytes == 0);
}

static void live(const uint8_t *bytes, size_t count) {
    input = (struct fuzz_input){bytes, count};
    choose_settings();
    ps_engine_start();
    for (unsigned i = 0; i < OPERATIONS_MAX && !fuzz_is_over(&input); i++) {
        step();
    }
    fake_os_refuse(0);
    fake_os_fail_nth(0);
    may_refuse = false;
    for (unsigned thread = 1; thread < THREADS; thread++) {
        end_thread(thread);
    }
    end_all_blocks();
    check_nothing_is_lost();
    FUZZ_CHECK(unit_failures == 0);
    void *block = ps_heap_alloc(100);
    FUZZ_CHECK(block != NULL);
    ps_heap_free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    forked_run(live, bytes, count);
    return 0;
}
