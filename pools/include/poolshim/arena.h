/* SPDX-License-Identifier: MIT */
/*
 * arena.h - a heap in a file, that outlives the process and its crashes.
 *
 * The file is mapped; blocks are allocated, written and freed in memory as in any heap. Nothing
 * reaches the file until ps_arena_commit, which makes all changes durable at once. A process that
 * is killed at any moment, also during a commit, loses only its uncommitted changes: the next one
 * opens the file in the state of the last commit. Another process may open it at another address,
 * so blocks refer to each other by offsets, not by pointers.
 *
 *     struct ps_arena *arena;
 *     enum ps_arena_status status = ps_arena_open(&arena, "counts.arena", PS_ARENA_CREATE, NULL);
 *     if (status != PS_ARENA_OK) {
 *         fprintf(stderr, "counts.arena: %s\n", ps_arena_explain(status));
 *         return 1;
 *     }
 *     struct counts *counts = ps_arena_at(arena, ps_arena_root(arena));
 *     if (counts == NULL) {
 *         counts = ps_arena_alloc(arena, sizeof *counts);
 *         *counts = (struct counts){0};
 *         ps_arena_set_root(arena, ps_arena_offset(arena, counts));
 *     }
 *     counts->starts++;
 *     status = ps_arena_commit(arena);
 *     ps_arena_close(arena);
 *
 * The whole of it is in pools/examples/arena.c.
 *
 * Guarantees when the process ends in any way (kill -9, a crash, exit without close):
 *   - a commit that has returned PS_ARENA_OK is in the file;
 *   - a commit under way is in the file as a whole or not at all;
 *   - later changes are lost, allocations and the root included.
 * Guarantees when the system stops (power cut, kernel crash):
 *   - with PS_ARENA_SYNC the same. A commit then calls fdatasync up to three times;
 *   - without it commits may be lost, and since the system writes pages in any order, the file may
 *     be a mixture; PS_ARENA_VERIFY finds that. The disk must preserve all writes before an
 *     fdatasync; it may tear writes under way. If the very first header of a new file is torn, the
 *     file is refused; it was still empty.
 *
 * Beside the file lies its journal, <file>-journal, from the first commit until a close without
 * open readers. If it is there, it belongs to the file: copy both or neither. A journal of another
 * file is refused.
 *
 * Opening checks version, byte order, length and the sums of header and journal, and changes
 * nothing until all are right. One of two damaged headers makes it read everything, as
 * PS_ARENA_VERIFY does, since the damage may be more than a torn write. With PS_ARENA_VERIFY any
 * damaged byte is found. Sums are for accidents, not for attackers.
 *
 * One writer at a time, by a lock on the file that ends with the process; any number of readers,
 * other processes too. A reader sees the last commit from when it opened (or called
 * ps_arena_refresh) and nothing later; it blocks only while a commit copies its pages into place,
 * and the writer never blocks on readers. But while a reader is open, each commit writes all pages
 * changed since the reader opened: read and close, or refresh.
 *
 * Threads: one at a time per arena. fork: the child may read committed contents; a commit in it is
 * refused; the writer's lock lasts until both have closed. Do not truncate or write the file.
 *
 * Cost in memory: as tlsf.h: 8 bytes for each block, blocks of multiples of 16, smallest 24 for the
 * caller; 10 KiB for the heap's record. alloc and free O(1). A commit is O(changed pages), each is
 * read once and written twice, and 8 bytes per page of the arena that the kernel must report
 * (/proc/self/pagemap; without it every page is compared with the file).
 *
 * Misuse detected: a second free and pointers that are no blocks, as in tlsf.h; they abort, and the
 * file contains the last commit. PS_DEBUG=malloc does not apply: blocks must lie in the file.
 *
 * The heap is TLSF (Masmano et al. 2004) over offsets. Private mapping with a journal of pages: as
 * in failure-atomic msync (Park, Kelly, Shen 2013); the journal's batch and the alternating
 * headers are those of database practice (LMDB, SQLite's write-ahead log).
 */
#ifndef POOLSHIM_ARENA_H
#define POOLSHIM_ARENA_H

