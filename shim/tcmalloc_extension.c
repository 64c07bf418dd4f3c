/* SPDX-License-Identifier: MIT */
/*
 * gperftools' MallocExtension in C, with its prototypes and results, and the functions by which
 * programs ask whether Google's tcmalloc serves them, as folly does. See tcmalloc.h. No locks of
 * its own.
 */
#include "shim/tcmalloc.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/bootstrap.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/os/mte.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "shim/config.h"
#include "shim/entry.h"

#include <errno.h>
#include <string.h>

/* ---- what the functions and the class do ---- */

void ps_tcmalloc_empty_thread(void) {
    int saved_errno = errno;
    ps_maintenance_flush();
    errno = saved_errno;
}

/* Fewer, larger system calls: a program that asks for little often gets it from the rest. */
#define PIECE_BYTES ((size_t)1 << 20)

/* Releases free runs, then mappings, then pages of medium regions, until it is enough. Ends: each
 * round releases some. */
static size_t release_some(size_t least_bytes) {
    size_t bytes = ps_max(least_bytes, PIECE_BYTES);
    size_t done = 0;
    size_t step = 1;
    while (done < bytes && step != 0) {
        size_t left = bytes - done;
        step = ps_purge_some(ps_max(left >> PS_GRANULE_SHIFT, 1)) << PS_GRANULE_SHIFT;
        if (step == 0) {
            step = ps_mapping_expire_some();
        }
        if (step == 0) {
            step = ps_medium_purge_some(ps_max(left >> PS_MEDIUM_PAGE_SHIFT, 1))
                   << PS_MEDIUM_PAGE_SHIFT;
        }
        done += step;
    }
    return done;
}

static size_t release_all(void) {
    struct ps_purge_counts before;
    struct ps_purge_counts after;
    ps_purge_read(&before);
    (void)ps_maintenance_trim(0);
    ps_purge_read(&after);
    return (size_t)(after.bytes - before.bytes);
}

/* Bytes that calls have released beyond their amount. */
static size_t x_released_ahead;

size_t ps_tcmalloc_release(size_t bytes) {
    int saved_errno = errno;
    size_t done = 0;
    size_t ahead = ps_load_relaxed(&x_released_ahead); /* relaxed: two calls may use it twice */
    if (bytes <= ahead) {
        ahead -= bytes;
    } else if (bytes == SIZE_MAX) {
        done = release_all();
        ahead = 0;
    } else {
        done = release_some(bytes - ahead);
        ahead = done > bytes - ahead ? done - (bytes - ahead) : 0;
    }
    ps_store_relaxed(&x_released_ahead, ahead); /* relaxed: as above */
    errno = saved_errno;
    return done;
}

bool ps_tcmalloc_owns(const void *address) {
    const struct ps_slot *slot = ps_page_map_slot(ps_mte_strip(address));
    /* relaxed: set before the caller got a block there; anything else is a snapshot. */
    uint8_t kind = ps_load_relaxed(&slot->run.kind);
    switch (kind) {
    case PS_RUN_SLAB:
    case PS_RUN_INSIDE:
    case PS_RUN_BLOCK:
    case PS_RUN_MAPPING:
    case PS_RUN_MEDIUM:
    case PS_RUN_GUARD:
    case PS_RUN_ZERO:
        return true;
    default:
        return ps_bootstrap_usable(address) != 0;
    }
}

static uint64_t x_rate; /* the bits of a double; 0: 1.0 */

void ps_tcmalloc_set_rate(double rate) {
    double usual_ms = ps_shim_settings()->engine.purge_delay_ms;
    double delay_ms = rate > 0 ? usual_ms / rate : UINT32_MAX;
    ps_retention_set_delay(delay_ms < UINT32_MAX ? (uint32_t)delay_ms : UINT32_MAX);
    uint64_t bits;
    rate = rate > 0 ? rate : -1.0;
    memcpy(&bits, &rate, sizeof bits);
    ps_store_relaxed(&x_rate, bits); /* relaxed: a number by itself */
}

double ps_tcmalloc_rate(void) {
    uint64_t bits = ps_load_relaxed(&x_rate); /* relaxed: as above */
    double rate = 1;
    if (bits != 0) {
        memcpy(&rate, &bits, sizeof rate);
    }
    return rate > 0 ? rate : 0;
}

/* ---- gperftools' names ---- */

int MallocExtension_VerifyAllMemory(void);
int MallocExtension_VerifyNewMemory(const void *block);
int MallocExtension_VerifyArrayNewMemory(const void *block);
int MallocExtension_VerifyMallocMemory(const void *block);
int MallocExtension_MallocMemoryStats(int *blocks, size_t *total,
                                      int histogram[PS_TCMALLOC_HISTOGRAM]);
