/* SPDX-License-Identifier: MIT */
/*
 * mallctl's names of the calling thread, and of explicit caches: see mallctl.h. Counts of bytes are
 * those of pools/engine/heap/counting.h. Caches do not exist: an identifier is a bit.
 */
#include "shim/mallctl.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/maintenance.h"

#include <errno.h>

#define CACHES_MOST 4094 /* that MALLOCX_TCACHE can name */
#define WORD_BITS 64

/* Values that the thread has written. */
struct chosen {
    uint32_t arena;
    bool is_uncached;
};
static __thread struct chosen chosen __attribute__((tls_model("initial-exec")));

/* ---- bytes ---- */

int ps_mallctl_read_thread_bytes(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)indexes;
    bool is_freed = argument == PS_THREAD_FREED || argument == PS_THREAD_FREED_AT;
    bool is_address = argument == PS_THREAD_ALLOCATED_AT || argument == PS_THREAD_FREED_AT;
    const uint64_t *bytes = is_freed ? ps_counting_freed() : ps_counting_allocated();
    if (bytes == NULL) {
        return is_freed ? ENOENT : EAGAIN;
    }
    *value = is_address ? (uintptr_t)bytes : *bytes;
    return 0;
}

int ps_mallctl_read_thread_peak(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    (void)indexes;
    return ps_counting_peak(value) ? 0 : ENOENT;
}

int ps_mallctl_write_thread_peak(const size_t *indexes, uint64_t value) {
    (void)indexes;
    (void)value;
    return ps_counting_reset_peak() ? 0 : ENOENT;
}

/* ---- what a thread chooses ---- */

uint32_t ps_mallctl_thread_arena(void) { return chosen.arena; }

int ps_mallctl_read_thread_arena(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    (void)indexes;
    *value = chosen.arena;
    return 0;
}

int ps_mallctl_write_thread_arena(const size_t *indexes, uint64_t value) {
    (void)indexes;
    if (value >= ps_mallctl_arena_end()) {
        return EFAULT;
    }
    chosen.arena = (uint32_t)value;
    return 0;
}

int ps_mallctl_write_thread_flush(const size_t *indexes, uint64_t value) {
    (void)indexes;
    (void)value;
    ps_maintenance_flush();
    return 0;
}

int ps_mallctl_read_thread_cached(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    (void)indexes;
    *value = !chosen.is_uncached;
    return 0;
}

int ps_mallctl_write_thread_cached(const size_t *indexes, uint64_t value) {
    chosen.is_uncached = value == 0;
    return value == 0 ? ps_mallctl_write_thread_flush(indexes, 0) : 0;
}

/* True for a name of printable characters, as jemalloc demands. */
static bool is_name(const char *name) {
    for (; *name != '\0'; name++) {
        if (*name != '\t' && (*name < ' ' || *name > '~')) {
            return false;
        }
    }
    return true;
}

/* Either read or written. */
int ps_mallctl_call_thread_name(const struct ps_mallctl_request *request) {
    static const char *const empty = "";
    const char *name;
    bool reads = request->old_value != NULL && request->old_bytes != NULL;
    if (!ps_mallctl_has_profile()) {
        return ENOENT;
    }
    if (request->new_value == NULL) {
        return reads ? ps_mallctl_give(request, &empty, sizeof empty) : 0;
    }
    if (reads) {
        return EPERM;
    }
    if (request->new_bytes != sizeof name) {
        return EINVAL;
    }
    name = *(const char *const *)request->new_value;
    return name != NULL && is_name(name) ? 0 : EFAULT;
}

/* ---- explicit caches ---- */

static uint64_t x_caches[(CACHES_MOST + WORD_BITS - 1) / WORD_BITS]; /* a bit for each identifier */

static uint64_t bit_of(uint64_t cache) { return (uint64_t)1 << cache % WORD_BITS; }

/* Takes the first free identifier of a word; false: it has none. */
static bool take_bit(size_t word, uint32_t *cache) {
    uint64_t bits = ps_load_relaxed(&x_caches[word]); /* relaxed: exchanged below */
    while (bits != UINT64_MAX) {
        uint32_t bit = (uint32_t)__builtin_ctzll(~bits);
        *cache = (uint32_t)(word * WORD_BITS) + bit;
        /* relaxed: an identifier has no memory. */
        if (ps_cas_weak_relaxed(&x_caches[word], &bits, bits | bit_of(bit))) {
            return *cache < CACHES_MOST;
        }
    }
    return false;
}

int ps_mallctl_call_cache_create(const struct ps_mallctl_request *request) {
    uint32_t cache = 0;
    if (request->new_value != NULL || request->new_bytes != 0) {
        return EPERM;
    }
    int error = ps_mallctl_give(request, &cache, sizeof cache);
    if (error != 0) {
        return error;
    }
    for (size_t word = 0; word < sizeof x_caches / sizeof x_caches[0]; word++) {
        if (take_bit(word, &cache)) {
            return ps_mallctl_give(request, &cache, sizeof cache);
        }
    }
    return EAGAIN;
}

int ps_mallctl_write_cache_flush(const size_t *indexes, uint64_t value) {
    (void)indexes;
    /* relaxed: as above. */
    bool is_one =
        value < CACHES_MOST && (ps_load_relaxed(&x_caches[value / WORD_BITS]) & bit_of(value)) != 0;
    return is_one ? 0 : EFAULT;
}

int ps_mallctl_write_cache_destroy(const size_t *indexes, uint64_t value) {
    int error = ps_mallctl_write_cache_flush(indexes, value);
    if (error == 0) {
        ps_and_relaxed(&x_caches[value / WORD_BITS], ~bit_of(value)); /* relaxed: as above */
    }
    return error;
}
