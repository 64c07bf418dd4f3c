/* SPDX-License-Identifier: MIT */
/*
 * Opens, loads and closes arenas. See arena.h. Nothing in a file that was there is written before
 * all checks have passed.
 */
#include "pools/arena/arena.h"
#include "pools/common/poison.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poolshim/pages.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { INITIAL_BYTES = 64 << 10, LOAD_TRIES_MAX = 1000 };
#define RESERVE_BYTES ((size_t)64 << 30)
#define RESERVE_BYTES_MEMCHECK ((size_t)64 << 20)
#define RESERVE_LEAST ((size_t)1 << 20)

const char *ps_arena_explain(enum ps_arena_status status) {
    static const char *const texts[] = {
        [PS_ARENA_OK] = "all is well",
        [PS_ARENA_SYSTEM] = "the system refused",
        [PS_ARENA_LOCKED] = "another process or arena has the file open for writing",
        [PS_ARENA_FOREIGN] = "the file is not an arena of this kind of machine",
        [PS_ARENA_NEWER] = "the file is of a later version",
        [PS_ARENA_TRUNCATED] = "the file is shorter than its last commit",
        [PS_ARENA_CORRUPT] = "the file is damaged or its journal is missing",
        [PS_ARENA_EMPTY] = "nothing has been committed yet",
        [PS_ARENA_READ_ONLY] = "the arena is open for reading only",
        [PS_ARENA_FORKED] = "the arena was opened by the parent process",
    };
    return (size_t)status < sizeof texts / sizeof *texts ? texts[status] : "unknown status";
}

static bool is_reader(const struct ps_arena *arena) { return (arena->flags & PS_ARENA_READ) != 0; }

/* The mapping may reach far beyond the end of the file: only pages within the file are touched, and
 * when the file grows they are there. */
static void *map_file(const struct ps_arena *arena, size_t bytes) {
    void *base =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, arena->file_fd, 0);
    return base == MAP_FAILED ? NULL : base;
}

bool ps_arena_map(struct ps_arena *arena, size_t bytes) {
    if (bytes <= arena->mapped_bytes) {
        return true;
    }
    if (arena->mapped_bytes != 0) {
        size_t wanted = ps_round_up(bytes + bytes / 2, ps_os_page_bytes());
        void *base = mremap(arena->view.base, arena->mapped_bytes, wanted, MREMAP_MAYMOVE);
        if (base == MAP_FAILED) {
            return false;
        }
        arena->view.base = base;
        arena->mapped_bytes = wanted;
        return true;
    }
    return false;
}

static bool map_first(struct ps_arena *arena, size_t bytes, size_t reserve_bytes) {
    size_t wanted = ps_max(bytes, reserve_bytes);
    for (;;) { /* ends: wanted falls to bytes */
        arena->mapped_bytes = ps_round_up(wanted, ps_os_page_bytes());
        arena->view.base = map_file(arena, arena->mapped_bytes);
        if (arena->view.base != NULL) {
            return true;
        }
        if (wanted == bytes) {
            arena->mapped_bytes = 0;
            return false;
        }
        wanted = wanted / 2 > ps_max(bytes, RESERVE_LEAST) ? wanted / 2 : bytes;
    }
}

/* Memcheck writes records of all pages of a mapping: 4 s for 64 GiB. */
static size_t default_reserve_bytes(void) {
    return ps_poison_is_memcheck ? RESERVE_BYTES_MEMCHECK : RESERVE_BYTES;
}

/* A batch that cannot be read is of no account if its pages are all in their places. */
static enum ps_arena_status do_without_batch(struct ps_arena *arena, enum ps_arena_status status) {
    bool is_whole = ps_arena_forget(arena, 0, arena->mapped_bytes);
    arena->pending.count = 0;
    is_whole = is_whole && ps_arena_contents_sum(arena) == arena->committed.contents_sum;
    return is_whole ? PS_ARENA_OK : status;
}