#include <poolshim/offset.h>
#include <poolshim/source.h>

PS_BEGIN_DECLS

struct ps_arena;

/* The start of every struct ps_arena, for the inline functions. Read only. */
struct ps_arena_view {
    char *base;
    size_t bytes;
};

enum ps_arena_status {
    PS_ARENA_OK = 0,
    PS_ARENA_SYSTEM,    /* the system refused: see errno */
    PS_ARENA_LOCKED,    /* another writer has the file open */
    PS_ARENA_FOREIGN,   /* not an arena, or of a machine of another byte order */
    PS_ARENA_NEWER,     /* of a later version of this library */
    PS_ARENA_TRUNCATED, /* the file is shorter than its last commit */
    PS_ARENA_CORRUPT,   /* a sum is wrong, or the journal is missing */
    PS_ARENA_EMPTY,     /* for readers: nothing has been committed yet */
    PS_ARENA_READ_ONLY, /* opened with PS_ARENA_READ */
    PS_ARENA_FORKED,    /* opened by the parent process */
};

enum ps_arena_flags {
    PS_ARENA_CREATE = 1,  /* makes the file if there is none, or an empty one */
    PS_ARENA_READ = 2,    /* a reader; memory is read-only */
    PS_ARENA_SYNC = 4,    /* commits outlast a power cut */
    PS_ARENA_VERIFY = 8,  /* reads all contents and checks their sum; O(file) */
    PS_ARENA_COMPARE = 16 /* finds changed pages by comparing them, without /proc */
};

/* All zero is the default. */
struct ps_arena_options {
    struct ps_chunk_options chunks; /* for the library's own record and lists, not for blocks */
    size_t initial_bytes;           /* of a new file; 0: 64 KiB */
    size_t max_bytes;               /* the file never grows beyond; 0: no limit */
    size_t reserve_bytes;           /* addresses that the arena may grow into without moving; 0: 64
                                       GiB, 64 MiB under memcheck, less where the system refuses */
};

/* The meaning of a status, in English. Never NULL. */
PS_API const char *ps_arena_explain(enum ps_arena_status status) PS_NOEXCEPT;

/*
 * Opens an arena. arena: receives it, or NULL. path: of a regular file; symbolic links are
 * followed. flags: of ps_arena_flags. options: NULL for the defaults, not retained. On failure
 * nothing is open, and an existing file is unchanged. O(1), O(pages of the last commit) after a
 * process that did not close, O(file) with PS_ARENA_VERIFY.
 */
PS_API enum ps_arena_status ps_arena_open(struct ps_arena **arena, const char *path, unsigned flags,
                                          const struct ps_arena_options *options) PS_NOEXCEPT;

/* Drops uncommitted changes, and closes. All pointers into the arena become invalid. NULL does
 * nothing. Preserves errno. */
PS_API void ps_arena_close(struct ps_arena *arena) PS_NOEXCEPT;

/*
 * Makes the present contents durable. PS_ARENA_SYSTEM: not committed; when the disk is full
 * (ENOSPC) memory is as it was and the commit may be tried again; when the failure came too late to
 * tell (EIO), all further commits are refused with EIO, and opening again shows which state the
 * file has.
 */
PS_API enum ps_arena_status ps_arena_commit(struct ps_arena *arena) PS_NOEXCEPT;

/* Back to the last commit: every byte, allocation and the root. Growth since then is undone.
 * PS_ARENA_SYSTEM: the journal cannot be read; the arena can only be closed. */
PS_API enum ps_arena_status ps_arena_rollback(struct ps_arena *arena) PS_NOEXCEPT;

/* For readers: forward to the last commit. Pointers into the arena become invalid if its base
 * changes. Any status of opening; after a failure only ps_arena_close and another try are
 * allowed. */
PS_API enum ps_arena_status ps_arena_refresh(struct ps_arena *arena) PS_NOEXCEPT;

/* The number of the commit that this process sees; a writer's own changes are not counted. */
PS_API uint64_t ps_arena_sequence(const struct ps_arena *arena) PS_NOEXCEPT;