void MallocExtension_GetStats(char *buffer, int buffer_length);
int MallocExtension_GetNumericProperty(const char *property, size_t *value);
int MallocExtension_SetNumericProperty(const char *property, size_t value);
void MallocExtension_MarkThreadIdle(void);
void MallocExtension_MarkThreadBusy(void);
void MallocExtension_MarkThreadTemporarilyIdle(void);
void MallocExtension_ReleaseToSystem(size_t bytes);
void MallocExtension_ReleaseFreeMemory(void);
size_t MallocExtension_GetEstimatedAllocatedSize(size_t size);
size_t MallocExtension_GetAllocatedSize(const void *block);
size_t MallocExtension_GetThreadCacheSize(void);
int MallocExtension_GetOwnership(const void *address);

PS_EXPORT int MallocExtension_VerifyAllMemory(void) {
    ps_tcmalloc_verify_all();
    return 1;
}

PS_EXPORT int MallocExtension_VerifyMallocMemory(const void *block) {
    ps_tcmalloc_verify(block);
    return 1;
}
PS_EXPORT_ALIAS(MallocExtension_VerifyNewMemory, MallocExtension_VerifyMallocMemory);
PS_EXPORT_ALIAS(MallocExtension_VerifyArrayNewMemory, MallocExtension_VerifyMallocMemory);

PS_EXPORT int MallocExtension_MallocMemoryStats(int *blocks, size_t *total,
                                                int histogram[PS_TCMALLOC_HISTOGRAM]) {
    ps_tcmalloc_count_blocks(blocks, total, histogram);
    return 1;
}

PS_EXPORT void MallocExtension_GetStats(char *buffer, int buffer_length) {
    ps_tcmalloc_write_stats(buffer, buffer_length);
}

PS_EXPORT int MallocExtension_GetNumericProperty(const char *property, size_t *value) {
    return ps_tcmalloc_get(PS_TCMALLOC_GPERFTOOLS, property, strlen(property), value);
}

PS_EXPORT int MallocExtension_SetNumericProperty(const char *property, size_t value) {
    return ps_tcmalloc_set(property, value);
}

PS_EXPORT void MallocExtension_MarkThreadIdle(void) { ps_tcmalloc_empty_thread(); }
PS_EXPORT_ALIAS(MallocExtension_MarkThreadTemporarilyIdle, MallocExtension_MarkThreadIdle);

/* A thread begins to use the heap at its next call. */
PS_EXPORT void MallocExtension_MarkThreadBusy(void) {}

PS_EXPORT void MallocExtension_ReleaseToSystem(size_t bytes) { (void)ps_tcmalloc_release(bytes); }

PS_EXPORT void MallocExtension_ReleaseFreeMemory(void) { (void)ps_tcmalloc_release(SIZE_MAX); }

PS_EXPORT size_t MallocExtension_GetEstimatedAllocatedSize(size_t size) {
    return ps_block_length(size, 1);
}

PS_EXPORT size_t MallocExtension_GetAllocatedSize(const void *block) {
    return ps_block_usable(block);
}

PS_EXPORT size_t MallocExtension_GetThreadCacheSize(void) { return ps_tcmalloc_thread_bytes(); }

PS_EXPORT int MallocExtension_GetOwnership(const void *address) {
    return ps_tcmalloc_owns(address) ? PS_TCMALLOC_OWNED : PS_TCMALLOC_NOT_OWNED;
}

/* ---- Google's names ---- */

bool MallocExtension_Internal_GetNumericProperty(const char *name, size_t name_length,
                                                 size_t *value);
size_t MallocExtension_Internal_GetAllocatedSize(const void *block);
void MallocExtension_Internal_MarkThreadIdle(void);
void MallocExtension_Internal_MarkThreadBusy(void);
size_t MallocExtension_Internal_ReleaseMemoryToSystem(size_t bytes);

PS_EXPORT bool MallocExtension_Internal_GetNumericProperty(const char *name, size_t name_length,
                                                           size_t *value) {
    return ps_tcmalloc_get(PS_TCMALLOC_GOOGLE, name, name_length, value);
}

PS_EXPORT size_t MallocExtension_Internal_ReleaseMemoryToSystem(size_t bytes) {
    return ps_tcmalloc_release(bytes);
}

PS_EXPORT_ALIAS(MallocExtension_Internal_GetAllocatedSize, MallocExtension_GetAllocatedSize);
PS_EXPORT_ALIAS(MallocExtension_Internal_MarkThreadIdle, MallocExtension_MarkThreadIdle);
PS_EXPORT_ALIAS(MallocExtension_Internal_MarkThreadBusy, MallocExtension_MarkThreadBusy);
