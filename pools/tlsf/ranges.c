/* SPDX-License-Identifier: MIT */
/*
 * The memory of TLSF pools: set-up, ranges that come and go, chunks of the source. See tlsf.h.
 */
#include "pools/tlsf/tlsf.h"

#include "pools/engine/base/bits.h"

#include <errno.h>
#include <string.h>

enum { FIRST_CHUNK_BYTES = 64 << 10, LAST_CHUNK_BYTES = 32 << 20 };
enum { RANGE_BYTES_MIN = 128 }; /* of ps_tlsf_add: enough at any alignment, and what it says */

/* One free block from end to end. */
static void range_clear(struct ps_tlsf *tlsf, struct range *range) {
    struct block *first = range_first(range);
    struct block *stopper = range_stopper(range);
    size_t size = (size_t)((char *)stopper - (char *)first);
    tlsf_unpoison(first, size + PS_FIT_HEAD);
    first->head = tlsf->tag | size;
    stopper->head = tlsf->tag;
    block_poison(first, size);
    ps_tlsf_list(tlsf, first, size);
}

/* The bounds take in so many bytes more. The lowest bytes of a pool are never a head. */
static void widen(struct ps_tlsf *tlsf, uintptr_t first, size_t bytes) {
    uintptr_t low = tlsf->span == 0 ? first : ps_min(tlsf->low, first);
    uintptr_t end = first + bytes - sizeof(size_t);
    tlsf->span = ps_max(end, tlsf->span == 0 ? end : tlsf->low + tlsf->span) - low;
    tlsf->low = low;
}

/* NULL: too small for a block, or too long for the index. */
static struct range *range_add(struct ps_tlsf *tlsf, void *memory, size_t bytes,
                               size_t chunk_bytes) {
    size_t skipped = (size_t)(-(uintptr_t)memory & (_Alignof(struct range) - 1));
    size_t least =
        skipped + sizeof(struct range) + PS_FIT_MIN + (size_t)2 * PS_FIT_UNIT + PS_FIT_HEAD;
    if (bytes < least || bytes - skipped > tlsf->largest_bytes) {
        return NULL;
    }
    tlsf_unpoison(memory, bytes); /* a pool that was here before may have left its marks */
    struct range *range = (struct range *)((char *)memory + skipped);
    *range = (struct range){tlsf->ranges, bytes - skipped, chunk_bytes, memory};
    tlsf->ranges = range;
    widen(tlsf, (uintptr_t)range, range->bytes);
    range_clear(tlsf, range);
    return range;
}

/* The smallest power of two that is `bytes` at least. */
static size_t power_from(size_t bytes) {
    size_t power = (size_t)1 << (PS_FIT_LINEAR_SHIFT + 1);
    while (power < bytes) { /* ends: the caller has checked PS_FIT_LARGEST_SHIFT */
        power *= 2;
    }
    return power;
}

/* Sets up the record at the start of the memory; the memory after its heads is the first range. */
static struct ps_tlsf *set_up(void *memory, size_t bytes, size_t largest_bytes,
                              const struct ps_chunks *chunks) {
    size_t skipped = (size_t)(-(uintptr_t)memory & (_Alignof(struct ps_tlsf) - 1));
    size_t class_count = ps_fit_class_of(largest_bytes) + 1;
    size_t record_bytes = sizeof(struct ps_tlsf) + class_count * sizeof(struct block *);
    if (bytes < skipped || bytes - skipped < record_bytes) {
        return NULL;
    }
    struct ps_tlsf *tlsf = (struct ps_tlsf *)((char *)memory + skipped);
    tlsf_unpoison(memory, bytes);
    memset(tlsf, 0, record_bytes);
    /* Not 0 and not the same for pools side by side: the upper bits of a product. */
    tlsf->tag = (((uintptr_t)tlsf * PS_GOLDEN_64) | (size_t)1 << 63) & PS_FIT_TAG_MASK;
    tlsf->largest_bytes = largest_bytes;
    tlsf->class_count = class_count;
    tlsf->chunks = *chunks;
    tlsf->is_malloc = ps_debug_is_malloc();
    tlsf->is_check = ps_debug_is_check();
    bool is_slow = tlsf->is_malloc || tlsf->is_check;
    tlsf->limit_bytes = is_slow ? 0 : largest_bytes - PS_FIT_UNIT - PS_FIT_HEAD;
    tlsf->expected = is_slow ? ~tlsf->tag : tlsf->tag;
    widen(tlsf, (uintptr_t)tlsf, record_bytes);
    if (range_add(tlsf, (char *)tlsf + record_bytes, bytes - skipped - record_bytes, 0) == NULL) {
        return NULL;
    }
    return tlsf;
}

struct ps_tlsf *ps_tlsf_init(void *buffer, size_t bytes, const struct ps_tlsf_options *options) {
    static const struct ps_tlsf_options none;
    if (options == NULL) {
        options = &none;
    }
    size_t largest_bytes = options->largest_bytes != 0 ? options->largest_bytes : bytes;
    if (buffer == NULL || largest_bytes > (size_t)1 << PS_FIT_LARGEST_SHIFT ||
        bytes > (size_t)1 << PS_FIT_LARGEST_SHIFT) {
        errno = EINVAL;
        return NULL;
    }
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, &options->chunks, "tlsf", FIRST_CHUNK_BYTES, LAST_CHUNK_BYTES);
    struct ps_tlsf *tlsf = set_up(buffer, bytes, power_from(ps_max(largest_bytes, bytes)), &chunks);
    if (tlsf == NULL) {
        errno = EINVAL;
        return NULL;
    }
    tlsf->can_grow = options->can_grow;
    return tlsf;
}

