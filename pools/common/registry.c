/* SPDX-License-Identifier: MIT */
/*
 * See registry.h. Records lie in pages of their own, which are never returned: a free record is on
 * a list. A record has copies for other threads, so that a walk never reads a pool. Lock:
 * registry_lock, with a log: the child of a fork takes a change back that another thread had begun.
 */
#include "pools/common/registry.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"

#include <errno.h>
#include <poolshim/pages.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#define NAME_BYTES 40
#define BATCH 8

/* previous->next == this and next->previous == this; numbers ascend along the list. The number of
 * a free record is 0. */
struct ps_record {
    struct ps_record *next;
    struct ps_record *previous;
    struct ps_chunks *chunks; /* whose record this is; it may be left in memory that is reused */
    void *pool;
    const struct ps_family *family;
    size_t number;
    size_t x_total_bytes; /* these three: the pool's thread writes them, any reads them */
    size_t x_peak_bytes;
    size_t x_chunk_count;
    uint32_t thread;
    uint32_t reserved;
    char name[NAME_BYTES];
    uint64_t padding;
};

_Static_assert(sizeof(struct ps_record) == 128, "the manual's figure");

PS_UNDO_LOG(undo, 16);
static struct ps_lock registry_lock = PS_LOCK_INIT_UNDO(PS_RANK_REGISTRY_OF_POOLS, &undo);
static struct ps_record *first;
static struct ps_record *last;
static struct ps_record *free_records;
static size_t last_number;

/* ---- forks ---- */

static void fork_child(void) { (void)ps_lock_fork_child(&registry_lock); }

/* At load, as in slice/cache.c: before another thread can be inside while the first one forks. */
__attribute__((constructor(102))) static void library_loaded(void) {
    (void)pthread_atfork(NULL, NULL, fork_child);
}

/* ---- the list ---- */

/* With the lock, and a record is free. */
static struct ps_record *link_record(void) {
    struct ps_record *record = free_records;
    PS_UNDO_NOTE(&undo, free_records);
    free_records = record->next;
    struct ps_record **link = last != NULL ? &last->next : &first;
    PS_UNDO_NOTE(&undo, record->next);
    record->next = NULL;
    record->previous = last;
    PS_UNDO_NOTE(&undo, *link);
    *link = record;
    PS_UNDO_NOTE(&undo, last);
    last = record;
    PS_UNDO_NOTE(&undo, last_number);
    PS_UNDO_NOTE(&undo, record->number);
    record->number = ++last_number;
    return record;
}

/* With the lock. */
static void unlink_record(struct ps_record *record) {
    struct ps_record **link = record->previous != NULL ? &record->previous->next : &first;
    struct ps_record **back = record->next != NULL ? &record->next->previous : &last;
    PS_UNDO_NOTE(&undo, *link);
    *link = record->next;
    PS_UNDO_NOTE(&undo, *back);
    *back = record->previous;
    PS_UNDO_NOTE(&undo, record->number);
    record->number = 0;
    PS_UNDO_NOTE(&undo, record->next);
    record->next = free_records;
    PS_UNDO_NOTE(&undo, free_records);
    free_records = record;
}

/* With the lock: the first record listed after that of this number. at: where that was, or NULL; it
 * may be free by now. */
static const struct ps_record *record_after(const struct ps_record *at, size_t number) {
    if (at != NULL && at->number == number) {
        return at->next;
    }
    const struct ps_record *record = first;
    while (record != NULL && record->number <= number) {
        record = record->next;
    }
    return record;
}

static void set_name(struct ps_record *record, const char *name) {
    size_t length = strnlen(name, NAME_BYTES - 1);
    memcpy(record->name, name, length);
    record->name[length] = 0;
}

/* Enters a page of records into the list of free ones. */
static bool add_records(void) {
    struct ps_record *page = ps_pages_alloc(PS_PAGE_BYTES, 0);
    if (page == NULL) {
        return false;
    }
    size_t count = PS_PAGE_BYTES / sizeof *page;
    for (size_t i = 0; i < count; i++) {
        page[i] = (struct ps_record){.next = &page[i + 1]};
    }
    ps_lock_acquire(&registry_lock);
    page[count - 1].next = free_records;
    PS_UNDO_NOTE(&undo, free_records);
    free_records = page;
    ps_lock_release(&registry_lock);
    return true;
}

