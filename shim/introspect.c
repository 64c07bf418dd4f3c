/* SPDX-License-Identifier: MIT */
/*
 * glibc's functions about the heap, served from the census: malloc_trim, mallinfo, mallinfo2,
 * malloc_info, malloc_stats and mallopt, with glibc's prototypes, return values and meanings.
 * docs/introspection.md maps the figures. Any thread; the census takes the engine's locks one after
 * the other, and nothing is printed under a lock.
 */
#include "pools/engine/base/atomic.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/record/census.h"
#include "shim/entry.h"
#include "shim/glibc.h"
#include "shim/stats.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define FAST_BYTES_LIMIT (80 * sizeof(size_t) / 4) /* glibc's, for mallopt(M_MXFAST) */

/* glibc's figures, of this heap: arena_bytes == used_bytes + free_bytes. */
struct figures {
    uint64_t arena_bytes; /* mapped, less single blocks' mappings, pools' pages, metadata */
    uint64_t most_bytes;  /* the most of it that a call has found */
    uint64_t used_bytes;  /* live, mappings of single blocks not counted */
    uint64_t free_bytes;
    uint64_t free_block_count; /* free blocks in slabs */
    uint64_t map_bytes;        /* mappings of single blocks */
    uint64_t map_count;
    uint64_t trim_bytes; /* what malloc_trim can release */
};

/* a - b, but 0 where a snapshot across threads makes it negative. */
static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static uint64_t free_blocks_of(const struct ps_census_class *class) {
    if (class->slabs == 0) {
        return 0;
    }
    uint64_t blocks_per_slab = class->slab_bytes / class->slabs / class->block_bytes;
    return less(class->slabs * blocks_per_slab, class->live_blocks);
}

static uint64_t x_most_bytes;

static uint64_t raised_most(uint64_t bytes) {
    uint64_t most = ps_load_relaxed(&x_most_bytes); /* relaxed: a number by itself */
    while (bytes > most && !ps_cas_weak_relaxed(&x_most_bytes, &most, bytes)) {
    }
    return ps_max(bytes, most);
}

static void take_figures(const struct ps_census *census, struct figures *figures) {
    *figures = (struct figures){
        .arena_bytes = less(census->mapped_bytes,
                            census->map_live_bytes + census->metadata_bytes + census->pages_bytes),
        .used_bytes = census->small_live_bytes + census->run_live_bytes + census->guard_live_bytes,
        .map_bytes = census->map_live_bytes,
        .map_count = census->map_live_count,
        .trim_bytes = census->cache_dirty_bytes + census->map_cached_bytes,
    };
    figures->most_bytes = raised_most(figures->arena_bytes);
    figures->free_bytes = less(figures->arena_bytes, figures->used_bytes);
    for (uint32_t i = 0; i < census->class_count; i++) {
        figures->free_block_count += free_blocks_of(&census->classes[i]);
    }
}

PS_EXPORT struct mallinfo2 mallinfo2(void) {
    struct ps_census census;
    struct figures figures;
    ps_census_take(&census);
    take_figures(&census, &figures);
    return (struct mallinfo2){
        .arena = (size_t)figures.arena_bytes,
        .ordblks = (size_t)figures.free_block_count,
        .hblks = (size_t)figures.map_count,
        .hblkhd = (size_t)figures.map_bytes,
        .uordblks = (size_t)figures.used_bytes,
        .fordblks = (size_t)figures.free_bytes,
        .keepcost = (size_t)figures.trim_bytes,
    };
}

static int saturated(size_t value) { return value > INT_MAX ? INT_MAX : (int)value; }

/* glibc lets the int fields wrap; a figure that saturates at INT_MAX is easier to interpret. */
PS_EXPORT struct mallinfo mallinfo(void) {
    struct mallinfo2 wide = mallinfo2();
    return (struct mallinfo){
        .arena = saturated(wide.arena),
        .ordblks = saturated(wide.ordblks),
        .hblks = saturated(wide.hblks),
        .hblkhd = saturated(wide.hblkhd),
        .uordblks = saturated(wide.uordblks),
        .fordblks = saturated(wide.fordblks),
        .keepcost = saturated(wide.keepcost),
    };
}