static enum ps_arena_status load_once(struct ps_arena *arena, bool is_verified) {
    if (is_reader(arena) && arena->journal_fd >= 0) {
        close(arena->journal_fd); /* another writer may have made another */
        arena->journal_fd = -1;
    }
    bool is_damaged;
    enum ps_arena_status status =
        ps_arena_pick_header(arena->file_fd, &arena->committed, &is_damaged);
    if (status != PS_ARENA_OK) {
        return status;
    }
    struct stat file;
    if (fstat(arena->file_fd, &file) != 0) {
        return PS_ARENA_SYSTEM;
    }
    if ((uint64_t)file.st_size < arena->committed.bytes) {
        return PS_ARENA_TRUNCATED;
    }
    if (arena->committed.sequence == 0) {
        arena->view.bytes = 0;
        return is_reader(arena) ? PS_ARENA_EMPTY : PS_ARENA_OK;
    }
    if (!ps_arena_map(arena, arena->committed.bytes)) {
        return PS_ARENA_SYSTEM;
    }
    arena->view.bytes = arena->committed.bytes;
    if (!ps_arena_forget(arena, 0, arena->mapped_bytes)) {
        return PS_ARENA_SYSTEM;
    }
    status = ps_arena_load_batch(arena);
    if (status == PS_ARENA_CORRUPT) {
        return do_without_batch(arena, status);
    }
    if (status == PS_ARENA_OK && (is_verified || is_damaged) &&
        ps_arena_contents_sum(arena) != arena->committed.contents_sum) {
        return PS_ARENA_CORRUPT;
    }
    return status;
}

/* A reader may see the header of a commit and the batch of a later one: then it reads again. */
enum ps_arena_status ps_arena_load(struct ps_arena *arena, bool is_verified) {
    for (int tries = 1;; tries++) { /* ends at LOAD_TRIES_MAX */
        enum ps_arena_status status = load_once(arena, is_verified);
        if (status != PS_ARENA_CORRUPT || !is_reader(arena) || tries == LOAD_TRIES_MAX) {
            return status;
        }
        uint64_t edition = arena->committed.edition;
        bool is_damaged;
        if (ps_arena_pick_header(arena->file_fd, &arena->committed, &is_damaged) == PS_ARENA_OK &&
            arena->committed.edition == edition) {
            return PS_ARENA_CORRUPT;
        }
    }
}

/* The first header makes the file an arena, at one stroke: an empty file before, a sound one
 * after. */
static enum ps_arena_status found_arena(struct ps_arena *arena) {
    struct arena_header header = {.edition = 0};
    /* The function of that name is of glibc 2.25; this library needs no more than 2.17. */
    long got = syscall(SYS_getrandom, &header.identity, sizeof header.identity, 0);
    if (got != sizeof header.identity || !ps_arena_write_header(arena->file_fd, &header) ||
        ((arena->flags & PS_ARENA_SYNC) != 0 && fdatasync(arena->file_fd) != 0)) {
        return PS_ARENA_SYSTEM;
    }
    return PS_ARENA_OK;
}

/* An empty file, or what a power cut may leave of one that was to become an arena. */
static bool is_blank(const struct ps_arena *arena, size_t file_bytes) {
    static const char zeros[ARENA_PAGE];
    char page[ARENA_PAGE];
    return file_bytes <= ARENA_PAGE && ps_arena_read(arena->file_fd, page, sizeof page, 0) &&
           memcmp(page, zeros, sizeof page) == 0;
}

/* The first commit of a new arena: an empty heap. */
static enum ps_arena_status commit_empty_heap(struct ps_arena *arena, size_t initial_bytes) {
    size_t bytes = ps_round_up(ps_max(initial_bytes, INITIAL_BYTES), ARENA_PAGE);
    if (bytes > arena->max_bytes || !ps_arena_map(arena, bytes)) {
        errno = ENOMEM;
        return PS_ARENA_SYSTEM;
    }
    if (ftruncate(arena->file_fd, (off_t)bytes) != 0) {
        return PS_ARENA_SYSTEM;
    }
    arena->is_file_dirty = true;
    arena->view.bytes = bytes;
    ps_arena_heap_format(arena);
    return ps_arena_commit(arena);
}

/* True when the kernel distinguishes copies from the file's pages, tried on a page of the headers.
 */