/*
 * A block of at least `bytes`, aligned to 16, contents not defined. bytes 0: a block of its own.
 * Grows the file by doubling it, as long as it need not move. NULL: ENOMEM (also beyond max_bytes
 * or the reserved addresses), EROFS for readers; nothing has changed. O(1), or one ftruncate.
 */
PS_API PS_OFFSET_FRESH void *ps_arena_alloc(struct ps_arena *arena, size_t bytes) PS_NOEXCEPT;

/* The same at a multiple of align: a power of two up to 4096, else NULL and EINVAL. */
PS_API PS_OFFSET_FRESH void *ps_arena_alloc_aligned(struct ps_arena *arena, size_t bytes,
                                                    size_t align) PS_NOEXCEPT;

/* As realloc, but bytes 0 gives the smallest block. In place where there is room. NULL: the old
 * block is as it was. Aligned to 16 when it moves. */
PS_API PS_OFFSET_FRESH void *ps_arena_realloc(struct ps_arena *arena, void *payload,
                                              size_t bytes) PS_NOEXCEPT;

/* payload: a block of this arena, or NULL, which does nothing. O(1). Preserves errno. */
PS_API void ps_arena_free(struct ps_arena *arena, void *payload) PS_NOEXCEPT;

/* Bytes that may be used of a block; 0 for NULL. */
PS_API size_t ps_arena_usable_size(const struct ps_arena *arena, const void *payload) PS_NOEXCEPT;

/*
 * Makes the file and the arena at least `bytes` long. Moves the arena if it does not fit the
 * reserved addresses: pointers into it become invalid, offsets remain valid. False and errno:
 * nothing has changed. The new length is durable from the next commit.
 */
PS_API bool ps_arena_extend(struct ps_arena *arena, size_t bytes) PS_NOEXCEPT;

/* The offset from which everything else is found; 0 in a new arena. Part of a commit. */
PS_API ps_offset ps_arena_root(const struct ps_arena *arena) PS_NOEXCEPT;
PS_API void ps_arena_set_root(struct ps_arena *arena, ps_offset root) PS_NOEXCEPT;

/* The heap's heads, lists and bits: NULL when they agree, else a description of the error.
 * O(blocks). */
PS_API const char *ps_arena_check(const struct ps_arena *arena) PS_NOEXCEPT;

struct ps_arena_stats {
    size_t file_bytes; /* the arena's length */
    size_t used_count; /* blocks */
    size_t used_bytes; /* usable, of used blocks */
    size_t free_count;
    size_t free_bytes;
    size_t largest_free_bytes;
    size_t pending_pages; /* of the last commit, not yet in place because of readers */
};
/* O(blocks). */
PS_API void ps_arena_stats(const struct ps_arena *arena, struct ps_arena_stats *stats) PS_NOEXCEPT;

/* The address of an offset; NULL for 0. Valid until the arena moves (extend, refresh) or closes. */
static inline void *ps_arena_at(const struct ps_arena *arena, ps_offset offset) {
    const struct ps_arena_view *view = (const struct ps_arena_view *)(const void *)arena;
    return offset == 0 ? NULL : (void *)(view->base + offset);
}

/* The offset of an address in the arena; 0 for NULL. */
static inline ps_offset ps_arena_offset(const struct ps_arena *arena, const void *pointer) {
    const struct ps_arena_view *view = (const struct ps_arena_view *)(const void *)arena;
    return pointer == NULL ? 0 : (ps_offset)((const char *)pointer - view->base);
}

/* True when the address lies in the arena. */
static inline bool ps_arena_owns(const struct ps_arena *arena, const void *pointer) {
    const struct ps_arena_view *view = (const struct ps_arena_view *)(const void *)arena;
    return (uintptr_t)pointer - (uintptr_t)view->base < view->bytes;
}

/* PS_ARENA_AT(arena, struct counts, offset): with a type. */
#define PS_ARENA_AT(arena, type, offset) PS_CAST(type *, ps_arena_at((arena), (offset)))

PS_END_DECLS

#endif
