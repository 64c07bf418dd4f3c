/* SPDX-License-Identifier: MIT */
/*
 * shared.h - a heap in shared memory: any process that has it open allocates, and any frees.
 *
 * The heap is a file, usually in /dev/shm, or a descriptor of memfd_create. Each process maps it at
 * an address of its own, so blocks refer to each other by offsets or links (offset.h). Names
 * lead to the first ones. When a process is killed at any instruction, the others notice at
 * their next call, undo the call that it was in, and go on.
 *
 *     struct ps_shared *heap;
 *     enum ps_shared_status status;
 *     status = ps_shared_open(&heap, "/dev/shm/jobs", PS_SHARED_CREATE, NULL);
 *     if (status != PS_SHARED_OK) {
 *         fprintf(stderr, "/dev/shm/jobs: %s\n", ps_shared_explain(status));
 *         return 1;
 *     }
 *     struct jobs *jobs = ps_shared_at(heap, ps_shared_root(heap, "jobs"));
 *     if (jobs == NULL) {
 *         struct jobs *fresh = ps_shared_zalloc(heap, sizeof *fresh);
 *         ps_offset won = ps_shared_claim_root(heap, "jobs", ps_shared_offset(heap, fresh));
 *         if (won != ps_shared_offset(heap, fresh)) {
 *             ps_shared_free(heap, fresh);               // another process was first
 *         }
 *         jobs = ps_shared_at(heap, won);
 *     }
 *     ps_shared_close(heap);
 *
 * The whole of it is in pools/examples/shared.c.
 *
 * Guarantees when a process that has the heap open ends in any way (kill -9, a crash, exit):
 *   - the heap is whole, and no call of another process fails or blocks forever because of it;
 *   - each of its calls takes effect completely or not at all;
 *   - its blocks remain allocated: they belong to the program, which can find them by its own
 *     records;
 *   - it leaks at most one block for each of its threads: alloc had returned the block and the
 *     program had not recorded it, or the program had dropped its record and free had not run.
 *     realloc counts as both. ps_shared_alloc_into and ps_shared_free_from change a record in the
 *     heap in the same step, so they leak none.
 * The contents of blocks are not repaired. Locks that the program places in the heap should be
 * robust, too (PTHREAD_MUTEX_ROBUST).
 *
 * The guarantees need the kernel's list of robust locks, so all processes must be of one PID
 * namespace, and of one C library. They do not cover a restart of the system: a heap in a file on a
 * disk is refused after it. Place the heap in /dev/shm, or use arena.h.
 *
 * Processes trust each other: a stray write by one can damage the heap for all. Every build detects
 * a second free until the memory is allocated again, and pointers that are no blocks; the process
 * aborts, and the heap remains usable for the others. A file that is truncated while it is open
 * ends processes by SIGBUS; seal a memfd by F_SEAL_SHRINK against that. PS_DEBUG does not apply:
 * blocks must lie in the file.
 *
 * Threads: any, at any time, of all processes; not in signal handlers. One lock for the heap, for
 * O(1); a process that is stopped inside it (SIGSTOP) blocks the others. The child of a fork may
 * use the heap at once.
 *
 * Cost in memory: as tlsf.h: 8 bytes for each block, blocks of multiples of 16, smallest 24 for the
 * caller; 20 KiB for the heap's own record. The file grows when nothing fits, by an eighth or
 * 64 KiB at least, up to max_bytes; its memory is taken from the system at once (fallocate), so
 * that no write to a block ends by SIGBUS when there is none left. It never shrinks.
 *
 * The heap is TLSF (Masmano et al. 2004) over offsets, with an undo log beside it, as in the
 * recovery of databases.
 */
#ifndef POOLSHIM_SHARED_H
#define POOLSHIM_SHARED_H

#include <poolshim/offset.h>
#include <poolshim/source.h>

PS_BEGIN_DECLS

#define PS_SHARED_NAMES_MAX 128 /* names of a heap */
#define PS_SHARED_NAME_MAX 55   /* bytes of one, without its end */
#define PS_SHARED_LEAST_BYTES (PS_CAST(size_t, 64) << 10)

struct ps_shared;

/* The start of every struct ps_shared, for the inline functions. Read only. */
struct ps_shared_view {
    char *base;
    size_t bytes; /* addresses: the heap may grow into all of them */
};