static bool is_pagemap_right(struct ps_arena *arena) {
    volatile char *byte = arena->view.base;
    uint64_t entries[2];
    uint64_t at = (uintptr_t)arena->view.base / ps_os_page_bytes() * sizeof *entries;
    char seen = *byte;
    bool is_read = ps_arena_read(arena->pagemap_fd, &entries[0], sizeof *entries, at);
    *byte = seen;
    is_read = is_read && ps_arena_read(arena->pagemap_fd, &entries[1], sizeof *entries, at);
    madvise(arena->view.base, ps_os_page_bytes(), MADV_DONTNEED);
    const uint64_t present = (uint64_t)1 << 63, of_file = (uint64_t)1 << 61;
    return is_read && (entries[0] & present) != 0 && (entries[0] & of_file) != 0 &&
           (entries[1] & present) != 0 && (entries[1] & of_file) == 0;
}

static void open_pagemap(struct ps_arena *arena) {
    if ((arena->flags & PS_ARENA_COMPARE) == 0) {
        arena->pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    }
    if (arena->pagemap_fd >= 0 && !is_pagemap_right(arena)) {
        close(arena->pagemap_fd);
        arena->pagemap_fd = -1;
    }
}

static enum ps_arena_status open_writer(struct ps_arena *arena, size_t initial_bytes) {
    if (!ps_arena_lock(arena->file_fd, ARENA_LOCK_WRITER, F_WRLCK, false)) {
        return errno == EAGAIN || errno == EACCES ? PS_ARENA_LOCKED : PS_ARENA_SYSTEM;
    }
    struct stat file;
    if (fstat(arena->file_fd, &file) != 0) {
        return PS_ARENA_SYSTEM;
    }
    if ((arena->flags & PS_ARENA_CREATE) != 0 && is_blank(arena, (size_t)file.st_size)) {
        enum ps_arena_status status = found_arena(arena);
        if (status != PS_ARENA_OK) {
            return status;
        }
    }
    enum ps_arena_status status = ps_arena_load(arena, (arena->flags & PS_ARENA_VERIFY) != 0);
    if (status != PS_ARENA_OK) {
        return status;
    }
    open_pagemap(arena);
    if (arena->committed.sequence == 0) {
        return commit_empty_heap(arena, initial_bytes);
    }
    if (arena->is_pending) {
        ps_arena_apply(arena); /* or by a later commit */
    }
    return PS_ARENA_OK;
}

static enum ps_arena_status open_reader(struct ps_arena *arena) {
    if (!ps_arena_lock(arena->file_fd, ARENA_LOCK_VIEW, F_RDLCK, true)) {
        return PS_ARENA_SYSTEM;
    }
    enum ps_arena_status status = ps_arena_load(arena, (arena->flags & PS_ARENA_VERIFY) != 0);
    if (status == PS_ARENA_OK && mprotect(arena->view.base, arena->mapped_bytes, PROT_READ) != 0) {
        return PS_ARENA_SYSTEM;
    }
    return status;
}

static enum ps_arena_status open_file(struct ps_arena *arena, const char *path) {
    int flags = is_reader(arena)                        ? O_RDONLY
                : (arena->flags & PS_ARENA_CREATE) != 0 ? O_RDWR | O_CREAT
                                                        : O_RDWR;
    arena->file_fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    struct stat file;
    if (arena->file_fd < 0 || fstat(arena->file_fd, &file) != 0) {
        return errno == EISDIR ? PS_ARENA_FOREIGN : PS_ARENA_SYSTEM;
    }
    if (!S_ISREG(file.st_mode)) {
        return PS_ARENA_FOREIGN;
    }
    /* The journal is beside the file itself, whatever link leads to it. */
    if (realpath(path, arena->journal_path) == NULL) {
        return PS_ARENA_SYSTEM;
    }
    memcpy(arena->journal_path + strlen(arena->journal_path), "-journal", sizeof "-journal");
    return PS_ARENA_OK;
}

static void give_up(struct ps_arena *arena) {
    int saved_errno = errno;
    bool is_mapped = arena->view.base != NULL && munmap(arena->view.base, arena->mapped_bytes) != 0;
    if (is_mapped && arena->owner_pid == getpid()) { /* the mapping would retain the locks */
        ps_arena_lock(arena->file_fd, ARENA_LOCK_WRITER, F_UNLCK, false);
        ps_arena_lock(arena->file_fd, ARENA_LOCK_VIEW, F_UNLCK, false);
    }
    const int fds[] = {arena->file_fd, arena->journal_fd, arena->pagemap_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0) {
            close(fds[i]); /* and with the last descriptor the locks end */
        }
    }
    ps_arena_drop_list(arena, &arena->changed);
    ps_arena_drop_list(arena, &arena->pending);
    struct ps_chunks chunks = arena->chunks;
    ps_chunk_give(&chunks, arena, arena->chunk_bytes);
    errno = saved_errno;
}

