/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's arenas: see mallctl.h. Arena 0 is the heap of malloc. arenas.create makes a partition
 * of the heap (pools/engine/heap/partition_path.h), whose address is at its index in a table. No
 * locks: an index is taken and returned by one exchange. As in jemalloc, no thread may use an arena
 * while another one destroys it.
 */
#include "shim/mallctl.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/mte.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_map.h"

#include <errno.h>
#include <string.h>

#define ARENAS_MOST 4095 /* that MALLOCX_ARENA can name */

static struct ps_partition *x_arenas[ARENAS_MOST] PS_SPARSE;
static uint32_t x_since_ms[ARENAS_MOST] PS_SPARSE; /* of their creation; the clock's lower bits */
static uint8_t x_dss[ARENAS_MOST] PS_SPARSE;       /* of dss_words: as written last */
static uint32_t x_end = 1;                         /* indexes so far */

size_t ps_mallctl_arena_end(void) { return ps_load_relaxed(&x_end); } /* relaxed: it only grows */

struct ps_partition *ps_mallctl_partition(size_t arena) {
    /* acquire: pairs with take_index; the partition is complete. */
    return arena - 1 < ARENAS_MOST - 1 ? ps_load_acquire(&x_arenas[arena]) : NULL;
}

uint64_t ps_mallctl_arena_since_ms(size_t arena) {
    return arena < ARENAS_MOST ? ps_load_relaxed(&x_since_ms[arena]) : 0; /* relaxed: a note */
}

/* ---- life ---- */

static void note_end(uint32_t end) {
    uint32_t known = ps_load_relaxed(&x_end);
    while (known < end && !ps_cas_weak_relaxed(&x_end, &known, end)) {
    }
}

/* Gives a partition the first free index; 0: there is none. */
static uint32_t take_index(struct ps_partition *partition) {
    for (uint32_t i = 1; i < ARENAS_MOST; i++) {
        struct ps_partition *none = NULL;
        /* acq_rel: pairs with ps_mallctl_partition. */
        if (ps_load_relaxed(&x_arenas[i]) == NULL && /* relaxed: a hint */
            ps_cas_strong_acq_rel(&x_arenas[i], &none, partition)) {
            ps_store_relaxed(&x_since_ms[i], (uint32_t)ps_os_now_ms()); /* relaxed: a note */
            note_end(i + 1);
            return i;
        }
    }
    return 0;
}

/* As jemalloc's, such an arena does not count in arenas.narenas if its index is above. */
struct ps_partition *ps_mallctl_partition_for_block(size_t arena) {
    struct ps_partition *found = ps_mallctl_partition(arena);
    if (PS_LIKELY(found != NULL) || arena - 1 >= ARENAS_MOST - 1) {
        return found;
    }
    struct ps_partition *made = ps_partition_create("arena", 0);
    /* acq_rel: pairs with ps_mallctl_partition; of two threads one makes it. */
    if (made == NULL || ps_cas_strong_acq_rel(&x_arenas[arena], &found, made)) {
        ps_store_relaxed(&x_since_ms[arena], (uint32_t)ps_os_now_ms()); /* relaxed: a note */
        return made;
    }
    (void)ps_partition_destroy(made);
    return found;
}

/* *hooks: memory from the program, which malloc does not take. */
static bool has_hooks(const struct ps_mallctl_request *request) {
    const void *hooks;
    if (request->new_value == NULL) {
        return false;
    }
    memcpy(&hooks, request->new_value, sizeof hooks);
    return hooks != NULL;
}

int ps_mallctl_call_arena_create(const struct ps_mallctl_request *request) {
    uint32_t index = 0;
    int error = ps_mallctl_give(request, &index, sizeof index);
    if (error != 0 || (request->new_value != NULL && request->new_bytes != sizeof(void *))) {
        return EINVAL;
    }
    if (has_hooks(request)) {
        return EFAULT;
    }
    struct ps_partition *partition = ps_partition_create("arena", 0);
    if (partition == NULL) {
        return EAGAIN;
    }
    index = take_index(partition);
    if (index == 0) {
        (void)ps_partition_destroy(partition);
        return EAGAIN;
    }
    return ps_mallctl_give(request, &index, sizeof index);
}