static void print_free(FILE *stream, const struct figures *figures) {
    fprintf(stream,
            "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
            "<total type=\"rest\" count=\"%llu\" size=\"%llu\"/>\n",
            (unsigned long long)figures->free_block_count, (unsigned long long)figures->free_bytes);
}

static void print_system(FILE *stream, const struct figures *figures) {
    unsigned long long bytes = figures->arena_bytes;
    fprintf(stream,
            "<system type=\"current\" size=\"%llu\"/>\n"
            "<system type=\"max\" size=\"%llu\"/>\n"
            "<aspace type=\"total\" size=\"%llu\"/>\n"
            "<aspace type=\"mprotect\" size=\"%llu\"/>\n",
            bytes, (unsigned long long)figures->most_bytes, bytes, bytes);
}

static void print_free_sizes(FILE *stream, const struct ps_census *census) {
    fputs("<sizes>\n", stream);
    unsigned long long from = 1;
    for (uint32_t i = 0; i < census->class_count; i++) {
        const struct ps_census_class *class = &census->classes[i];
        unsigned long long count = free_blocks_of(class);
        if (count != 0) {
            fprintf(stream, "<size from=\"%llu\" to=\"%u\" total=\"%llu\" count=\"%llu\"/>\n", from,
                    class->block_bytes, count * class->block_bytes, count);
        }
        from = class->block_bytes + 1ULL;
    }
    fputs("</sizes>\n", stream);
}

static void print_info(FILE *stream) {
    struct ps_census census;
    struct figures figures;
    ps_census_take(&census);
    take_figures(&census, &figures);
    fputs("<malloc version=\"1\">\n<heap nr=\"0\">\n", stream);
    print_free_sizes(stream, &census);
    print_free(stream, &figures);
    print_system(stream, &figures);
    /* glibc repeats the sums over all heaps; there is one. */
    fputs("</heap>\n", stream);
    print_free(stream, &figures);
    fprintf(stream, "<total type=\"mmap\" count=\"%llu\" size=\"%llu\"/>\n",
            (unsigned long long)figures.map_count, (unsigned long long)figures.map_bytes);
    print_system(stream, &figures);
    fputs("</malloc>\n", stream);
}

PS_EXPORT int malloc_info(int options, FILE *stream) {
    int state;
    if (options != 0) {
        return EINVAL;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
                                 &state); /* stdio has cancellation points */
    print_info(stream);
    (void)pthread_setcancelstate(state, NULL);
    return 0;
}

PS_EXPORT void malloc_stats(void) { (void)ps_stats_write_table(STDERR_FILENO); }

PS_EXPORT int malloc_trim(size_t pad) { return ps_maintenance_trim(pad) ? 1 : 0; }

/*
 * The configuration is frozen when a program can first call this, so nothing here has an effect.
 * Parameters that are hints count as accepted; requests for behaviour that is not implemented (fill
 * patterns) and unknown parameters are refused.
 */
PS_EXPORT int mallopt(int parameter, int value) {
    switch (parameter) {
    case M_MXFAST:
        return value >= 0 && (size_t)value <= FAST_BYTES_LIMIT;
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_ARENA_TEST:
    case M_ARENA_MAX:
        return 1;
    default:
        return 0;
    }
}

PS_EXPORT_ALIAS(__libc_mallinfo, mallinfo);
PS_EXPORT_ALIAS(__libc_mallopt, mallopt);

/* gperftools' names of the same: shim/tcmalloc.c */
PS_EXPORT_ALIAS(tc_mallinfo, mallinfo);
PS_EXPORT_ALIAS(tc_mallinfo2, mallinfo2);
PS_EXPORT_ALIAS(tc_malloc_stats, malloc_stats);

/* It has no parameter, and refuses none. */
int tc_mallopt(int parameter, int value);
PS_EXPORT int tc_mallopt(int parameter, int value) {
    (void)parameter;
    (void)value;
    return 1;
}