bool ps_registry_enter(struct ps_chunks *chunks, void *pool, const struct ps_family *family) {
    if (chunks->record != NULL) {
        return true;
    }
    uint32_t thread = ps_os_thread_number();
    ps_lock_watch_forks(); /* this may be the second thread, and the first one may fork */
    ps_lock_acquire(&registry_lock);
    while (free_records == NULL) { /* ends: other threads list a finite number of pools */
        ps_lock_release(&registry_lock);
        if (!add_records()) {
            errno = ENOMEM;
            return false;
        }
        ps_lock_acquire(&registry_lock);
    }
    struct ps_record *record = link_record();
    record->chunks = chunks;
    record->pool = pool;
    record->family = family;
    record->thread = thread;
    /* relaxed, all: counts; the lock orders the record. */
    ps_store_relaxed(&record->x_total_bytes, chunks->total_bytes);
    ps_store_relaxed(&record->x_peak_bytes, chunks->total_bytes);
    ps_store_relaxed(&record->x_chunk_count, chunks->chunk_count);
    set_name(record, chunks->name);
    ps_lock_release(&registry_lock);
    chunks->record = record;
    return true;
}

void ps_registry_count(struct ps_record *record, size_t more_bytes, size_t more_chunks) {
    /* relaxed, all: counts, which one thread at a time writes: that of the pool. */
    size_t bytes = ps_load_relaxed(&record->x_total_bytes) + more_bytes;
    ps_store_relaxed(&record->x_total_bytes, bytes);
    ps_store_relaxed(&record->x_chunk_count, ps_load_relaxed(&record->x_chunk_count) + more_chunks);
    if (bytes > ps_load_relaxed(&record->x_peak_bytes)) {
        ps_store_relaxed(&record->x_peak_bytes, bytes);
    }
}

void ps_registry_move(struct ps_chunks *to, struct ps_chunks *from, void *pool) {
    ps_lock_acquire(&registry_lock);
    to->record = from->record;
    to->record->chunks = to;
    to->record->pool = pool;
    ps_lock_release(&registry_lock);
    from->record = NULL;
}

void ps_registry_rename(struct ps_chunks *chunks) {
    ps_lock_acquire(&registry_lock);
    set_name(chunks->record, chunks->name);
    ps_lock_release(&registry_lock);
}

/* ---- leaks ---- */

/* The name of a pool, quoted, as leaks and the table of statistics have it. */
static void report(const char *format, ...) PS_PRINTF(1, 2);
static void report(const char *format, ...) {
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    ps_os_write(2, line, ps_min((size_t)length, sizeof line - 1));
}

static const char *plural(size_t count) { return count == 1 ? "" : "s"; }

static void report_live(const struct ps_record *record, const char *how, const char *when) {
    size_t bytes = 0;
    size_t count = record->family->live != NULL ? record->family->live(record->pool, &bytes) : 0;
    if (count != 0) {
        report("poolshim: leak: %s '%s' %s %zu live block%s of %zu bytes%s\n", record->family->name,
               record->name, how, count, plural(count), bytes, when);
    }
}

void ps_registry_leave(struct ps_chunks *chunks) {
    int saved_errno = errno;
    struct ps_record *record = chunks->record;
    if (ps_debug_is_leaks()) {
        report_live(record, "destroyed with", "");
    }
    chunks->record = NULL;
    ps_lock_acquire(&registry_lock);
    unlink_record(record);
    ps_lock_release(&registry_lock);
    errno = saved_errno;
}

static void read_threads(void *count, char *line) {
    static const char key[] = "Threads:";
    if (strncmp(line, key, sizeof key - 1) == 0) {
        const char *number = line + sizeof key - 1;
        number += strspn(number, "\t ");
        (void)ps_file_number(&number, (uint64_t *)count);
    }
}

static bool is_only_thread(void) {
    char lines[512];
    uint64_t count = 0;
    ps_file_lines("/proc/self/status", lines, sizeof lines, read_threads, &count);
    return count == 1;
}

/* False: the memory of the pool has another use, or none: it went without being destroyed. */
PS_READS_ANYTHING static bool is_whole(const struct ps_record *at, const struct ps_chunks *chunks) {
    if (!ps_os_is_mapped(chunks) || !ps_os_is_mapped(chunks + 1)) {
        return false;
    }
    ps_unpoison_defined(&chunks->record,
                        sizeof chunks->record); /* read on purpose, whatever it is */
    return chunks->record == at;
}