/* True for an address in a live run of the heap. */
static bool is_in_heap(const void *address) {
    const struct ps_slot *slot = ps_page_map_slot(ps_mte_strip(address));
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: a snapshot */
    return kind != PS_RUN_NONE && kind != PS_RUN_FREE;
}

int ps_mallctl_call_arena_lookup(const struct ps_mallctl_request *request) {
    const void *block;
    uint32_t index = 0;
    if (request->new_value == NULL || request->new_bytes != sizeof block) {
        return EINVAL;
    }
    memcpy(&block, request->new_value, sizeof block);
    const struct ps_partition *partition = ps_partition_of(block);
    if (partition == NULL && !is_in_heap(block)) {
        return EINVAL;
    }
    while (partition != NULL && ps_mallctl_partition(index) != partition) {
        if (++index == ps_mallctl_arena_end()) {
            return EINVAL; /* a part of the heap that is no arena */
        }
    }
    return ps_mallctl_give(request, &index, sizeof index);
}

/* ---- actions ---- */

static int check(const size_t *indexes) { return ps_mallctl_is_arena(indexes[0]) ? 0 : ENOENT; }

int ps_mallctl_write_arena_purge(const size_t *indexes, uint64_t value) {
    (void)value;
    int error = check(indexes);
    if (error == 0) {
        (void)ps_maintenance_trim(0);
    }
    return error;
}

int ps_mallctl_write_arena_decay(const size_t *indexes, uint64_t value) {
    (void)value;
    int error = check(indexes);
    if (error == 0) {
        ps_maintenance_decay();
    }
    return error;
}

int ps_mallctl_write_arena_reset(const size_t *indexes, uint64_t value) {
    (void)value;
    struct ps_partition *partition = ps_mallctl_partition(indexes[0]);
    int error = check(indexes);
    if (error != 0) {
        return error;
    }
    return partition != NULL && ps_partition_reset(partition) ? 0 : EFAULT;
}

int ps_mallctl_write_arena_destroy(const size_t *indexes, uint64_t value) {
    (void)value;
    size_t arena = indexes[0];
    int error = check(indexes);
    if (error != 0) {
        return error;
    }
    struct ps_partition *partition = ps_mallctl_partition(arena);
    /* acq_rel: of two threads one destroys it. */
    if (partition == NULL || !ps_cas_strong_acq_rel(&x_arenas[arena], &partition, NULL)) {
        return EFAULT;
    }
    ps_store_relaxed(&x_dss[arena], (uint8_t)0); /* relaxed: a note */
    return ps_partition_destroy(partition) ? 0 : EFAULT;
}

/* ---- states ---- */

int ps_mallctl_read_arena_is(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    size_t arena = indexes[0];
    *value = arena == 0 || ps_mallctl_is_all(arena) || ps_mallctl_partition(arena) != NULL;
    return check(indexes);
}

int ps_mallctl_read_arena_count(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    (void)indexes;
    *value = ps_mallctl_arena_end();
    return 0;
}

static const char *const dss_words[] = {"disabled", "primary", "secondary"};
#define DSS_WORDS (sizeof dss_words / sizeof dss_words[0])

/* That of all is arena 0's. */
static uint8_t *dss_of(size_t arena) { return &x_dss[arena < ARENAS_MOST ? arena : 0]; }

int ps_mallctl_read_arena_dss(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    *value = (uintptr_t)dss_words[ps_load_relaxed(dss_of(indexes[0]))]; /* relaxed: a note */
    return check(indexes);
}

int ps_mallctl_write_arena_dss(const size_t *indexes, uint64_t value) {
    const char *text = (const char *)(uintptr_t)value;
    for (uint8_t i = 0; i < DSS_WORDS && text != NULL; i++) {
        if (strcmp(text, dss_words[i]) == 0) {
            ps_store_relaxed(dss_of(indexes[0]), i); /* relaxed: a note */
            return 0;
        }
    }
    return EINVAL;
}
