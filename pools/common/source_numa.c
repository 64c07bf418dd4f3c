/* SPDX-License-Identifier: MIT */
/*
 * See source.h: mappings of source_mmap.c whose pages the system takes from chosen NUMA nodes. The
 * two system calls have no function in libc. No locks, no state besides the policy.
 */
#include <poolshim/source.h>

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"

#include <errno.h>

/* From the kernel's uapi/linux/mempolicy.h, which is not installed everywhere. */
#define MODE_PREFERRED 1
#define MODE_BIND 2
#define MODE_INTERLEAVE 3
#define MODE_LOCAL 4
#define ALLOWED_NODES 4 /* flag of get_mempolicy: MPOL_F_MEMS_ALLOWED */

#define NODE_WORDS 64 /* of a mask: 4096 nodes; no kernel has more than 1024 */

static int mode_of(enum ps_numa_policy policy, uint64_t nodes) {
    switch (policy) {
    case PS_NUMA_BIND:
        return nodes != 0 ? MODE_BIND : -1;
    case PS_NUMA_PREFERRED:
        return nodes == 0 ? MODE_LOCAL : ps_is_power_of_two(nodes) ? MODE_PREFERRED : -1;
    case PS_NUMA_INTERLEAVE:
        return nodes != 0 ? MODE_INTERLEAVE : -1;
    }
    return -1;
}

/* Applies the policy to the pages of a chunk that none has touched. Returns 0 or an errno. */
static int apply(const struct ps_source_numa *own, const void *chunk, size_t bytes) {
    size_t page = ps_os_page_bytes();
    uintptr_t first = ps_round_down((uintptr_t)chunk, page);
    uintptr_t end = ps_round_up((uintptr_t)chunk + ps_max(bytes, 1), page);
    bool has_nodes = own->mode != MODE_LOCAL;
    /* The kernel reads one bit less than its argument says. */
    long result = ps_syscall6(SYS_mbind, (long)first, (long)(end - first), own->mode,
                              (long)(has_nodes ? &own->nodes : NULL), has_nodes ? 64 + 1 : 0, 0);
    return ps_syscall_failed(result) ? (int)-result : 0;
}

static void *numa_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct ps_source_numa *own = (struct ps_source_numa *)source;
    struct ps_source *mappings = &own->mappings.source;
    if (own->mode < 0) {
        errno = ENOMEM;
        return NULL;
    }
    void *chunk = mappings->alloc(mappings, bytes, align);
    if (chunk != NULL && apply(own, chunk, bytes) != 0) {
        mappings->free(mappings, chunk, bytes);
        errno = ENOMEM;
        return NULL;
    }
    return chunk;
}

static void numa_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct ps_source *mappings = &((struct ps_source_numa *)source)->mappings.source;
    mappings->free(mappings, chunk, bytes);
}

/* The nodes of 0 to 63, or an errno. */
static int allowed_nodes(uint64_t *nodes) {
    uint64_t mask[NODE_WORDS] = {0};
    long result =
        ps_syscall6(SYS_get_mempolicy, 0, (long)mask, (long)NODE_WORDS * 64, 0, ALLOWED_NODES, 0);
    *nodes = mask[0];
    return ps_syscall_failed(result) ? (int)-result : 0;
}

bool ps_source_numa_init(struct ps_source_numa *source, enum ps_numa_policy policy, uint64_t nodes,
                         unsigned flags) {
    *source = (struct ps_source_numa){.source = {numa_alloc, numa_free}, .mode = -1};
    ps_source_mmap_init(&source->mappings, flags);
    struct ps_source_numa wanted = *source;
    wanted.mode = mode_of(policy, nodes);
    wanted.nodes = nodes;
    uint64_t allowed;
    int error = wanted.mode < 0 ? EINVAL : allowed_nodes(&allowed);
    if (error == 0 && (nodes & ~allowed) != 0) {
        error = EINVAL;
    }
    if (error == 0) {
        int saved_errno = errno;
        struct ps_source *mappings = &source->mappings.source;
        void *probe = mappings->alloc(mappings, 1, 1);
        error = probe == NULL ? ENOMEM : apply(&wanted, probe, 1);
        if (probe != NULL) {
            mappings->free(mappings, probe, 1);
        }
        errno = saved_errno;
    }
    if (error != 0) {
        errno = error;
        return false;
    }
    *source = wanted;
    return true;
}

uint64_t ps_numa_nodes(void) {
    uint64_t nodes;
    int error = allowed_nodes(&nodes);
    if (error != 0) {
        errno = error;
        return 0;
    }
    return nodes;
}
