/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's mallctl: the names of mallctl.def, and the functions that have their values. mallctl.c
 * has the entry points, mallctl_names.c finds a row by its name or MIB, the other files read and
 * write values: mallctl_values.c settings, mallctl_stats.c figures, mallctl_thread.c what belongs
 * to the calling thread, mallctl_arena.c arenas. Any thread. No locks; the figures are words that a
 * refresh stores one by one.
 */
#ifndef PS_SHIM_MALLCTL_H
#define PS_SHIM_MALLCTL_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Types, as jemalloc documents them. */
enum ps_mallctl_type {
    PS_MALLCTL_ACTION, /* has no value */
    PS_MALLCTL_BOOL,
    PS_MALLCTL_UINT32,  /* unsigned, uint32_t */
    PS_MALLCTL_UINT64,  /* uint64_t */
    PS_MALLCTL_SIZE,    /* size_t */
    PS_MALLCTL_INT64,   /* int64_t, ssize_t */
    PS_MALLCTL_TEXT,    /* const char * */
    PS_MALLCTL_POINTER, /* another one */
};

/* The operations on a value. A call that does both reads the old one, and puts it where the caller
 * wants it if the new one was taken. */
enum ps_mallctl_access {
    PS_MALLCTL_NONE,    /* ENOENT */
    PS_MALLCTL_READ,    /* read */
    PS_MALLCTL_WRITE,   /* read and write */
    PS_MALLCTL_PROFILE, /* the same; a write is ENOENT without a profile */
    PS_MALLCTL_EPOCH,   /* the same, but the new value is read */
    PS_MALLCTL_STORE,   /* write */
    PS_MALLCTL_DUMP,    /* write, also without a value; ENOENT without a profile */
    PS_MALLCTL_DO,      /* neither */
    PS_MALLCTL_CALL,    /* as its function says */
};

/* ---- rows ---- */

#define PS_MALLCTL_NAME_BYTES 60
#define PS_MALLCTL_INDEXES 2 /* of a name, at most */
#define PS_MALLCTL_DEPTH 7   /* components of a name, at most */

struct ps_mallctl_row {
    char name[PS_MALLCTL_NAME_BYTES]; /* components separated by dots; # is replaced by an index */
    uint8_t type;                     /* enum ps_mallctl_type */
    uint8_t access;                   /* enum ps_mallctl_access */
    uint8_t value;                    /* enum ps_mallctl_value */
    uint8_t argument;                 /* for its functions */
};

extern const struct ps_mallctl_row ps_mallctl_rows[];
extern const size_t ps_mallctl_row_count;

/* Puts the MIB of a name, or of the first *length components of it, into mib, and their number into
 * *length. Returns the row if that is a whole name. NULL, with *length 0: there is no such name. */
const struct ps_mallctl_row *ps_mallctl_find(const char *name, size_t *mib, size_t *length);

/* The row of a whole MIB, and its indexes; NULL: there is none. */
const struct ps_mallctl_row *ps_mallctl_at(const size_t *mib, size_t length, size_t *indexes);

/* Bytes of a value in the caller's memory. */
size_t ps_mallctl_bytes(uint8_t type);

/* ---- values ---- */

/* The arguments of a call. new_value NULL: nothing is written. */
struct ps_mallctl_request {
    void *old_value;
    size_t *old_bytes;
    const void *new_value;
    size_t new_bytes;
};

/* All return 0 or an errno. indexes: of the row's name, unchecked. */
struct ps_mallctl_source {
    union {
        int (*read)(unsigned argument, const size_t *indexes, uint64_t *value);
        int (*call)(const struct ps_mallctl_request *request);
    } get;
    int (*write)(const size_t *indexes, uint64_t value); /* or does the action */
};

#define PS_MALLCTL_READS(X)                                                                        \
    X(CONSTANT, constant)                                                                          \
    X(WORDS, words)                                                                                \
    X(SETTING, setting)                                                                            \
    X(BIN, bin)                                                                                    \
    X(LARGE_BYTES, large)                                                                          \
    X(FIGURE, figure)                                                                              \
    X(ARENA, arena)                                                                                \
    X(ARENA_BIN, arena_bin)                                                                        \
    X(ARENA_LENGTH, arena_length)                                                                  \
    X(THREAD_BYTES, thread_bytes)                                                                  \
    X(ARENA_IS, arena_is)                                                                          \
    X(ARENA_COUNT, arena_count)