static struct ps_arena *new_arena(unsigned flags, const struct ps_arena_options *options) {
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, &options->chunks, "arena", PS_PAGE_BYTES, PS_PAGE_BYTES);
    struct ps_arena *arena = ps_chunk_take_exact(&chunks, sizeof *arena, PS_ALIGN_DEFAULT);
    if (arena != NULL) {
        *arena = (struct ps_arena){
            .max_bytes = options->max_bytes != 0 ? options->max_bytes : SIZE_MAX / 4,
            .flags = flags,
            .owner_pid = getpid(),
            .file_fd = -1,
            .journal_fd = -1,
            .pagemap_fd = -1,
            .chunks = chunks,
            .chunk_bytes = sizeof *arena,
        };
    }
    return arena;
}

static enum ps_arena_status open_all(struct ps_arena *arena, const char *path,
                                     const struct ps_arena_options *options) {
    enum ps_arena_status status = open_file(arena, path);
    if (status != PS_ARENA_OK) {
        return status;
    }
    struct stat file;
    size_t reserve_bytes =
        options->reserve_bytes != 0 ? options->reserve_bytes : default_reserve_bytes();
    if (fstat(arena->file_fd, &file) != 0 ||
        !map_first(arena, ps_max((size_t)file.st_size, INITIAL_BYTES), reserve_bytes)) {
        return PS_ARENA_SYSTEM;
    }
    if (is_reader(arena)) {
        return open_reader(arena);
    }
    return open_writer(arena, options->initial_bytes);
}

enum ps_arena_status ps_arena_open(struct ps_arena **result, const char *path, unsigned flags,
                                   const struct ps_arena_options *options) {
    static const struct ps_arena_options none;
    const unsigned known =
        PS_ARENA_CREATE | PS_ARENA_READ | PS_ARENA_SYNC | PS_ARENA_VERIFY | PS_ARENA_COMPARE;
    *result = NULL;
    if ((flags & ~known) != 0 ||
        (flags & (PS_ARENA_CREATE | PS_ARENA_READ)) == (PS_ARENA_CREATE | PS_ARENA_READ)) {
        errno = EINVAL;
        return PS_ARENA_SYSTEM;
    }
    struct ps_arena *arena = new_arena(flags, options != NULL ? options : &none);
    if (arena == NULL) {
        return PS_ARENA_SYSTEM;
    }
    enum ps_arena_status status = open_all(arena, path, options != NULL ? options : &none);
    if (status != PS_ARENA_OK) {
        give_up(arena);
        return status;
    }
    *result = arena;
    return PS_ARENA_OK;
}

/* Removes the journal, with all pages in the file, if no reader needs it either. */
static void tidy_up(struct ps_arena *arena) {
    bool is_sync = (arena->flags & PS_ARENA_SYNC) != 0;
    if (arena->is_broken) {
        return;
    }
    if (arena->committed.batch_pages == 0) {
        if (arena->journal_fd >= 0) { /* of a commit that failed */
            unlink(arena->journal_path);
        }
        return;
    }
    if (arena->is_pending && (ps_arena_rollback(arena) != PS_ARENA_OK || !ps_arena_apply(arena))) {
        return;
    }
    if (!ps_arena_lock(arena->file_fd, ARENA_LOCK_VIEW, F_WRLCK, false)) {
        return;
    }
    struct arena_header header = arena->committed;
    header.edition++;
    header.batch_pages = header.batch_offset = header.batch_sum = 0;
    if ((!is_sync || fdatasync(arena->file_fd) == 0) &&
        ps_arena_write_header(arena->file_fd, &header) &&
        (!is_sync || fdatasync(arena->file_fd) == 0)) {
        unlink(arena->journal_path);
    }
}

void ps_arena_close(struct ps_arena *arena) {
    if (arena == NULL) {
        return;
    }
    int saved_errno = errno;
    if (!is_reader(arena) && arena->owner_pid == getpid()) {
        tidy_up(arena);
    }
    give_up(arena);
    errno = saved_errno;
}
