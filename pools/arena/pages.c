/* SPDX-License-Identifier: MIT */
/*
 * Finds the pages that the program has changed: the process has private copies of them. The kernel
 * reports them; without it they are compared. See arena.h.
 */
#include "pools/arena/arena.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Bits of an entry of /proc/self/pagemap: in memory, in swap, a page of a file. */
#define ENTRY_IS_PRESENT ((uint64_t)1 << 63)
#define ENTRY_IS_SWAPPED ((uint64_t)1 << 62)
#define ENTRY_IS_OF_FILE ((uint64_t)1 << 61)

bool ps_arena_list_page(struct ps_arena *arena, struct page_list *list, uint64_t number) {
    if ((list->count + 1) * sizeof *list->numbers > list->chunk_bytes) {
        size_t bytes = list->chunk_bytes == 0 ? ARENA_PAGE : 2 * list->chunk_bytes;
        uint64_t *numbers = ps_chunk_take_exact(&arena->chunks, bytes, sizeof *numbers);
        if (numbers == NULL) {
            return false;
        }
        struct page_list old = *list;
        if (old.count > 0) {
            memcpy(numbers, old.numbers, old.count * sizeof *numbers);
        }
        *list = (struct page_list){numbers, old.count, bytes};
        ps_arena_drop_list(arena, &old);
    }
    list->numbers[list->count++] = number;
    return true;
}

void ps_arena_drop_list(struct ps_arena *arena, struct page_list *list) {
    if (list->chunk_bytes != 0) {
        ps_chunk_give(&arena->chunks, list->numbers, list->chunk_bytes);
    }
    *list = (struct page_list){NULL, 0, 0};
}

static bool is_copied(uint64_t entry) {
    return (entry & (ENTRY_IS_PRESENT | ENTRY_IS_SWAPPED)) != 0 && (entry & ENTRY_IS_OF_FILE) == 0;
}

/* A page of the system may be several of ours; the headers are not the program's. */
static bool list_system_page(struct ps_arena *arena, size_t offset, size_t system_page) {
    size_t end = ps_min(offset + system_page, arena->view.bytes);
    for (size_t at = ps_max(offset, ARENA_HEAP); at < end; at += ARENA_PAGE) {
        if (!ps_arena_list_page(arena, &arena->changed, at / ARENA_PAGE)) {
            return false;
        }
    }
    return true;
}

static bool ask_kernel(struct ps_arena *arena) {
    uint64_t entries[512];
    size_t system_page = ps_os_page_bytes();
    size_t left = (arena->view.bytes + system_page - 1) / system_page;
    size_t offset = 0;
    while (left > 0) {
        size_t count = ps_min(left, sizeof entries / sizeof *entries);
        uint64_t at = ((uintptr_t)arena->view.base + offset) / system_page * sizeof *entries;
        if (!ps_arena_read(arena->pagemap_fd, entries, count * sizeof *entries, at)) {
            return false;
        }
        for (size_t i = 0; i < count; i++, offset += system_page) {
            if (is_copied(entries[i]) && !list_system_page(arena, offset, system_page)) {
                return false;
            }
        }
        left -= count;
    }
    return true;
}

/* The pages of a pending batch count as changed, also when they are again as the file has them. */
static bool compare(struct ps_arena *arena) {
    char page[ARENA_PAGE];
    size_t next = 0;
    for (uint64_t number = ARENA_HEADER_PAGES; number < arena->view.bytes / ARENA_PAGE; number++) {
        bool is_listed = arena->is_pending && next < arena->pending.count &&
                         arena->pending.numbers[next] == number;
        next += is_listed;
        if (!ps_arena_read(arena->file_fd, page, sizeof page, number * ARENA_PAGE)) {
            return false;
        }
        if ((is_listed || memcmp(page, arena->view.base + number * ARENA_PAGE, sizeof page) != 0) &&
            !ps_arena_list_page(arena, &arena->changed, number)) {
            return false;
        }
    }
    return true;
}

bool ps_arena_find_changed(struct ps_arena *arena) {
    arena->changed.count = 0;
    return arena->pagemap_fd >= 0 ? ask_kernel(arena) : compare(arena);
}

/* Pages that the system does not drop (locked ones, say) get the file's contents. */
static bool read_back(struct ps_arena *arena, size_t from, size_t end) {
    char page[ARENA_PAGE];
    struct stat file;
    if (fstat(arena->file_fd, &file) != 0) {
        return false;
    }
    end = ps_min(end, (size_t)file.st_size); /* nothing lies after that */
    for (size_t at = from; at < end; at += sizeof page) {
        size_t count = ps_min(sizeof page, end - at);
        if (!ps_arena_read(arena->file_fd, page, sizeof page, at)) {
            return false;
        }
        if (memcmp(arena->view.base + at, page, count) != 0) {
            memcpy(arena->view.base + at, page, count);
        }
    }
    return true;
}

bool ps_arena_forget(struct ps_arena *arena, size_t offset, size_t bytes) {
    size_t system_page = ps_os_page_bytes();
    size_t from = ps_round_up(offset, system_page);
    size_t end = ps_round_down(offset + bytes, system_page);
    return from >= end || madvise(arena->view.base + from, end - from, MADV_DONTNEED) == 0 ||
           read_back(arena, from, end);
}