/* record: a copy of *at. */
static void report_at_exit(const struct ps_record *at, const struct ps_record *record,
                           bool is_alone) {
    size_t bytes = record->x_total_bytes;
    size_t chunk_count = record->x_chunk_count;
    bool has_gone = !is_whole(at, record->chunks);
    if (is_alone && !has_gone && !record->family->must_end) {
        report_live(record, "has", " at exit");
    } else if (record->family->must_end || bytes != 0) {
        report("poolshim: leak: %s '%s' was not destroyed before %s: %zu bytes in %zu chunk%s\n",
               record->family->name, record->name, has_gone ? "its memory went" : "exit", bytes,
               chunk_count, plural(chunk_count));
    }
}

/* Runs after all destructors of the program, since a destructor of the least number runs last. */
__attribute__((destructor(101))) static void report_leaks_at_exit(void) {
    if (!ps_debug_is_leaks()) {
        return;
    }
    bool is_alone = is_only_thread();
    struct ps_record copy = {.number = 0};
    const struct ps_record *at = NULL;
    for (;;) { /* ends: no pool is made here */
        ps_lock_acquire(&registry_lock);
        at = record_after(at, copy.number);
        if (at != NULL) {
            copy = *at;
        }
        ps_lock_release(&registry_lock);
        if (at == NULL) {
            return;
        }
        report_at_exit(at, &copy, is_alone);
    }
}

/* ---- walks ---- */

struct batch {
    struct ps_pool_info infos[BATCH];
    char names[BATCH][NAME_BYTES];
    size_t count;
    const struct ps_record *last;
};

static void copy_record(struct batch *batch, const struct ps_record *record) {
    char *name = batch->names[batch->count];
    memcpy(name, record->name, NAME_BYTES);
    batch->infos[batch->count] = (struct ps_pool_info){
        .family = record->family->name,
        .name = name,
        .pool = record->pool,
        /* relaxed, all: counts of this moment. */
        .total_bytes = ps_load_relaxed(&record->x_total_bytes),
        .peak_bytes = ps_load_relaxed(&record->x_peak_bytes),
        .chunk_count = ps_load_relaxed(&record->x_chunk_count),
        .thread = record->thread,
        .number = record->number,
    };
    batch->count++;
}

/* Copies the pools that were listed after the last one of the batch before. */
static void read_batch(struct batch *batch, size_t number) {
    batch->count = 0;
    ps_lock_acquire(&registry_lock);
    const struct ps_record *record = record_after(batch->last, number);
    for (; record != NULL && batch->count < BATCH; record = record->next) {
        copy_record(batch, record);
        batch->last = record;
    }
    ps_lock_release(&registry_lock);
}

void ps_pools_each(void (*visit)(const struct ps_pool_info *info, void *context), void *context) {
    struct batch batch = {.last = NULL};
    size_t number = 0;
    do {
        read_batch(&batch, number);
        for (size_t i = 0; i < batch.count; i++) {
            number = batch.infos[i].number;
            visit(&batch.infos[i], context);
        }
    } while (batch.count == BATCH); /* ends: as long as pools are not listed by every visit */
}

struct dump {
    FILE *file;
    size_t count;
    size_t total_bytes;
    bool has_failed;
};

static void dump_one(const struct ps_pool_info *info, void *context) {
    struct dump *dump = context;
    dump->count++;
    dump->total_bytes += info->total_bytes;
    dump->has_failed |=
        fprintf(dump->file, "%-12s %-39s %14zu %14zu %8zu %8u\n", info->family, info->name,
                info->total_bytes, info->peak_bytes, info->chunk_count, info->thread) < 0;
}

bool ps_dump_stats(FILE *file) {
    struct dump dump = {.file = file};
    dump.has_failed = fprintf(file, "%-12s %-39s %14s %14s %8s %8s\n", "family", "name", "bytes",
                              "peak bytes", "chunks", "thread") < 0;
    ps_pools_each(dump_one, &dump);
    struct ps_pages_stats pages;
    ps_pages_stats(&pages);
    dump.has_failed |=
        fprintf(file, "%zu pools listed: %zu bytes\n", dump.count, dump.total_bytes) < 0;
    dump.has_failed |=
        fprintf(file, "page cache: %zu bytes in use, %zu free, %zu reserved\n", pages.used_bytes,
                pages.dirty_bytes + pages.magazine_bytes, pages.reserved_bytes) < 0;
    return !dump.has_failed && fflush(file) == 0;
}
