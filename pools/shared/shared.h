/* SPDX-License-Identifier: MIT */
/*
 * The inside of a shared heap. Owner: the files of this folder. One lock, in the memory, which all
 * processes take; no other lock and no system call is allowed under it.
 *
 * The memory is the file: the header, then the heap of common/offset_heap.h, which ends where the
 * heap's record says. The file may be longer, when a process was killed between the two steps of
 * growth.
 *
 *   a section: lock, changes that are noted in the log, `count` of the log = 0, unlock
 *   the log's count is 0 whenever no thread, living or dead, has the lock
 *   used_count, used_bytes == those of the heap's used blocks, outside of sections
 *   names [0, x_name_count) are never changed
 *
 * `count` = 0 is the moment at which a section is done. The lock is robust: if its holder has
 * ended, the next one gets it with EOWNERDEAD, stores the noted words again, newest first, and
 * frees the lock for all. The kernel releases the lock of a thread after its last store, which
 * pairs with the acquiring of the next one: that sees all of them.
 */
#ifndef PS_SHARED_SHARED_H
#define PS_SHARED_SHARED_H

#include "pools/common/chunk.h"
#include "pools/common/offset_heap.h"

#include <poolshim/shared.h>
#include <pthread.h>

enum {
    SHARED_VERSION = 1,
    SHARED_PAGE = 4096, /* the unit of growth, whatever the system's page is */
    SHARED_BOOT_BYTES = 40,
};

/* The first word of a file: "psshared" in the order of bytes of this machine; before the heap is
 * finished, "psmaking". */
#define SHARED_MAGIC UINT64_C(0x6465726168737370)
#define SHARED_MAKING UINT64_C(0x676e696b616d7370)

struct shared_name {
    char text[PS_SHARED_NAME_MAX + 1];
    uint64_t x_offset; /* written under the lock */
};

/* The start of the file: what it is. Never changed once the heap is there. All integers as the
 * processor has them. */
struct shared_label {
    uint64_t x_magic; /* written last */
    uint64_t version;
    uint64_t lock_sum; /* of a fresh lock: differs among C libraries */
    uint64_t max_bytes;
    char boot[SHARED_BOOT_BYTES]; /* the system's own mark of its start; all zero: it has none */
    uint64_t sum;                 /* of the fields from version on */
};

/* In the file. */
struct shared_header {
    struct shared_label label;
    pthread_mutex_t lock __attribute__((aligned(64)));
    uint64_t used_count;
    uint64_t used_bytes;
    uint64_t recovery_count;
    uint64_t x_name_count; /* written under the lock, when the name is there */
    struct ps_offset_log log;
    struct shared_name names[PS_SHARED_NAMES_MAX];
    struct ps_offset_heap heap;
};
_Static_assert(sizeof(struct shared_header) <= 20 << 10, "as shared.h says");

struct ps_shared {
    struct ps_shared_view view; /* first: the inline functions know it */
    unsigned flags;
    int fd;
    struct ps_chunks chunks; /* of this */
};

static inline struct shared_header *shared_header(const struct ps_shared *heap) {
    return (struct shared_header *)(void *)heap->view.base;
}

static inline bool shared_is_reader(const struct ps_shared *heap) {
    return (heap->flags & PS_SHARED_READ) != 0;
}

/* section.c: a fresh lock for the header. 0, or an errno. */
int ps_shared_lock_init(pthread_mutex_t *lock);

/* section.c: begins a section, after the repair of one that its process did not end. Preserves
 * errno. Not for readers. */
struct ps_offset_memory ps_shared_enter(struct ps_shared *heap);

/* section.c: makes the section's changes last, and ends it. */
void ps_shared_leave(struct ps_shared *heap);

#endif
