/* SPDX-License-Identifier: MIT */
/*
 * poolshim.h - functions of a preloaded poolshim, for the program that it serves.
 *
 * A program needs no library to use this header: the functions are weak references, which the
 * preloaded libpoolshim.so fills in. Without it they are null, and poolshim_is_active() says so:
 *
 *     #include <poolshim/poolshim.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         if (!poolshim_is_active()) {
 *             puts("running on another allocator");
 *             return 0;
 *         }
 *         printf("poolshim %s\n", poolshim_version());
 *         return poolshim_stats_write("heap.%p.json") == 0 ? 0 : 1;
 *     }
 *
 * dlsym finds the functions, too. Options are set from outside, by environment variables:
 * docs/options.md; some may be changed by poolshim_set.
 */
#ifndef POOLSHIM_POOLSHIM_H
#define POOLSHIM_POOLSHIM_H

#include <stddef.h>
#include <stdint.h>

#define POOLSHIM_VERSION "0.3.1"

#define POOLSHIM_API __attribute__((weak, visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The version of the library that is loaded, "major.minor.patch"; POOLSHIM_VERSION is that of the
 * header. A constant string, never to be freed. Any thread; O(1).
 */
POOLSHIM_API const char *poolshim_version(void);

/*
 * Writes the statistics of this moment.
 *
 * path: file name as in POOLSHIM_STATS: %p is the process id, %% a percent sign, a name that ends
 * in .json gets JSON, another one the readable table. An existing regular file is replaced in one
 * step, so a reader never sees half a report. NULL: the table, on stderr.
 *
 * Returns 0, or -1 with errno set as open, write or rename left it; ENAMETOOLONG when the name
 * has more than 4095 bytes after %p. Allocates nothing. Any thread, at any time; not in signal
 * handlers. Cost: grows with the heap (the census visits every slab) and a few system calls.
 */
POOLSHIM_API int poolshim_stats_write(const char *path);

/*
 * Writes the heap profile of this moment (POOLSHIM_PROFILE), in pprof's format.
 *
 * path: file name as above; NULL: that of POOLSHIM_PROFILE, which is written at exit too. An
 * existing regular file is replaced in one step.
 *
 * Returns 0, or -1 with errno set: ENOTSUP when POOLSHIM_PROFILE is not on, ENOMEM, or as open,
 * write or rename left it. Allocates nothing from the heap. Any thread, at any time; not in signal
 * handlers. Cost: proportional to the number of stacks, which POOLSHIM_PROFILE_MAX bounds.
 */
POOLSHIM_API int poolshim_profile_write(const char *path);

/*
 * The figures of poolshim_stats_read. docs/stats.md explains them; in bytes, or counts. New fields
 * come at the end.
 */
struct poolshim_stats {
    size_t bytes; /* of this structure that the library has filled in; the rest is 0 */

    uint64_t live_bytes; /* allocated and not freed, at the sizes of the blocks */
    uint64_t live_count;
    uint64_t small_live_bytes; /* of these, in size classes */
    uint64_t small_live_count;
    uint64_t run_live_bytes; /* above the size classes, below POOLSHIM_MMAP_MIN */
    uint64_t run_live_count;
    uint64_t large_live_bytes; /* with mappings of their own */
    uint64_t large_live_count;

    uint64_t small_slab_bytes;   /* slabs: small blocks, live and free */
    uint64_t run_cached_bytes;   /* freed blocks in caches of threads */
    uint64_t large_cached_bytes; /* of cached freed mappings */
    uint64_t free_dirty_bytes;   /* free pages, resident */
    uint64_t free_clean_bytes;   /* free pages, not resident */
    uint64_t metadata_bytes;
    uint64_t pools_bytes;  /* of pools of the program */
    uint64_t mapped_bytes; /* all but free_clean_bytes: the most that can be resident */

    uint64_t purge_count; /* system calls that have released memory */
    uint64_t purged_bytes;
    uint64_t remote_free_count; /* 0: no thread owns blocks any more; this and the next */
    uint64_t remote_batch_count;
    uint64_t thread_count; /* threads that have begun and not ended, as far as the library knows */
    uint64_t limit_bytes;  /* POOLSHIM_LIMIT; 0: none, or not compared with yet */
    uint64_t limit_near_count;

    uint64_t sampled_peak_bytes; /* of blocks since poolshim_peak_begin: see there */
};

/*
 * Reads the figures of this moment.
 *
 * stats: filled in; bytes: sizeof *stats. A library that is older than the program's header fills
 * in the fields that it has, a newer one the fields that the program's header has.
 *
 * Returns 0, or -1 with errno EINVAL when stats is NULL or bytes less than 8. Allocates nothing.
 * Any thread, at any time; not in signal handlers. Cost: grows with the heap, as that of
 * poolshim_stats_write, without its system calls.
 */
POOLSHIM_API int poolshim_stats_read(struct poolshim_stats *stats, size_t bytes);

/*
 * Begins a period. sampled_peak_bytes is the most memory that was live at once in the last period,
 * of blocks that were allocated in it, as the samples of the heap profile (POOLSHIM_PROFILE)
 * estimate it. The first period begins with the process. A program measures one of its parts so:
 *
 *     poolshim_peak_begin();
 *     part();
 *     poolshim_stats_read(&stats, sizeof stats);
 *     printf("%llu\n", (unsigned long long)stats.sampled_peak_bytes);
 *
 * Blocks of all threads count. The standard deviation for n blocks of b bytes, each much smaller
 * than POOLSHIM_PROFILE_INTERVAL, is the root of n * b * the interval.
 *
 * Returns 0, or -1 with errno ENOTSUP when allocations have never been sampled. Allocates nothing.
 * Any thread, at any time; not in signal handlers. O(1).
 */
POOLSHIM_API int poolshim_peak_begin(void);

/*
 * Releases free memory to the system at once, except for about keep_bytes.
 *
 * Returns the released bytes, including those that other threads have released meanwhile; 0: there
 * were none. Preserves errno. Any thread, at any time; not in signal handlers. Cost: a system call
 * for each run of free pages.
 */
POOLSHIM_API size_t poolshim_purge(size_t keep_bytes);

/*
 * Changes a setting, from now on.
 *
 * name: PURGE_DELAY_MS, CACHE_MAX, LIMIT, PROFILE_INTERVAL or THREAD_BYTES, also as
 * POOLSHIM_PURGE_DELAY_MS or purge-delay-ms; value: as in the variable, "1000" or "80%". The child
 * of a fork inherits it, the program that exec starts does not. LIMIT may be set to off.
 * PROFILE_INTERVAL is of later samples; a thread notices it when its next sample of the earlier
 * interval is due, or at its next call that takes another path than the fast one.
 *
 * Returns 0, or -1 with errno set: ENOENT no such option, EPERM it is frozen at the start, EINVAL
 * not a value of it, ENOTSUP without effect in this process (CACHE_MAX, where blocks are hardened;
 * PROFILE_INTERVAL, where allocations cannot be sampled; THREAD_BYTES, where blocks are hardened or
 * recorded).
 * Allocates nothing. Any thread, at any time; not in signal handlers. O(1); about 14 KiB of stack.
 */
POOLSHIM_API int poolshim_set(const char *name, const char *value);

/* 1 when libpoolshim.so is loaded into this process, otherwise 0. Any thread; O(1). */
static inline int poolshim_is_active(void) { return poolshim_version != 0; }

#ifdef __cplusplus
}
#endif

#endif
