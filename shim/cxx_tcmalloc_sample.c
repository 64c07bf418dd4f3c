/* SPDX-License-Identifier: MIT */
/*
 * See cxx_tcmalloc.h. A std::string is filled by the function of the program's own run-time; memory
 * is that of operator new. No locks of its own.
 */
#include "shim/cxx_tcmalloc.h"

#include "pools/engine/heap/draw.h"
#include "pools/engine/os/files.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/small/size_class.h"
#include "shim/cxx.h"
#include "shim/tcmalloc.h"
#include "shim/text.h"

#include <string.h>

#define BUFFER_BYTES 1024

void *_Znwm(size_t size);
void *_Znam(size_t size);
void _ZdlPv(void *block);
void _ZdaPv(void *block);

/* ---- std::string ---- */

struct sink {
    ps_cxx_append *append;
    struct ps_cxx_string *string;
};

static void append(void *context, const char *part) {
    struct sink *sink = context;
    (void)sink->append(sink->string, part, strlen(part));
}

/* ---- samples ---- */

/* Words before the sites of an entry: count, size, depth. */
#define ENTRY_WORDS 3

/* Adds the sums of a stack and its sites that are addresses of code. Returns the words; 0: it has
 * no live memory, or there is no room. */
static size_t add_stack(uintptr_t *entry, size_t room, const struct ps_profile_stack *stack) {
    struct ps_profile_sums sums;
    size_t depth = 0;
    ps_profile_read_sums(stack, &sums);
    uint64_t count = ps_draw_blocks(sums.live_weight);
    if (count == 0 || room < ENTRY_WORDS + stack->count) {
        return 0;
    }
    for (size_t i = 0; i < stack->count; i++) {
        if (stack->sites[i] != 0 && (stack->sites[i] & PS_PROFILE_LINE_SITE) == 0) {
            entry[ENTRY_WORDS + depth++] = stack->sites[i];
        }
    }
    entry[0] = (uintptr_t)count;
    entry[1] = (uintptr_t)sums.live_bytes;
    entry[2] = (uintptr_t)depth;
    return ENTRY_WORDS + depth;
}

void **ps_cxx_tcmalloc_stacks(struct ps_cxx_extension *this, int *period) {
    const struct ps_profile_stack *newest = ps_profile_next(NULL);
    size_t room = 1; /* for the end, a count of 0 */
    size_t used = 0;
    (void)this;
    for (const struct ps_profile_stack *s = newest; s != NULL; s = ps_profile_next(s)) {
        room += ENTRY_WORDS + s->count;
    }
    uintptr_t *entries = _Znam(room * sizeof *entries);
    for (const struct ps_profile_stack *s = newest; s != NULL; s = ps_profile_next(s)) {
        used += add_stack(entries + used, room - 1 - used, s);
    }
    entries[used] = 0;
    *period = newest != NULL;
    return (void **)entries;
}

static void add_sums(struct ps_text *text, uintptr_t count, uintptr_t bytes) {
    for (int i = 0; i < 2; i++) {
        ps_text_add(text, i == 0 ? "" : " [");
        ps_text_add_number_right(text, count, 6);
        ps_text_add(text, ": ");
        ps_text_add_number_right(text, bytes, 8);
    }
    ps_text_add(text, "] @");
}

static void add_hex(struct ps_text *text, uintptr_t value) {
    char digits[2 * sizeof value + 4] = " 0x";
    size_t length = 3;
    for (int shift = 8 * (int)sizeof value - 4; shift >= 0; shift -= 4) {
        if (value >> shift != 0) {
            digits[length++] = "0123456789abcdef"[value >> shift & 15];
        }
    }
    digits[length] = '\0';
    ps_text_add(text, digits);
}

static void add_entries(struct ps_text *text, const uintptr_t *entries, int period) {
    uintptr_t sums[2] = {0, 0};
    for (const uintptr_t *e = entries; e[0] != 0; e += ENTRY_WORDS + e[2]) {
        sums[0] += e[0];
        sums[1] += e[1];
    }
    ps_text_add(text, "heap profile: ");
    add_sums(text, sums[0], sums[1]);
    ps_text_add(text, " heap_v2/");
    ps_text_add_number(text, (uint64_t)period);
    ps_text_add(text, "\n");
    for (const uintptr_t *e = entries; e[0] != 0; e += ENTRY_WORDS + e[2]) {
        add_sums(text, e[0], e[1]);
        for (size_t i = 0; i < e[2]; i++) {
            add_hex(text, e[ENTRY_WORDS + i]);
        }
        ps_text_add(text, "\n");
    }
}

