/* SPDX-License-Identifier: MIT */
/*
 * See confirm.h. The functions of the child read plainly: it has no other thread.
 */
#include "pools/engine/heap/confirm.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/os/signals.h"
#include "pools/engine/os/syscall.h"
#include "pools/engine/small/span_remote.h"

#include <errno.h>
#include <sys/wait.h>

static uint32_t x_denials;

/* ---- in the child ---- */

/* Follows at most `blocks` links: the last block of a batch may have a stale one. */
static bool has(const struct ps_span *span, const void *list, size_t blocks, const void *block) {
    for (size_t i = 0; i < blocks && !ps_link_is_end(list) && ps_span_leads_to(span, list); i++) {
        if (list == block) {
            return true;
        }
        list = ps_link_of(list, span->salt);
    }
    return false;
}

static bool span_has(const struct ps_span *span, const void *block) {
    size_t all = ps_span_capacity(span);
    return has(span, span->free, all, block) || has(span, span->stash, all, block) ||
           has(span, ps_span_remote_list(span), all, block);
}

static bool heap_has(const struct ps_heap *heap, const struct ps_span *span, const void *block) {
    for (size_t i = 0; i < PS_REMOTE_ENTRIES; i++) {
        const struct ps_remote_entry *entry = &heap->remote[i];
        if (entry->span == span && has(span, entry->head, entry->count, block)) {
            return true;
        }
    }
    for (size_t i = 0; i < ps_min(heap->singles_count, PS_REMOTE_SINGLES); i++) {
        if (heap->singles[i] == block) {
            return true;
        }
    }
    return false;
}

static bool is_anywhere(const struct ps_span *span, const void *block) {
    if (span_has(span, block)) {
        return true;
    }
    for (struct ps_heap *heap = ps_registry_first(); heap != NULL; heap = heap->next_heap) {
        if (heap_has(heap, span, block)) {
            return true;
        }
    }
    return false;
}

/* ---- in the process ---- */

/* The child's exit status; -1: there was no child, or another thread has collected its status. */
static int await(long child) {
    int status = 0;
    long found;
    do { /* ends: the child does */
        found = ps_syscall6(SYS_wait4, child, (long)&status, __WALL, 0, 0, 0);
    } while (found == -EINTR);
    return found == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

PS_COLD bool ps_confirm_is_listed(const struct ps_span *span, const void *block) {
    if (ps_load_relaxed(&x_denials) >= PS_CONFIRM_DENIALS) { /* relaxed: a count */
        return false;
    }
    uint64_t blocked = ps_signals_block(PS_SIGNALS_ALL); /* handlers are the process's */
    long child = ps_syscall6(SYS_clone, 0, 0, 0, 0, 0, 0);
    if (child == 0) {
        (void)ps_syscall3(SYS_exit_group, is_anywhere(span, block) ? 0 : 1, 0, 0);
        __builtin_trap();
    }
    int answer = child > 0 ? await(child) : -1;
    ps_signals_set_blocked(blocked);
    if (answer != 1) {
        return true;
    }
    ps_add_relaxed(&x_denials, 1u); /* relaxed: as above */
    return false;
}
