/* SPDX-License-Identifier: MIT */
/*
 * Inspects a TLSF pool without changing it: walk, check, statistics. See tlsf.h.
 */
#include "pools/tlsf/tlsf.h"

size_t ps_tlsf_usable_size(const struct ps_tlsf *tlsf, const void *payload) {
    if (payload == NULL) {
        return 0;
    }
    ps_tlsf_check_used(tlsf, payload);
    if (tlsf->is_malloc) {
        return PS_CONTAINER_OF((char *)(uintptr_t)payload - PS_FIT_HEAD, struct lone_block, head)
            ->bytes;
    }
    return ps_fit_bytes(block_of(payload)->head) - PS_FIT_HEAD;
}

const char *ps_tlsf_name(const struct ps_tlsf *tlsf) { return tlsf->chunks.name; }

bool ps_tlsf_owns(const struct ps_tlsf *tlsf, const void *pointer) {
    for (const struct range *range = tlsf->ranges; range != NULL; range = range->next) {
        if ((uintptr_t)pointer - (uintptr_t)range_first(range) <
            (uintptr_t)range_stopper(range) - (uintptr_t)range_first(range)) {
            return true;
        }
    }
    for (const struct lone_block *lone = tlsf->lone_blocks; lone != NULL; lone = lone->next) {
        if ((uintptr_t)pointer - (uintptr_t)(lone + 1) < ps_max(lone->bytes, 1)) {
            return true;
        }
    }
    return false;
}

void ps_tlsf_walk(const struct ps_tlsf *tlsf, ps_tlsf_visitor *visit, void *context) {
    for (const struct lone_block *lone = tlsf->lone_blocks; lone != NULL;) {
        const struct lone_block *next = lone->next;
        visit(context, (void *)(uintptr_t)(lone + 1), lone->bytes, true);
        lone = next;
    }
    for (const struct range *range = tlsf->ranges; range != NULL; range = range->next) {
        struct block *stopper = range_stopper(range);
        for (struct block *block = range_first(range); block < stopper;) {
            size_t size = ps_fit_bytes(block->head);
            if (((block->head ^ tlsf->tag) & PS_FIT_TAG_MASK) != 0 || size < PS_FIT_MIN ||
                size > (size_t)((char *)stopper - (char *)block)) {
                ps_tlsf_damaged(tlsf, "overwritten head of block", block);
            }
            struct block *behind = block_at(block, size);
            visit(context, block_payload(block), size - PS_FIT_HEAD,
                  (block->head & PS_FIT_FREE) == 0);
            block = behind;
        }
    }
}

static void count(void *context, void *payload, size_t bytes, bool is_used) {
    struct ps_tlsf_stats *stats = context;
    (void)payload;
    if (is_used) {
        stats->used_bytes += bytes;
        stats->used_count++;
    } else {
        stats->free_bytes += bytes;
        stats->free_count++;
        stats->largest_free_bytes = ps_max(stats->largest_free_bytes, bytes);
    }
}

void ps_tlsf_stats(const struct ps_tlsf *tlsf, struct ps_tlsf_stats *stats) {
    *stats = (struct ps_tlsf_stats){.chunk_bytes = tlsf->chunks.total_bytes};
    for (const struct range *range = tlsf->ranges; range != NULL; range = range->next) {
        stats->range_count++;
        stats->range_bytes += range->bytes;
    }
    ps_tlsf_walk(tlsf, count, stats);
}

/* True when a link can be read: it is a list's head or the `next` of a block in a range. */
static bool is_link(const struct ps_tlsf *tlsf, uintptr_t link) {
    return link % sizeof(void *) == 0 &&
           (link - (uintptr_t)tlsf->heads < tlsf->class_count * sizeof *tlsf->heads ||
            ps_tlsf_owns(tlsf, (const void *)link));
}

/* True when the list of a free block leads to it and through it. */
static bool is_listed(const struct ps_tlsf *tlsf, struct block *block) {
    if (!is_link(tlsf, (uintptr_t)block->slot) || *block->slot != block) {
        return false;
    }
    struct block *next = block->next;
    return next == NULL || (is_link(tlsf, (uintptr_t)next + offsetof(struct block, slot)) &&
                            next->slot == &block->next);
}

/* One block in its place: the head, and what its neighbours and its list say of it. */
static const char *block_fault(const struct ps_tlsf *tlsf, struct block *block,
                               const struct block *stopper, bool is_behind_free) {
    size_t size = ps_fit_bytes(block->head);
    if ((block->head & PS_FIT_TAG_MASK) != tlsf->tag) {
        return "a head is overwritten";
    }
    if (size < PS_FIT_MIN || size > (size_t)((const char *)stopper - (char *)block)) {
        return "a block ends outside its range";
    }
    if (((block->head & PS_FIT_PREVIOUS_FREE) != 0) != is_behind_free) {
        return "a head is wrong about the block before it";
    }
    if ((block->head & PS_FIT_FREE) == 0) {
        return NULL;
    }
    if (is_behind_free) {
        return "two free blocks are side by side";
    }
    if (*block_back(block_at(block, size)) != block) {
        return "a free block's back pointer is overwritten";
    }
    if (!is_listed(tlsf, block)) {
        return "a free block is not on its list";
    }
    return NULL;
}

/* Counts the free blocks of the range. */
static const char *range_fault(const struct ps_tlsf *tlsf, const struct range *range,
                               size_t *free_count) {
    struct block *stopper = range_stopper(range);
    struct block *block = range_first(range);
    bool is_before_free = false;
    while (block < stopper) {
        const char *fault = block_fault(tlsf, block, stopper, is_before_free);
        if (fault != NULL) {
            return fault;
        }
        is_before_free = (block->head & PS_FIT_FREE) != 0;
        *free_count += is_before_free;
        block = block_at(block, ps_fit_bytes(block->head));
    }
    if (stopper->head != (tlsf->tag | (is_before_free ? PS_FIT_PREVIOUS_FREE : 0))) {
        return "a range's stopper is overwritten";
    }
    return NULL;
}

/* Counts the blocks on the lists down; more than there are is a fault too, so it ends. */
static const char *lists_fault(const struct ps_tlsf *tlsf, size_t free_count) {
    for (size_t class = 0; class < tlsf->class_count; class ++) {
        if (ps_fit_has(&tlsf->index, class) != (tlsf->heads[class] != NULL)) {
            return "a bit is wrong about its list";
        }
        for (struct block *block = tlsf->heads[class]; block != NULL; block = block->next) {
            if (free_count-- == 0) {
                return "a list has more blocks than are free";
            }
            if ((block->head & PS_FIT_FREE) == 0 ||
                ps_fit_class_of(ps_fit_bytes(block->head)) != class) {
                return "a block is on the list of another class";
            }
        }
    }
    return free_count != 0 ? "a free block is on no list" : NULL;
}

const char *ps_tlsf_check(const struct ps_tlsf *tlsf) {
    size_t free_count = 0;
    for (const struct range *range = tlsf->ranges; range != NULL; range = range->next) {
        const char *fault = range_fault(tlsf, range, &free_count);
        if (fault != NULL) {
            return fault;
        }
    }
    if (!ps_fit_check(&tlsf->index)) {
        return "the summary is wrong about its bits";
    }
    return lists_fault(tlsf, free_count);
}
