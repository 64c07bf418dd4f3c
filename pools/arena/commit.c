/* SPDX-License-Identifier: MIT */
/*
 * Commit, rollback, refresh, growth: the states that an arena goes through. See arena.h.
 */
#include "pools/arena/arena.h"
#include "pools/engine/base/bits.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Adds the changed pages to the sum of the contents. *is_same: they equal the last commit. The
 * system writes whole pages in any case: unchanged ones are dropped from the list, unless the file
 * does not have them yet. */
static bool sum_changes(struct ps_arena *arena, uint64_t *sum, bool *is_same) {
    struct page_list *list = &arena->changed;
    char old[ARENA_PAGE];
    size_t pending_index = 0, kept = 0;
    *is_same = true;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t number = list->numbers[i];
        const char *page = arena->view.base + number * ARENA_PAGE;
        if (!ps_arena_read_committed(arena, number, &pending_index, old)) {
            return false;
        }
        bool is_changed = memcmp(old, page, sizeof old) != 0;
        if (is_changed) {
            *is_same = false;
            *sum += ps_arena_page_sum(page, number) - ps_arena_page_sum(old, number);
        }
        if (is_changed || arena->is_pending) {
            list->numbers[kept++] = number;
        }
    }
    list->count = kept;
    return true;
}

/* Journal, then header: the commit itself. */
static bool make_last(struct ps_arena *arena, struct arena_header *header) {
    bool is_sync = (arena->flags & PS_ARENA_SYNC) != 0;
    if (is_sync && arena->is_file_dirty && fdatasync(arena->file_fd) != 0) {
        return false;
    }
    arena->is_file_dirty = arena->is_file_dirty && !is_sync;
    if (!ps_arena_write_batch(arena, header)) {
        return false;
    }
    if (!ps_arena_write_header(arena->file_fd, header) ||
        (is_sync && fdatasync(arena->file_fd) != 0)) {
        arena->is_broken = true;
        errno = EIO;
        return false;
    }
    return true;
}

static enum ps_arena_status refusal(const struct ps_arena *arena) {
    if ((arena->flags & PS_ARENA_READ) != 0) {
        return PS_ARENA_READ_ONLY;
    }
    if (arena->owner_pid != getpid()) {
        return PS_ARENA_FORKED;
    }
    errno = arena->is_broken ? EIO : errno;
    return arena->is_broken ? PS_ARENA_SYSTEM : PS_ARENA_OK;
}

enum ps_arena_status ps_arena_commit(struct ps_arena *arena) {
    enum ps_arena_status status = refusal(arena);
    if (status != PS_ARENA_OK) {
        return status;
    }
    struct arena_header header = arena->committed;
    bool is_same;
    if (!ps_arena_find_changed(arena) || !sum_changes(arena, &header.contents_sum, &is_same)) {
        return PS_ARENA_SYSTEM;
    }
    if (!is_same || header.bytes != arena->view.bytes) {
        header.edition++;
        header.sequence++;
        header.bytes = arena->view.bytes;
        if (!make_last(arena, &header)) {
            return PS_ARENA_SYSTEM;
        }
        arena->committed = header;
        struct page_list list = arena->pending;
        arena->pending = arena->changed;
        arena->changed = list;
        arena->is_pending = true;
    }
    if (arena->is_pending) {
        ps_arena_apply(arena); /* failure, by readers or a full disk: at the next commit */
    }
    return PS_ARENA_OK;
}

enum ps_arena_status ps_arena_rollback(struct ps_arena *arena) {
    enum ps_arena_status status = refusal(arena);
    if (status != PS_ARENA_OK) {
        return status;
    }
    bool was_pending = arena->is_pending;
    if (!ps_arena_forget(arena, 0, arena->mapped_bytes)) {
        return PS_ARENA_SYSTEM;
    }
    arena->view.bytes = arena->committed.bytes;
    return was_pending ? ps_arena_load_batch(arena) : PS_ARENA_OK;
}

enum ps_arena_status ps_arena_refresh(struct ps_arena *arena) {
    if ((arena->flags & PS_ARENA_READ) == 0) {
        return PS_ARENA_OK; /* the writer sees all there is */
    }
    ps_arena_lock(arena->file_fd, ARENA_LOCK_VIEW, F_UNLCK, false);
    if (!ps_arena_lock(arena->file_fd, ARENA_LOCK_VIEW, F_RDLCK, true) ||
        mprotect(arena->view.base, arena->mapped_bytes, PROT_READ | PROT_WRITE) != 0) {
        return PS_ARENA_SYSTEM;
    }
    enum ps_arena_status status = ps_arena_load(arena, (arena->flags & PS_ARENA_VERIFY) != 0);
    if (status == PS_ARENA_OK && mprotect(arena->view.base, arena->mapped_bytes, PROT_READ) != 0) {
        return PS_ARENA_SYSTEM;
    }
    return status;
}

uint64_t ps_arena_sequence(const struct ps_arena *arena) { return arena->committed.sequence; }

/* The file first: memory beyond its end must not be touched. The file may be longer already, from
 * growth that was not committed; those bytes are zero, since only commits write. */
static bool lengthen_file(const struct ps_arena *arena, size_t bytes) {
    struct stat file;
    return fstat(arena->file_fd, &file) == 0 &&
           ((uint64_t)file.st_size >= bytes || ftruncate(arena->file_fd, (off_t)bytes) == 0);
}

/* To the arena's length. If the system refuses that, the file remains long, as it does when a
 * process ends before it commits. */
static void shorten_file(const struct ps_arena *arena) {
    int refused = ftruncate(arena->file_fd, (off_t)arena->view.bytes);
    (void)refused;
}

bool ps_arena_extend(struct ps_arena *arena, size_t bytes) {
    if ((arena->flags & PS_ARENA_READ) != 0) {
        errno = EROFS;
        return false;
    }
    if (bytes <= arena->view.bytes) {
        return true;
    }
    if (bytes > arena->max_bytes || arena->owner_pid != getpid()) {
        errno = ENOMEM;
        return false;
    }
    size_t new_bytes = ps_round_up(bytes, ARENA_PAGE);
    bool is_long = lengthen_file(arena, new_bytes);
    if (!is_long || !ps_arena_map(arena, new_bytes)) {
        if (is_long) {
            shorten_file(arena);
        }
        errno = ENOMEM;
        return false;
    }
    arena->is_file_dirty = true;
    arena->view.bytes = new_bytes;
    ps_arena_heap_extend(arena);
    return true;
}