#define PS_MALLCTL_READ_AND_WRITTEN(X)                                                             \
    X(EPOCH, epoch)                                                                                \
    X(BACKGROUND, background)                                                                      \
    X(BACKGROUND_MOST, background_most)                                                            \
    X(DELAY, delay)                                                                                \
    X(DELAY_ALL, delay_all)                                                                        \
    X(MUZZY, muzzy)                                                                                \
    X(MUZZY_ALL, muzzy_all)                                                                        \
    X(ACTIVE, active)                                                                              \
    X(SAMPLING, sampling)                                                                          \
    X(GDUMP, gdump)                                                                                \
    X(THREAD_ARENA, thread_arena)                                                                  \
    X(THREAD_CACHED, thread_cached)                                                                \
    X(THREAD_PEAK, thread_peak)                                                                    \
    X(ARENA_DSS, arena_dss)
#define PS_MALLCTL_WRITTEN(X)                                                                      \
    X(DUMP, dump)                                                                                  \
    X(THREAD_FLUSH, thread_flush)                                                                  \
    X(CACHE_FLUSH, cache_flush)                                                                    \
    X(CACHE_DESTROY, cache_destroy)                                                                \
    X(ARENA_DECAY, arena_decay)                                                                    \
    X(ARENA_PURGE, arena_purge)                                                                    \
    X(ARENA_RESET, arena_reset)                                                                    \
    X(ARENA_DESTROY, arena_destroy)                                                                \
    X(NOTHING, nothing)
#define PS_MALLCTL_CALLED(X)                                                                       \
    X(THREAD_NAME, thread_name)                                                                    \
    X(CACHE_CREATE, cache_create)                                                                  \
    X(ARENA_CREATE, arena_create)                                                                  \
    X(ARENA_LOOKUP, arena_lookup)

enum ps_mallctl_value {
#define X(name, function) PS_MALLCTL_OF_##name,
    PS_MALLCTL_READS(X) PS_MALLCTL_READ_AND_WRITTEN(X) PS_MALLCTL_WRITTEN(X) PS_MALLCTL_CALLED(X)
#undef X
};
extern const struct ps_mallctl_source ps_mallctl_sources[];

/* ---- the functions of values ---- */

