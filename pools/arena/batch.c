/* SPDX-License-Identifier: MIT */
/*
 * Batches of pages: into the journal, out of it, and into their places in the file. A batch is the
 * numbers of its pages, padded to whole pages, then the pages. See arena.h.
 */
#include "pools/arena/arena.h"
#include "pools/engine/base/bits.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static uint64_t numbers_bytes(uint64_t page_count) {
    return ps_round_up(page_count * sizeof(uint64_t), ARENA_PAGE);
}

static uint64_t batch_bytes(uint64_t page_count) {
    return numbers_bytes(page_count) + page_count * ARENA_PAGE;
}

/* The sum of a batch whose pages are in the view's memory. */
static uint64_t batch_sum(const struct ps_arena *arena, const struct page_list *list) {
    uint64_t sum = arena->committed.identity;
    for (size_t i = 0; i < list->count; i++) {
        sum = ps_arena_sum(arena->view.base + list->numbers[i] * ARENA_PAGE, ARENA_PAGE,
                           sum + list->numbers[i]);
    }
    return sum;
}

enum direction { TO_FILE, FROM_FILE };

/* Moves the pages of a list between the view's memory and a file; there the pages are in the order
 * of the list, one after the other, from `offset` on. */
static bool move_pages(const struct ps_arena *arena, const struct page_list *list, int fd,
                       uint64_t offset, enum direction direction) {
    for (size_t i = 0; i < list->count;) {
        size_t run = ps_arena_run(list, i);
        char *memory = arena->view.base + list->numbers[i] * ARENA_PAGE;
        uint64_t place = offset + i * ARENA_PAGE;
        if (!(direction == TO_FILE ? ps_arena_write(fd, memory, run * ARENA_PAGE, place)
                                   : ps_arena_read(fd, memory, run * ARENA_PAGE, place))) {
            return false;
        }
        i += run;
    }
    return true;
}

/* The numbers of the header's batch into `pending`. They are checked before they are used: the
 * journal may be anything. */
static enum ps_arena_status read_numbers(struct ps_arena *arena) {
    const struct arena_header *header = &arena->committed;
    struct page_list *list = &arena->pending;
    uint64_t least = ARENA_HEADER_PAGES;
    list->count = 0;
    if (header->batch_pages > header->bytes / ARENA_PAGE) {
        return PS_ARENA_CORRUPT;
    }
    for (uint64_t i = 0; i < header->batch_pages; i++) {
        uint64_t numbers[64];
        if (i % 64 == 0 && !ps_arena_read(arena->journal_fd, numbers, sizeof numbers,
                                          header->batch_offset + i * sizeof *numbers)) {
            return PS_ARENA_SYSTEM;
        }
        uint64_t number = numbers[i % 64];
        if (number < least || number >= header->bytes / ARENA_PAGE) {
            return PS_ARENA_CORRUPT;
        }
        if (!ps_arena_list_page(arena, list, number)) {
            return PS_ARENA_SYSTEM;
        }
        least = number + 1;
    }
    return PS_ARENA_OK;
}

enum ps_arena_status ps_arena_load_batch(struct ps_arena *arena) {
    const struct arena_header *header = &arena->committed;
    arena->pending.count = 0;
    arena->is_pending = false;
    if (header->batch_pages == 0) {
        return PS_ARENA_OK;
    }
    if (arena->journal_fd < 0) {
        int flags = (arena->flags & PS_ARENA_READ) != 0 ? O_RDONLY : O_RDWR;
        arena->journal_fd = open(arena->journal_path, flags | O_CLOEXEC);
        if (arena->journal_fd < 0) {
            return errno == ENOENT ? PS_ARENA_CORRUPT : PS_ARENA_SYSTEM;
        }
    }
    enum ps_arena_status status = read_numbers(arena);
    if (status != PS_ARENA_OK) {
        return status;
    }
    uint64_t offset = header->batch_offset + numbers_bytes(header->batch_pages);
    if (!move_pages(arena, &arena->pending, arena->journal_fd, offset, FROM_FILE)) {
        return PS_ARENA_SYSTEM;
    }
    if (batch_sum(arena, &arena->pending) != header->batch_sum) {
        return PS_ARENA_CORRUPT;
    }
    arena->is_pending = true;
    return PS_ARENA_OK;
}

/* Before the newest header's batch if there is room, else after it. */
static uint64_t place_for(const struct arena_header *newest, uint64_t bytes) {
    if (newest->batch_pages == 0 || bytes <= newest->batch_offset) {
        return 0;
    }
    return newest->batch_offset + batch_bytes(newest->batch_pages);
}

bool ps_arena_write_batch(struct ps_arena *arena, struct arena_header *header) {
    const struct page_list *list = &arena->changed;
    if (!ps_arena_open_journal(arena)) {
        return false;
    }
    header->batch_pages = list->count;
    header->batch_offset = place_for(&arena->committed, batch_bytes(list->count));
    header->batch_sum = batch_sum(arena, list);
    uint64_t pages_offset = header->batch_offset + numbers_bytes(list->count);
    return ps_arena_write(arena->journal_fd, list->numbers, list->count * sizeof *list->numbers,
                          header->batch_offset) &&
           move_pages(arena, list, arena->journal_fd, pages_offset, TO_FILE) &&
           ((arena->flags & PS_ARENA_SYNC) == 0 || fdatasync(arena->journal_fd) == 0);
}

bool ps_arena_read_committed(struct ps_arena *arena, uint64_t number, size_t *pending_index,
                             void *page) {
    if (arena->is_pending) {
        const struct page_list *list = &arena->pending;
        while (*pending_index < list->count && list->numbers[*pending_index] < number) {
            ++*pending_index;
        }
        if (*pending_index < list->count && list->numbers[*pending_index] == number) {
            const struct arena_header *header = &arena->committed;
            return ps_arena_read(arena->journal_fd, page, ARENA_PAGE,
                                 header->batch_offset + numbers_bytes(header->batch_pages) +
                                     *pending_index * ARENA_PAGE);
        }
    }
    return ps_arena_read(arena->file_fd, page, ARENA_PAGE, number * ARENA_PAGE);
}

/* The pages go from memory, which has what the batch has. */
bool ps_arena_apply(struct ps_arena *arena) {
    const struct page_list *list = &arena->pending;
    if (!ps_arena_lock(arena->file_fd, ARENA_LOCK_VIEW, F_WRLCK, false)) {
        return false;
    }
    bool is_done = true;
    arena->is_file_dirty = true;
    for (size_t i = 0; i < list->count && is_done;) {
        size_t run = ps_arena_run(list, i);
        size_t offset = list->numbers[i] * ARENA_PAGE;
        is_done =
            ps_arena_write(arena->file_fd, arena->view.base + offset, run * ARENA_PAGE, offset);
        i += run;
    }
    if (is_done) {
        for (size_t i = 0; i < list->count;) {
            size_t run = ps_arena_run(list, i);
            /* A failure only leaves copies that are the same as the file's. */
            (void)ps_arena_forget(arena, list->numbers[i] * ARENA_PAGE, run * ARENA_PAGE);
            i += run;
        }
        arena->is_pending = false;
    }
    ps_arena_lock(arena->file_fd, ARENA_LOCK_VIEW, F_UNLCK, false);
    if ((arena->flags & PS_ARENA_SYNC) != 0) {
        /* The next commit calls fdatasync, which is faster if the writes of these pages have
         * begun. */
        sync_file_range(arena->file_fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    }
    return is_done;
}
