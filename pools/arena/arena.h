/* SPDX-License-Identifier: MIT */
/*
 * The inside of a persistent arena. Owner: the files of this folder. No locks but those on the
 * file: one thread at a time per arena.
 *
 * The file is the arena's memory, page by page; its first two pages contain the two headers, then
 * the heap begins. The process maps it privately: the program's writes go to private copies of
 * pages until a commit. A commit writes the changed pages as one batch into the journal beside the
 * file, then a header that names the batch: this write commits. Then it copies the pages to their
 * places in the file.
 *
 *   the committed state == the file's pages, with those of the header's batch in their places
 *   the newest sound header counts; a header is written over the older one
 *   a batch is never written over the batch of the newest header
 *   the file's pages change only under the view lock, and only to what the newest header's batch
 *   has
 *
 * So pages do not change while a reader has the view lock; the reader copies the batch over them. A
 * writer that does not get the view lock leaves the batch pending; the next batch then has all
 * pages in which memory and file differ, and again one batch is enough.
 */
#ifndef PS_ARENA_ARENA_H
#define PS_ARENA_ARENA_H

#include "pools/common/chunk.h"
#include "pools/engine/base/compiler.h"

#include <limits.h>
#include <poolshim/arena.h>
#include <sys/types.h>

enum {
    ARENA_PAGE = 4096, /* the unit of batches, whatever the system's page is */
    ARENA_HEADER_PAGES = 2,
    ARENA_HEAP = ARENA_HEADER_PAGES * ARENA_PAGE, /* where the heap's record is */
    ARENA_VERSION = 1,
    ARENA_BYTE_ORDER = 0x01020304,
};

/* In the file. All integers as the processor has them. */
struct arena_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint64_t identity; /* of the file, random; by it journals of other files are refused */
    uint64_t edition;  /* of the header; its lowest bit says in which page it is */
    uint64_t sequence; /* commits so far; 0: nothing is committed */
    uint64_t bytes;    /* of the arena, from the start of the file */
    uint64_t contents_sum;
    uint64_t batch_offset; /* in the journal */
    uint64_t batch_pages;  /* 0: no batch */
    uint64_t batch_sum;
    uint64_t sum; /* of all above */
};
_Static_assert(sizeof(struct arena_header) == 88, "the file's layout");

/* Page numbers, ascending. */
struct page_list {
    uint64_t *numbers;
    size_t count;
    size_t chunk_bytes;
};

struct ps_arena {
    struct ps_arena_view view; /* first: the inline functions know it */
    size_t mapped_bytes;       /* addresses; the arena grows into them */
    size_t max_bytes;
    unsigned flags;
    pid_t owner_pid; /* a child after fork may read, not commit */
    int file_fd;
    int journal_fd;         /* -1: not open */
    int pagemap_fd;         /* -1: pages are compared */
    bool is_pending;        /* the batch of `committed` is not in its places */
    bool is_broken;         /* what the last commit left in the file is not known */
    bool is_directory_safe; /* the journal's name will outlast a power cut */
    bool is_file_dirty;     /* pages in their places that the next header relies on may not outlast
                               a power cut */
    struct arena_header committed;
    struct page_list changed; /* of the commit under way, then scratch */
    struct page_list pending; /* of the pending batch */
    struct ps_chunks chunks;  /* of the two lists and of this */
    size_t chunk_bytes;
    char journal_path[PATH_MAX + 16];
};

/* sum.c: 64 bits of any bytes; not 0 for a page that is not all zero. */
uint64_t ps_arena_sum(const void *bytes, size_t count, uint64_t seed);

/* sum.c: what a page adds to contents_sum; 0 for a page of zeros. The sum does not depend on the
 * order, so a commit changes it by its own pages only. */
uint64_t ps_arena_page_sum(const void *page, uint64_t number);

/* sum.c: over the whole view. */
uint64_t ps_arena_contents_sum(const struct ps_arena *arena);

/* file.c: all of it, or false and errno. */
bool ps_arena_write(int fd, const void *bytes, size_t count, uint64_t offset);

/* file.c: as many bytes as the file has, at most count, then zeros; false and errno when it cannot
 * be read. */
bool ps_arena_read(int fd, void *bytes, size_t count, uint64_t offset);

enum arena_lock {
    ARENA_LOCK_WRITER, /* of the writer, as long as it has the file open */
    ARENA_LOCK_VIEW,   /* shared by readers while they read; the writer's while it puts a batch
                          in its places */
};
/* file.c: type: F_RDLCK, F_WRLCK, F_UNLCK. */
bool ps_arena_lock(int fd, enum arena_lock lock, short type, bool is_waiting);

/* file.c: opens the journal, making it if the arena writes. False and errno. */
bool ps_arena_open_journal(struct ps_arena *arena);

/* header.c: the newest sound header. *is_damaged: the other one is neither sound nor empty, so
 * contents must be verified. */
enum ps_arena_status ps_arena_pick_header(int fd, struct arena_header *header, bool *is_damaged);

/* header.c: seals and writes it into its page. */
bool ps_arena_write_header(int fd, struct arena_header *header);

/* batch.c: the batch of `committed` into the view's memory, and its numbers into `pending`. */
enum ps_arena_status ps_arena_load_batch(struct ps_arena *arena);

/* batch.c: the changed pages as a batch into the journal, where it harms no other; fills the three
 * batch fields of the header. */
bool ps_arena_write_batch(struct ps_arena *arena, struct arena_header *header);

/* batch.c: one page as it is committed. */
bool ps_arena_read_committed(struct ps_arena *arena, uint64_t number, size_t *pending_index,
                             void *page);

/* batch.c: `pending` into the file's pages, if no reader has the view lock. False: pending. */
bool ps_arena_apply(struct ps_arena *arena);

/* pages.c: fills `changed` with the pages whose memory is not the file's. */
bool ps_arena_find_changed(struct ps_arena *arena);

/* pages.c: appends. False and ENOMEM. */
bool ps_arena_list_page(struct ps_arena *arena, struct page_list *list, uint64_t number);
void ps_arena_drop_list(struct ps_arena *arena, struct page_list *list);

/* pages.c: drops the process's own copies of pages: they are the file's again, or as the file's
 * where the system drops none. False and errno: the file cannot be read. */
bool ps_arena_forget(struct ps_arena *arena, size_t offset, size_t bytes);

/* The pages of a run of adjacent numbers from `from` on. */
static inline size_t ps_arena_run(const struct page_list *list, size_t from) {
    size_t count = 1;
    while (from + count < list->count &&
           list->numbers[from + count] == list->numbers[from] + count) {
        count++;
    }
    return count;
}

/* open.c: as committed, from the file and the journal: header, memory, length. */
enum ps_arena_status ps_arena_load(struct ps_arena *arena, bool is_verified);

/* open.c: room for `bytes` of addresses; moves the view if it must and may. */
bool ps_arena_map(struct ps_arena *arena, size_t bytes);

/* heap.c: an empty heap of the view's length; longer, after the view has grown. */
void ps_arena_heap_format(struct ps_arena *arena);
void ps_arena_heap_extend(struct ps_arena *arena);

#endif
