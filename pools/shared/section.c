/* SPDX-License-Identifier: MIT */
/*
 * The lock of a shared heap and the repair of sections that were cut short. See shared.h. Callers:
 * the other files of this folder.
 */
#include "pools/common/debug.h"
#include "pools/shared/shared.h"

#include <errno.h>

int ps_shared_lock_init(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    int result = pthread_mutexattr_init(&attributes);
    if (result != 0) {
        return result;
    }
    result = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (result == 0) {
        result = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    }
    if (result == 0) {
        result = pthread_mutex_init(lock, &attributes);
    }
    pthread_mutexattr_destroy(&attributes);
    return result;
}

/* Newest first. Entries are dropped only after all are stored again: if the process is killed
 * meanwhile, the next one repeats this. */
static void roll_back(struct ps_shared *heap) {
    struct shared_header *header = shared_header(heap);
    for (uint64_t i = header->log.count; i-- > 0;) {
        uint64_t place = header->log.entries[i].place;
        if (i >= PS_OFFSET_LOG_ROOM || place % sizeof(uint64_t) != 0 ||
            place > heap->view.bytes - sizeof(uint64_t)) {
            ps_debug_misuse("overwritten log at", &header->log, heap->chunks.name);
        }
        *(uint64_t *)(void *)(heap->view.base + place) = header->log.entries[i].before;
    }
    ps_fence_program_order(); /* all words are stored before the log is emptied */
    header->log.count = 0;
    ps_fence_program_order();
    header->recovery_count++;
}

struct ps_offset_memory ps_shared_enter(struct ps_shared *heap) {
    struct shared_header *header = shared_header(heap);
    int result = pthread_mutex_lock(&header->lock);
    if (PS_UNLIKELY(result == EOWNERDEAD)) {
        roll_back(heap);
        result = pthread_mutex_consistent(&header->lock);
    }
    if (PS_UNLIKELY(result != 0)) {
        ps_debug_misuse("overwritten lock at", &header->lock, heap->chunks.name);
    }
    return (struct ps_offset_memory){heap->view.base, &header->heap, &header->log};
}

void ps_shared_leave(struct ps_shared *heap) {
    struct shared_header *header = shared_header(heap);
    ps_fence_program_order(); /* all changes are stored before the log is emptied */
    header->log.count = 0;
    (void)pthread_mutex_unlock(&header->lock); /* this thread has it: cannot fail */
}