/* settings, size classes, delays, profiles: mallctl_values.c */
int ps_mallctl_read_active(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_background(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_background_most(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_bin(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_constant(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_delay(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_delay_all(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_gdump(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_large(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_muzzy(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_muzzy_all(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_sampling(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_setting(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_words(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_write_active(const size_t *indexes, uint64_t value);
int ps_mallctl_write_background(const size_t *indexes, uint64_t value);
int ps_mallctl_write_background_most(const size_t *indexes, uint64_t value);
int ps_mallctl_write_delay(const size_t *indexes, uint64_t value);
int ps_mallctl_write_delay_all(const size_t *indexes, uint64_t value);
int ps_mallctl_write_dump(const size_t *indexes, uint64_t value);
int ps_mallctl_write_gdump(const size_t *indexes, uint64_t value);
int ps_mallctl_write_muzzy(const size_t *indexes, uint64_t value);
int ps_mallctl_write_muzzy_all(const size_t *indexes, uint64_t value);
int ps_mallctl_write_nothing(const size_t *indexes, uint64_t value);
int ps_mallctl_write_sampling(const size_t *indexes, uint64_t value);

/* figures: mallctl_stats.c */
int ps_mallctl_read_arena(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_arena_bin(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_arena_length(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_epoch(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_figure(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_write_epoch(const size_t *indexes, uint64_t value);

/* the calling thread, explicit caches: mallctl_thread.c */
int ps_mallctl_call_cache_create(const struct ps_mallctl_request *request);
int ps_mallctl_call_thread_name(const struct ps_mallctl_request *request);
int ps_mallctl_read_thread_arena(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_thread_bytes(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_thread_cached(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_thread_peak(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_write_cache_destroy(const size_t *indexes, uint64_t value);
int ps_mallctl_write_cache_flush(const size_t *indexes, uint64_t value);
int ps_mallctl_write_thread_arena(const size_t *indexes, uint64_t value);
int ps_mallctl_write_thread_cached(const size_t *indexes, uint64_t value);
int ps_mallctl_write_thread_flush(const size_t *indexes, uint64_t value);
int ps_mallctl_write_thread_peak(const size_t *indexes, uint64_t value);

/* arenas: mallctl_arena.c */
int ps_mallctl_call_arena_create(const struct ps_mallctl_request *request);
int ps_mallctl_call_arena_lookup(const struct ps_mallctl_request *request);
int ps_mallctl_read_arena_count(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_arena_dss(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_read_arena_is(unsigned argument, const size_t *indexes, uint64_t *value);
int ps_mallctl_write_arena_decay(const size_t *indexes, uint64_t value);
int ps_mallctl_write_arena_destroy(const size_t *indexes, uint64_t value);
int ps_mallctl_write_arena_dss(const size_t *indexes, uint64_t value);
int ps_mallctl_write_arena_purge(const size_t *indexes, uint64_t value);
int ps_mallctl_write_arena_reset(const size_t *indexes, uint64_t value);

/* For functions that are called: puts a value of 4 or 8 bytes where the caller has room for it.
 * EINVAL: it has none, or of another length; *old_bytes is then 0. */
int ps_mallctl_give(const struct ps_mallctl_request *request, const void *value, size_t bytes);

/* True with POOLSHIM_PROFILE. */
bool ps_mallctl_has_profile(void);

/* ---- arguments of rows ---- */

enum ps_mallctl_words {
    PS_WORDS_VERSION,
    PS_WORDS_EMPTY,
    PS_WORDS_DISABLED,
    PS_WORDS_FALSE,
    PS_WORDS_FREE,
    PS_WORDS_DEFAULT,
    PS_WORDS_THP,
    PS_WORDS_PROFILE_PATH,
};

enum ps_mallctl_setting {
    PS_SETTING_DEBUG,
    PS_SETTING_STRICT,
    PS_SETTING_VERBOSE,
    PS_SETTING_MAY_BACKGROUND,
    PS_SETTING_SET_DELAY,
    PS_SETTING_MMAP_MIN,
    PS_SETTING_CACHED_MOST,
    PS_SETTING_STATS_PRINT,
    PS_SETTING_PROFILE,
    PS_SETTING_PROFILE_PEAK,
    PS_SETTING_LG_SAMPLE,
    PS_SETTING_LG_SAMPLE_NOW,
    PS_SETTING_MINUS_ONE,
    PS_SETTING_PAGE,
    PS_SETTING_BIN_COUNT,
    PS_SETTING_LARGE_COUNT,
    PS_SETTING_LARGE_MOST,
};

enum ps_mallctl_bin { PS_BIN_BLOCK_BYTES, PS_BIN_SLAB_BLOCKS, PS_BIN_SLAB_BYTES, PS_BIN_SHARDS };

enum ps_mallctl_arena_bin { PS_BIN_MADE, PS_BIN_FREED, PS_BIN_LIVE, PS_BIN_SLABS, PS_BIN_NONE };

enum ps_mallctl_thread_bytes {
    PS_THREAD_ALLOCATED,
    PS_THREAD_ALLOCATED_AT,
    PS_THREAD_FREED,
    PS_THREAD_FREED_AT,
};

/* Figures of an arena. Those before the first that is computed are words of a refresh. */
enum ps_mallctl_figure {
    PS_ARENA_ALLOCATED,
    PS_ARENA_ACTIVE,
    PS_ARENA_METADATA,
    PS_ARENA_RESIDENT,
    PS_ARENA_MAPPED,
    PS_ARENA_RETAINED,
    PS_ARENA_DIRTY,
    PS_ARENA_CACHED_BYTES,
    PS_ARENA_PURGE_COUNT,
    PS_ARENA_PURGED_PAGES,
    PS_ARENA_SMALL_BYTES,
    PS_ARENA_SMALL_MADE,
    PS_ARENA_SMALL_FREED,
    PS_ARENA_LARGE_BYTES,
    PS_ARENA_LARGE_MADE,
    PS_ARENA_LARGE_FREED,
    PS_ARENA_THREADS,
    PS_ARENA_WORDS,
    PS_ARENA_ZERO = PS_ARENA_WORDS,
    PS_ARENA_ACTIVE_PAGES,
    PS_ARENA_DIRTY_PAGES,
    PS_ARENA_UPTIME_NS,
};

/* ---- arenas: mallctl_arena.c ---- */

struct ps_partition;

/* Indexes by which jemalloc accepts all arenas (one more than the last one, too, for old programs),
 * and those that have ended. */
#define PS_MALLCTL_ARENAS_ALL 4096
#define PS_MALLCTL_ARENAS_ENDED 4097

/* Arenas that have an index. Arena 0 is the heap of malloc, others are partitions. */
size_t ps_mallctl_arena_end(void);

static inline bool ps_mallctl_is_all(size_t arena) {
    return arena == PS_MALLCTL_ARENAS_ALL || arena == ps_mallctl_arena_end();
}

/* True for the index of an arena, or a number that means all, or the ended ones. */
static inline bool ps_mallctl_is_arena(size_t arena) {
    return arena <= ps_mallctl_arena_end() || arena == PS_MALLCTL_ARENAS_ALL ||
           arena == PS_MALLCTL_ARENAS_ENDED;
}

/* The partition of an arena; NULL: it is arena 0, or there is none. */
struct ps_partition *ps_mallctl_partition(size_t arena);

/* The same; makes the arena if there is none, as jemalloc does for a block. NULL: it is arena 0, no
 * index of an arena, or memory is exhausted. */
struct ps_partition *ps_mallctl_partition_for_block(size_t arena);

/* Milliseconds of the clock at which it was created. */
uint64_t ps_mallctl_arena_since_ms(size_t arena);

/* The arena that the calling thread has chosen; 0 at first. */
uint32_t ps_mallctl_thread_arena(void);

#endif