struct ps_tlsf *ps_tlsf_create(const struct ps_tlsf_options *options) {
    size_t largest_bytes = options != NULL && options->largest_bytes != 0
                               ? options->largest_bytes
                               : (size_t)1 << PS_FIT_LARGEST_SHIFT;
    if (largest_bytes > (size_t)1 << PS_FIT_LARGEST_SHIFT) {
        errno = EINVAL;
        return NULL;
    }
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, options != NULL ? &options->chunks : NULL, "tlsf", FIRST_CHUNK_BYTES,
                   LAST_CHUNK_BYTES);
    largest_bytes = power_from(ps_max(largest_bytes, chunks.next_bytes));
    size_t least = sizeof(struct ps_tlsf) + (ps_fit_class_of(largest_bytes) + 1) * sizeof(void *) +
                   sizeof(struct range) + PS_FIT_MIN + (size_t)3 * PS_FIT_UNIT;
    size_t bytes;
    void *chunk = ps_chunk_take(&chunks, least, PS_FIT_UNIT, &bytes);
    if (chunk == NULL) {
        return NULL;
    }
    struct ps_tlsf *tlsf = set_up(chunk, bytes, largest_bytes, &chunks);
    tlsf->can_grow = true;
    tlsf->own_chunk_bytes = bytes;
    return tlsf;
}

bool ps_tlsf_add(struct ps_tlsf *tlsf, void *memory, size_t bytes) {
    if (memory == NULL || bytes < RANGE_BYTES_MIN || range_add(tlsf, memory, bytes, 0) == NULL) {
        errno = EINVAL;
        return false;
    }
    return true;
}

bool ps_tlsf_grow(struct ps_tlsf *tlsf, size_t size, size_t align) {
    size_t least = sizeof(struct range) + size + (size_t)3 * PS_FIT_UNIT;
    least += align > PS_FIT_UNIT ? align + PS_FIT_UNIT : 0;
    if (least > tlsf->largest_bytes) {
        errno = ENOMEM;
        return false;
    }
    /* Room for several blocks of the size, also when it is larger than the next chunk: one chunk
     * for each block would be the source's pattern, not a pool's. */
    struct ps_chunks *chunks = &tlsf->chunks;
    chunks->max_bytes = ps_min(chunks->max_bytes, tlsf->largest_bytes);
    chunks->next_bytes = ps_min(ps_max(chunks->next_bytes, 4 * least), chunks->max_bytes);
    size_t bytes;
    void *chunk = ps_chunk_take(chunks, least, PS_FIT_UNIT, &bytes);
    if (chunk == NULL) {
        return false;
    }
    if (range_add(tlsf, chunk, ps_min(bytes, tlsf->largest_bytes), bytes) == NULL) {
        ps_chunk_give(chunks, chunk, bytes);
        errno = ENOMEM;
        return false;
    }
    return true;
}

/* Takes the free range out of the pool. link: what points to it. */
static void range_drop(struct ps_tlsf *tlsf, struct range **link) {
    struct range *range = *link;
    struct block *first = range_first(range);
    ps_tlsf_unlist(tlsf, first);
    block_unpoison(first, ps_fit_bytes(first->head));
    *link = range->next;
    if (range->chunk_bytes != 0) {
        ps_chunk_give(&tlsf->chunks, range->memory, range->chunk_bytes);
    }
}

bool ps_tlsf_remove(struct ps_tlsf *tlsf, void *memory) {
    struct range **link = &tlsf->ranges;
    while (*link != NULL && (*link)->memory != memory) {
        link = &(*link)->next;
    }
    if (*link == NULL || (*link)->next == NULL || (*link)->chunk_bytes != 0) {
        errno = EINVAL;
        return false;
    }
    if (!range_is_free(*link)) {
        errno = EBUSY;
        return false;
    }
    range_drop(tlsf, link);
    return true;
}

size_t ps_tlsf_trim_to(struct ps_tlsf *tlsf, size_t keep_bytes) {
    size_t given_bytes = 0;
    struct range **link = &tlsf->ranges;
    while (*link != NULL) {
        size_t free_bytes = range_is_free(*link) ? (*link)->chunk_bytes : 0;
        if (free_bytes > keep_bytes) {
            given_bytes += (*link)->chunk_bytes;
            range_drop(tlsf, link);
        } else {
            keep_bytes -= free_bytes;
            link = &(*link)->next;
        }
    }
    return given_bytes;
}

size_t ps_tlsf_trim(struct ps_tlsf *tlsf) { return ps_tlsf_trim_to(tlsf, 0); }

void ps_tlsf_reset(struct ps_tlsf *tlsf) {
    ps_tlsf_drop_lone_blocks(tlsf);
    memset(&tlsf->index, 0, sizeof tlsf->index);
    memset(tlsf->heads, 0, tlsf->class_count * sizeof *tlsf->heads);
    for (struct range *range = tlsf->ranges; range != NULL; range = range->next) {
        range_clear(tlsf, range);
    }
}

void ps_tlsf_destroy(struct ps_tlsf *tlsf) {
    if (tlsf == NULL) {
        return;
    }
    int saved_errno = errno;
    ps_tlsf_reset(tlsf);
    for (struct range **link = &tlsf->ranges; *link != NULL;) {
        range_drop(tlsf, link);
    }
    if (tlsf->own_chunk_bytes != 0) {
        struct ps_chunks chunks = tlsf->chunks;
        ps_chunk_give(&chunks, tlsf, tlsf->own_chunk_bytes);
    }
    errno = saved_errno;
}