enum ps_shared_status {
    PS_SHARED_OK = 0,
    PS_SHARED_SYSTEM,    /* the system refused: see errno */
    PS_SHARED_EMPTY,     /* the file is empty, or its creation was not finished */
    PS_SHARED_FOREIGN,   /* not a shared heap, or of another machine or C library */
    PS_SHARED_VERSION,   /* of another version of this library */
    PS_SHARED_TRUNCATED, /* the file is shorter than the heap */
    PS_SHARED_CORRUPT,   /* the header is damaged */
    PS_SHARED_STALE,     /* made before the system was started the last time */
};

enum ps_shared_flags {
    PS_SHARED_CREATE = 1, /* makes the file if there is none, and a heap if it is empty */
    PS_SHARED_READ = 2    /* a reader; memory is read-only */
};

/* All zero is the default. */
struct ps_shared_options {
    struct ps_chunk_options chunks; /* for the library's own record, not for blocks */
    size_t initial_bytes;           /* of a new heap; 0: 64 KiB */
    size_t max_bytes; /* the heap never grows beyond; stored in a new heap; 0: 1 GiB. Every process
                         reserves as many addresses. */
};

/* The meaning of a status, in English. Never NULL. */
PS_API const char *ps_shared_explain(enum ps_shared_status status) PS_NOEXCEPT;

/*
 * Opens a heap. heap: receives it, or NULL. path: of a regular file. flags: of ps_shared_flags, not
 * both. options: NULL for the defaults, not retained; lengths matter to the process that makes the
 * heap only: at least 64 KiB, max_bytes not below initial_bytes, else PS_SHARED_SYSTEM and EINVAL.
 * When processes create at once, one makes the heap and the others block until then; if it is
 * killed meanwhile, the file is empty. A file that is no heap is not changed. O(1).
 */
PS_API enum ps_shared_status ps_shared_open(struct ps_shared **heap, const char *path,
                                            unsigned flags,
                                            const struct ps_shared_options *options) PS_NOEXCEPT;

/* The same by a descriptor of memfd_create or of an open file, which is duplicated. */
PS_API enum ps_shared_status ps_shared_open_fd(struct ps_shared **heap, int fd, unsigned flags,
                                               const struct ps_shared_options *options) PS_NOEXCEPT;

/* Unmaps the heap in this process; it continues in others, and in the file until that is removed.
 * All pointers into it become invalid. NULL does nothing. Preserves errno. */
PS_API void ps_shared_close(struct ps_shared *heap) PS_NOEXCEPT;

/*
 * A block of at least `bytes`, aligned to 16, contents not defined. bytes 0: a block of its own.
 * NULL: ENOMEM (also beyond max_bytes, or when the system has no memory for the file), EROFS for
 * readers; nothing has changed. O(1), or one fallocate, without the lock.
 */
PS_API PS_OFFSET_FRESH void *ps_shared_alloc(struct ps_shared *heap, size_t bytes) PS_NOEXCEPT;

/* The same, zeroed. */
PS_API PS_OFFSET_FRESH void *ps_shared_zalloc(struct ps_shared *heap, size_t bytes) PS_NOEXCEPT;

/* The same as ps_shared_alloc at a multiple of align: a power of two up to 4096, else NULL and
 * EINVAL. */
PS_API PS_OFFSET_FRESH void *ps_shared_alloc_aligned(struct ps_shared *heap, size_t bytes,
                                                     size_t align) PS_NOEXCEPT;

/* As realloc, but bytes 0 gives the smallest block. In place where there is room. NULL: the old
 * block is as it was. Aligned to 16 when it moves. */
PS_API PS_OFFSET_FRESH void *ps_shared_realloc(struct ps_shared *heap, void *payload,
                                               size_t bytes) PS_NOEXCEPT;

/* The same for a result at a multiple of align: a power of two up to 4096, else NULL and EINVAL. In
 * place if the block is so aligned already. */
PS_API PS_OFFSET_FRESH void *ps_shared_realloc_aligned(struct ps_shared *heap, void *payload,
                                                       size_t bytes, size_t align) PS_NOEXCEPT;

/* payload: a block of this heap, or NULL, which does nothing. O(1). Preserves errno. */
PS_API void ps_shared_free(struct ps_shared *heap, void *payload) PS_NOEXCEPT;