/* Appends /proc/self/maps, by which a reader finds the files of the sites. */
static void add_mappings(const struct sink *sink) {
    char part[BUFFER_BYTES];
    long fd = ps_file_open(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (ps_syscall_failed(fd)) {
        return;
    }
    long length = ps_syscall3(SYS_read, fd, (long)part, sizeof part);
    while (length > 0 && !ps_syscall_failed(length)) { /* ends: the file does */
        (void)sink->append(sink->string, part, (size_t)length);
        length = ps_syscall3(SYS_read, fd, (long)part, sizeof part);
    }
    (void)ps_file_close((int)fd);
}

void ps_cxx_tcmalloc_sample(struct ps_cxx_extension *this, struct ps_cxx_string *string) {
    char buffer[BUFFER_BYTES];
    struct ps_text text;
    int period;
    struct sink sink = {ps_cxx_find_append(), string};
    if (sink.append == NULL) {
        return;
    }
    uintptr_t *entries = (uintptr_t *)ps_cxx_tcmalloc_stacks(this, &period);
    ps_text_start_sink(&text, buffer, sizeof buffer, append, &sink);
    if (period == 0) {
        ps_text_add(&text,
                    "%warn\n%warn Allocations are not sampled: set POOLSHIM_PROFILE.\n%warn\n");
    }
    add_entries(&text, entries, period);
    ps_text_add(&text, "\nMAPPED_LIBRARIES:\n");
    (void)ps_text_flush(&text);
    _ZdaPv(entries);
    add_mappings(&sink);
}

void ps_cxx_tcmalloc_growth(struct ps_cxx_extension *this, struct ps_cxx_string *string) {
    struct sink sink = {ps_cxx_find_append(), string};
    (void)this;
    if (sink.append != NULL) {
        append(&sink, "poolshim does not record by which stacks the heap has grown.\n");
    }
}

/* ---- free lists ---- */

struct list {           /* MallocExtension::FreeListInfo */
    size_t least_bytes; /* of a request that it serves */
    size_t most_bytes;
    size_t free_bytes;
    const char *type;
};

/* Rows besides those of classes. */
#define OTHER_LISTS 2

static void fill_lists(struct list *list, const struct ps_census *census,
                       const struct ps_tcmalloc_figures *figures) {
    size_t above = ps_size_class_max_bytes + 1;
    size_t least = 1;
    for (uint32_t i = 0; i < census->class_count; i++) {
        const struct ps_census_class *class = &census->classes[i];
        size_t bytes = class->block_bytes;
        uint64_t all = class->slab_bytes / bytes;
        uint64_t used = class->live_blocks + class->prepared_blocks;
        *list++ =
            (struct list){least, bytes, all > used ? (all - used) * bytes : 0, "tcmalloc.central"};
        *list++ = (struct list){least, bytes, class->prepared_blocks * bytes, "tcmalloc.thread"};
        least = bytes + 1;
    }
    *list++ = (struct list){above, SIZE_MAX, figures->page_free, "tcmalloc.large"};
    *list++ = (struct list){above, SIZE_MAX, figures->page_unmapped, "tcmalloc.large_unmapped"};
}

void ps_cxx_tcmalloc_lists(struct ps_cxx_extension *this, struct ps_cxx_vector *lists) {
    struct ps_census census;
    struct ps_tcmalloc_figures figures;
    (void)this;
    ps_tcmalloc_read(&figures, &census);
    size_t bytes = (2 * (size_t)census.class_count + OTHER_LISTS) * sizeof(struct list);
    if ((size_t)(lists->limit - lists->begin) < bytes) {
        char *fresh = _Znwm(bytes);
        if (lists->begin != NULL) {
            _ZdlPv(lists->begin);
        }
        lists->begin = fresh;
        lists->limit = fresh + bytes;
    }
    fill_lists((struct list *)lists->begin, &census, &figures);
    lists->end = lists->begin + bytes;
}
