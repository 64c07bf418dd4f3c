/* SPDX-License-Identifier: MIT */
/*
 * See source.h: a mapping per chunk. The place of a chunk in its mapping follows from its address
 * and length, so that no state is needed: the mapping begins at the page of the chunk and ends
 * after its last byte, with a guard page on each side. No locks. The calls are libc's: mappings of
 * the program, not of the engine.
 */
#include <poolshim/source.h>

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/huge.h"

#include <errno.h>
#include <sys/mman.h>

#define ALIGN_LIMIT ((size_t)64 << 10)

/* Lengths of the parts of a chunk's mapping. */
struct plan {
    size_t page;
    size_t guard;  /* on both sides; 0: none */
    size_t middle; /* readable and writable, whole pages */
    size_t align;  /* of the middle */
    size_t offset; /* of the chunk in the middle */
};

static bool is_huge(const struct ps_source_mmap *source, size_t bytes) {
    return (source->flags & PS_MMAP_HUGE) != 0 && bytes >= PS_HUGE_PAGE_BYTES;
}

/* Plans a mapping. With a guard the chunk ends as near to it as its alignment allows, so that the
 * first byte after it faults. Returns false when the lengths overflow. */
static bool make_plan(const struct ps_source_mmap *source, size_t bytes, size_t align,
                      struct plan *plan) {
    size_t page = ps_os_page_bytes();
    if (bytes > PTRDIFF_MAX - 2 * PS_HUGE_PAGE_BYTES) {
        return false;
    }
    bool has_guard = (source->flags & PS_MMAP_GUARD) != 0;
    *plan = (struct plan){
        .page = page,
        .guard = has_guard ? page : 0,
        .middle = ps_round_up(bytes, page),
        .align = ps_max(is_huge(source, bytes) ? PS_HUGE_PAGE_BYTES : page, align),
    };
    plan->offset = has_guard ? ps_round_down(plan->middle - bytes, ps_max(align, 1)) : 0;
    return true;
}

/* Maps `bytes` without access such that base + guard is aligned; NULL when the system refuses. */
static char *map(const struct plan *plan, size_t bytes) {
    size_t slack = plan->align - plan->page;
    char *start = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        return NULL;
    }
    char *middle = (char *)(uintptr_t)ps_round_up((uintptr_t)start + plan->guard, plan->align);
    char *base = middle - plan->guard;
    size_t before = (size_t)(base - start);
    if (before != 0) {
        (void)munmap(start, before);
    }
    if (slack != before) {
        (void)munmap(base + bytes, slack - before);
    }
    return base;
}

static void *mmap_alloc(struct ps_source *source, size_t bytes, size_t align) {
    const struct ps_source_mmap *own = (const struct ps_source_mmap *)source;
    struct plan plan;
    if (!ps_is_power_of_two(align) || align > ALIGN_LIMIT) {
        errno = EINVAL;
        return NULL;
    }
    if (!make_plan(own, ps_max(bytes, 1), align, &plan)) {
        errno = ENOMEM;
        return NULL;
    }
    size_t whole = plan.middle + 2 * plan.guard;
    char *base = map(&plan, whole);
    if (base == NULL || mprotect(base + plan.guard, plan.middle, PROT_READ | PROT_WRITE) != 0) {
        if (base != NULL) {
            (void)munmap(base, whole);
        }
        errno = ENOMEM;
        return NULL;
    }
    if (is_huge(own, bytes)) {
        ps_huge_request(base + plan.guard, plan.middle);
    }
    return base + plan.guard + plan.offset;
}

static void mmap_free(struct ps_source *source, void *chunk, size_t bytes) {
    const struct ps_source_mmap *own = (const struct ps_source_mmap *)source;
    int saved_errno = errno;
    size_t page = ps_os_page_bytes();
    size_t guard = (own->flags & PS_MMAP_GUARD) != 0 ? page : 0;
    uintptr_t first = ps_round_down((uintptr_t)chunk, page);
    uintptr_t end = ps_round_up((uintptr_t)chunk + ps_max(bytes, 1), page);
    char *middle = (char *)chunk - ((uintptr_t)chunk - first);
    if (munmap(middle - guard, end - first + 2 * guard) != 0) {
        (void)madvise(middle, end - first, MADV_DONTNEED); /* only the addresses are lost */
    }
    errno = saved_errno;
}

void ps_source_mmap_init(struct ps_source_mmap *source, unsigned flags) {
    *source = (struct ps_source_mmap){{mmap_alloc, mmap_free}, flags};
}
