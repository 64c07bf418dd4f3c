/* SPDX-License-Identifier: MIT */
/*
 * See source.h: chunks of huge pages that the system has set aside. How to free a chunk follows
 * from its length alone, so that no state is needed: one of whole huge pages is a mapping of the
 * rounded length, whether its pages are huge or ordinary. No locks; the counts are atomics. The
 * calls are libc's: mappings of the program, not of the engine.
 */
#include <poolshim/source.h>

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/hugetlb.h"

#include <errno.h>
#include <poolshim/pages.h>
#include <sys/mman.h>

#define ALIGN_LIMIT ((size_t)64 << 10)

static bool is_in_pages(const struct ps_source_huge *source, size_t bytes) {
    return bytes >= source->page_bytes || (source->flags & PS_HUGE_ONLY) != 0;
}

/* Ordinary mappings, which take the place of huge pages. */
static struct ps_source_mmap ordinary(void) {
    struct ps_source_mmap mappings;
    ps_source_mmap_init(&mappings, PS_MMAP_HUGE);
    return mappings;
}

static void *map_huge(struct ps_source_huge *source, size_t whole) {
    /* Without MAP_NORESERVE: the pages are counted as taken now, not at the first touch. */
    void *chunk = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | ps_hugetlb_flags(source->page_bytes), -1, 0);
    bool is_given = chunk != MAP_FAILED;
    /* relaxed: counts; the memory is not published by them. */
    ps_add_relaxed(is_given ? &source->x_huge_count : &source->x_refused_count, 1);
    return is_given ? chunk : NULL;
}

static void *huge_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct ps_source_huge *own = (struct ps_source_huge *)source;
    if (!ps_is_power_of_two(align) || align > ALIGN_LIMIT) {
        errno = EINVAL;
        return NULL;
    }
    if (own->page_bytes == 0 || bytes > PTRDIFF_MAX - own->page_bytes) {
        errno = ENOMEM;
        return NULL;
    }
    if (!is_in_pages(own, bytes)) {
        return ps_pages_alloc(bytes, align);
    }
    size_t whole = ps_round_up(ps_max(bytes, 1), own->page_bytes);
    int saved_errno = errno;
    void *chunk = map_huge(own, whole);
    if (chunk == NULL && (own->flags & PS_HUGE_ONLY) == 0) {
        struct ps_source_mmap mappings = ordinary();
        chunk = mappings.source.alloc(&mappings.source, whole, align);
    }
    errno = chunk != NULL ? saved_errno : ENOMEM;
    return chunk;
}

static void huge_free(struct ps_source *source, void *chunk, size_t bytes) {
    const struct ps_source_huge *own = (const struct ps_source_huge *)source;
    if (!is_in_pages(own, bytes)) {
        ps_pages_free(chunk, bytes);
        return;
    }
    struct ps_source_mmap mappings = ordinary();
    mappings.source.free(&mappings.source, chunk, ps_round_up(ps_max(bytes, 1), own->page_bytes));
}

bool ps_source_huge_init(struct ps_source_huge *source, size_t page_bytes, unsigned flags) {
    *source = (struct ps_source_huge){.source = {huge_alloc, huge_free}, .flags = PS_HUGE_ONLY};
    if ((page_bytes != 0 && !ps_is_power_of_two(page_bytes)) ||
        page_bytes > PS_HUGETLB_PAGE_BYTES_LIMIT || (flags & ~(unsigned)PS_HUGE_ONLY) != 0) {
        errno = EINVAL;
        return false;
    }
    int saved_errno = errno;
    size_t wanted = page_bytes != 0 ? page_bytes : ps_hugetlb_usual_bytes();
    int error = ps_is_power_of_two(wanted) ? ps_hugetlb_probe(wanted) : ENOSYS;
    if (error != 0) {
        errno = error;
        return false;
    }
    source->page_bytes = wanted;
    source->flags = flags;
    errno = saved_errno;
    return true;
}

void ps_source_huge_stats(const struct ps_source_huge *source, struct ps_source_huge_stats *stats) {
    *stats = (struct ps_source_huge_stats){
        .page_bytes = source->page_bytes,
        .huge_count = ps_load_relaxed(&source->x_huge_count), /* relaxed: counts */
        .refused_count = ps_load_relaxed(&source->x_refused_count),
    };
}