/*
 * As ps_shared_alloc, and stores the block's offset in *place in the same step: whenever the
 * process is killed, either there is no block or *place leads to it. place: a word in a block of
 * this heap, which is 0 and which no other thread uses meanwhile. NULL and EINVAL: it is not 0.
 */
PS_API void *ps_shared_alloc_into(struct ps_shared *heap, size_t bytes,
                                  ps_offset *place) PS_NOEXCEPT;

/* Stores 0 in *place and frees the block that it led to, in one step; 0 does nothing. place: as
 * above. Preserves errno. */
PS_API void ps_shared_free_from(struct ps_shared *heap, ps_offset *place) PS_NOEXCEPT;

/* Bytes that may be used of a block; 0 for NULL. */
PS_API size_t ps_shared_usable_size(struct ps_shared *heap, const void *payload) PS_NOEXCEPT;

/*
 * The offset of a name; 0: none. name: 1 to 55 bytes, others have none. The block's contents at the
 * time it was named are visible after this. No lock; for readers, too. O(names).
 */
PS_API ps_offset ps_shared_root(const struct ps_shared *heap, const char *name) PS_NOEXCEPT;

/*
 * Sets the offset of a name, 0 for none, by one store. False: EINVAL for a name that is empty or
 * too long, ENOSPC when 128 names were used in this heap (names are not dropped), EROFS for
 * readers.
 */
PS_API bool ps_shared_set_root(struct ps_shared *heap, const char *name,
                               ps_offset offset) PS_NOEXCEPT;

/* The same if the name has no offset yet. Returns the name's offset, which is another process's if
 * that was first; 0 and errno: as above. */
PS_API ps_offset ps_shared_claim_root(struct ps_shared *heap, const char *name,
                                      ps_offset offset) PS_NOEXCEPT;

/* Name number 0, 1, ... of the heap; NULL: there are no more. Lasts as long as the heap is open. */
PS_API const char *ps_shared_root_name(const struct ps_shared *heap, size_t number) PS_NOEXCEPT;

/* The heap's heads, lists, bits and counts: NULL when they agree, else a description of the error.
 * Blocks other calls for O(blocks). Readers: checks nothing. */
PS_API const char *ps_shared_check(struct ps_shared *heap) PS_NOEXCEPT;

struct ps_shared_stats {
    const char *name;
    size_t max_bytes;
    size_t total_bytes;    /* the heap's length, its own record included */
    size_t used_count;     /* blocks */
    size_t used_bytes;     /* usable, of used blocks */
    size_t free_bytes;     /* of all free blocks with their heads, and of the heads of used ones */
    size_t fitting_bytes;  /* a request of this length succeeds without growth; 0 for readers */
    size_t name_count;     /* of roots */
    size_t recovery_count; /* calls undone or ended for killed processes */
};
/* A moment's figures; for readers each of a moment of its own. O(1). */
PS_API void ps_shared_stats(struct ps_shared *heap, struct ps_shared_stats *stats) PS_NOEXCEPT;

/* The address of an offset; NULL for 0. Valid until the heap is closed. */
static inline void *ps_shared_at(const struct ps_shared *heap, ps_offset offset) {
    const struct ps_shared_view *view = (const struct ps_shared_view *)(const void *)heap;
    return offset == 0 ? NULL : (void *)(view->base + offset);
}

/* The offset of an address in the heap; 0 for NULL. */
static inline ps_offset ps_shared_offset(const struct ps_shared *heap, const void *pointer) {
    const struct ps_shared_view *view = (const struct ps_shared_view *)(const void *)heap;
    return pointer == NULL ? 0 : (ps_offset)((const char *)pointer - view->base);
}

/* True when the address lies in the heap's addresses. */
static inline bool ps_shared_owns(const struct ps_shared *heap, const void *pointer) {
    const struct ps_shared_view *view = (const struct ps_shared_view *)(const void *)heap;
    return (uintptr_t)pointer - (uintptr_t)view->base < view->bytes;
}

/* PS_SHARED_AT(heap, struct jobs, offset): with a type. */
#define PS_SHARED_AT(heap, type, offset) PS_CAST(type *, ps_shared_at((heap), (offset)))

PS_END_DECLS

#endif
