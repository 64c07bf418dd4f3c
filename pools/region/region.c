/* SPDX-License-Identifier: MIT */
/*
 * A region's life: made in its first chunk or in the caller's buffer, reset, ended; its
 * statistics; the checks of watched regions. Callers: users, this folder.
 */
#include "pools/region/region.h"

#include <errno.h>

#define FAMILY "region"

enum { STATE_BYTES = (sizeof(struct ps_region_state) + 15) / 16 * 16 };

/* Different for each thread that runs. */
static const void *this_thread(void) {
    static __thread char mark;
    return &mark;
}

void ps_region_check_thread(const struct ps_region_state *region) {
    if (PS_UNLIKELY(region->is_watched) && region->owner != this_thread()) {
        ps_debug_misuse("used by another thread than its owner: region", region,
                        region->chunks.name);
    }
}

void ps_region_check_block(const struct ps_region_state *region, const void *block) {
    if (PS_UNLIKELY(region->is_watched) && !ps_region_owns(&region->hot, block)) {
        ps_debug_misuse("pointer that is none of the region's:", block, region->chunks.name);
    }
}

void ps_region_clamp_lengths(struct ps_chunks *chunks) {
    chunks->max_bytes =
        ps_min(ps_max(chunks->max_bytes, PS_REGION_LENGTH_MIN), PS_REGION_LENGTH_MAX);
    chunks->next_bytes =
        ps_min(ps_max(chunks->next_bytes, PS_REGION_LENGTH_MIN), chunks->max_bytes);
    chunks->first_bytes =
        ps_min(ps_max(chunks->first_bytes, PS_REGION_LENGTH_MIN), chunks->max_bytes);
}

static void init_chunks(struct ps_chunks *chunks, const struct ps_region_options *options) {
    static const struct ps_chunks by_default = {
        .next_bytes = PS_REGION_FIRST_BYTES,
        .max_bytes = PS_REGION_MAX_BYTES,
        .first_bytes = PS_REGION_FIRST_BYTES,
        .name = FAMILY,
        .family = FAMILY,
    };
    *chunks = by_default;
    if (options != NULL) {
        ps_chunks_init(chunks, &options->chunks, FAMILY, by_default.next_bytes,
                       by_default.max_bytes);
        ps_region_clamp_lengths(chunks);
    }
    if (PS_UNLIKELY(ps_debug_is_malloc())) {
        chunks->source = ps_source_malloc();
    }
}

/* Blocks of regions are freed with them: only a region that remains is a leak. */
static const struct ps_family family = {.name = FAMILY, .must_end = true};

/* Writes a region that PS_DEBUG does not concern to the start of its first chunk. */
PS_INLINE struct ps_region_state *write_usual(char *memory, size_t usable, size_t taken_bytes,
                                              const struct ps_chunks *chunks, size_t retain_bytes) {
    struct ps_region_state *region = (struct ps_region_state *)(void *)memory;
    char *first = memory + STATE_BYTES;
    /* Not cleared as a whole: GCC writes rep stos then, 20 ns of the 40 of a short life, and a call
     * of memset takes as many instructions as all of this. */
    region->large = NULL;
    region->kept = NULL;
    region->kept_bytes = 0;
    memset(&region->cleanups, 0, sizeof *region - offsetof(struct ps_region_state, cleanups));
    region->hot = (struct ps_region){first, memory + usable, first};
    region->chunk = &region->first;
    region->first =
        (struct ps_region_chunk){NULL, taken_bytes, first, first, first, memory + usable};
    region->retain_bytes = retain_bytes;
    region->peak_bytes = taken_bytes;
    region->chunks = *chunks;
    return region;
}

/* memory: aligned to 16, at least STATE_BYTES + 16. taken_bytes: what returns to the source at
 * the end; 0 for a buffer. */
static struct ps_region *start(char *memory, size_t bytes, size_t taken_bytes,
                               const struct ps_chunks *chunks,
                               const struct ps_region_options *options) {
    size_t usable = ps_round_down(ps_min(bytes, PS_REGION_LENGTH_MAX), PS_ALIGN_DEFAULT);
    struct ps_region_state *region =
        write_usual(memory, usable, taken_bytes, chunks,
                    options != NULL && options->retain_bytes != 0 ? options->retain_bytes
                                                                  : PS_REGION_RETAIN_BYTES);
    region->is_malloc = ps_debug_is_malloc();
    region->is_watched = region->is_malloc || ps_debug_is_check();
    if (PS_UNLIKELY(region->is_watched)) {
        region->owner = this_thread();
        ps_poison(memory + STATE_BYTES, usable - STATE_BYTES);
        ps_region_enter(region);
    }
    ps_registry_note_made(&region->chunks, region, &family);
    return &region->hot;
}

/* Most regions are made without options: then the length and the counts of the first chunk are
 * constants. NULL: no memory. */
static struct ps_region *create_usual(void) {
    static const struct ps_chunks chunks = {
        .next_bytes = (size_t)2 * PS_REGION_FIRST_BYTES,
        .max_bytes = PS_REGION_MAX_BYTES,
        .first_bytes = PS_REGION_FIRST_BYTES,
        .name = FAMILY,
        .family = FAMILY,
        .total_bytes = PS_REGION_FIRST_BYTES,
        .chunk_count = 1,
    };
    char *memory = ps_chunk_pages(FAMILY, NULL, PS_REGION_FIRST_BYTES, PS_ALIGN_DEFAULT);
    return memory == NULL ? NULL
                          : &write_usual(memory, PS_REGION_FIRST_BYTES, PS_REGION_FIRST_BYTES,
                                         &chunks, PS_REGION_RETAIN_BYTES)
                                 ->hot;
}

bool ps_region_enlist(struct ps_region *region) {
    return ps_registry_enter(&ps_region_state(region)->chunks, region, &family);
}

/* room_bytes: for blocks, in the first chunk. */
static struct ps_region *create(size_t room_bytes, const struct ps_region_options *options) {
    struct ps_chunks chunks;
    init_chunks(&chunks, options);
    size_t bytes;
    char *memory = ps_chunk_take(&chunks, STATE_BYTES + room_bytes, PS_ALIGN_DEFAULT, &bytes);
    return memory != NULL ? start(memory, bytes, bytes, &chunks, options) : NULL;
}

struct ps_region *ps_region_create(const struct ps_region_options *options) {
    struct ps_region *usual = NULL;
    if (PS_LIKELY(options == NULL && ps_debug_switches() == PS_DEBUG_IS_READ)) {
        usual = create_usual();
    }
    return PS_LIKELY(usual != NULL) ? usual : create(PS_ALIGN_DEFAULT, options);
}

void *ps_region_create_for(size_t bytes, const struct ps_region_options *options,
                           struct ps_region **region) {
    *region = NULL;
    if (bytes > PTRDIFF_MAX - PS_REGION_INIT_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    /* A request too large for a first chunk becomes a large block of the region. */
    bool fits = bytes <= PS_REGION_LENGTH_MAX - STATE_BYTES - PS_CANARY_COST - PS_ALIGN_DEFAULT;
    size_t room = fits ? ps_round_up(ps_max(bytes, 1), PS_ALIGN_DEFAULT) : 0;
    size_t more = ps_debug_is_check() ? PS_CANARY_COST : 0;
    struct ps_region *made = create(room + more + PS_ALIGN_DEFAULT, options);
    void *block = made != NULL ? ps_region_alloc(made, bytes) : NULL;
    if (block == NULL) {
        ps_region_destroy(made);
        return NULL;
    }
    *region = made;
    return block;
}

struct ps_region *ps_region_init(void *buffer, size_t bytes,
                                 const struct ps_region_options *options) {
    if (buffer == NULL || bytes < PS_REGION_INIT_BYTES) {
        errno = EINVAL;
        return NULL;
    }
    size_t skip = (0 - (uintptr_t)buffer) & (PS_ALIGN_DEFAULT - 1);
    struct ps_chunks chunks;
    init_chunks(&chunks, options);
    return start((char *)buffer + skip, bytes - skip, 0, &chunks, options);
}

struct ps_region *ps_region_create_child(struct ps_region *parent,
                                         const struct ps_region_options *options) {
    struct ps_region_state *above = ps_region_state(parent);
    ps_region_check_thread(above);
    struct ps_region_options mine = {0};
    if (options != NULL) {
        mine = *options;
    }
    if (mine.chunks.source == NULL) {
        mine.chunks.source = above->chunks.source;
    }
    if (mine.chunks.oom == NULL) {
        mine.chunks.oom = above->chunks.oom;
        mine.chunks.oom_context = above->chunks.oom_context;
    }
    if (mine.retain_bytes == 0) {
        mine.retain_bytes = above->retain_bytes;
    }
    struct ps_region *child = ps_region_create(&mine);
    if (child != NULL) {
        ps_region_link(ps_region_state(child), above);
    }
    return child;
}

/* Returns retained chunks to the source until at most keep_bytes are retained. */
static size_t give_kept(struct ps_region_state *region, size_t keep_bytes) {
    size_t given = 0;
    while (region->kept_bytes > keep_bytes) {
        struct ps_region_chunk *chunk = region->kept;
        region->kept = chunk->prev;
        region->kept_bytes -= chunk->bytes;
        given += chunk->bytes;
        ps_region_give_chunk(region, chunk);
    }
    return given;
}

/* The region's record is in its first chunk, which is therefore returned last. */
void ps_region_release(struct ps_region_state *region) {
    while (region->large != NULL) {
        ps_region_drop_large(region, region->large);
    }
    for (struct ps_region_chunk *chunk = region->chunk, *older; chunk != &region->first;
         chunk = older) {
        older = chunk->prev;
        ps_region_give_chunk(region, chunk);
    }
    if (region->kept != NULL) {
        give_kept(region, 0);
    }
    if (PS_LIKELY(region->first.bytes != 0)) {
        ps_chunk_give_last(&region->chunks, region, region->first.bytes);
    } else if (region->is_watched) { /* the caller's buffer is the caller's again */
        ps_unpoison(region->first.start, (size_t)(region->first.end - region->first.start));
    }
}

static void refuse_in_callback(const struct ps_region_state *region) {
    if (region->is_ending) {
        ps_debug_misuse("ended by one of its own callbacks: region", region, region->chunks.name);
    }
}

void ps_region_destroy(struct ps_region *public) {
    if (public == NULL) {
        return;
    }
    struct ps_region_state *region = ps_region_state(public);
    if (PS_UNLIKELY(region->is_watched)) { /* one branch for both checks */
        ps_region_check(public);
    }
    refuse_in_callback(region);
    if (ps_region_has_callbacks(region)) {
        int saved = errno; /* the rest of this function preserves it */
        ps_region_settle(region);
        ps_region_verify(region); /* what the callbacks have written */
        errno = saved;
    }
    if (PS_UNLIKELY(region->parent != NULL)) {
        ps_region_unlink(region);
    }
    ps_registry_note_ended(&region->chunks);
    ps_region_release(region);
}

void ps_region_reset(struct ps_region *public) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    refuse_in_callback(region);
    int error = errno;
    if (ps_region_has_callbacks(region)) {
        ps_region_settle(region);
    }
    if (PS_UNLIKELY(region->is_watched)) {
        ps_region_verify(region);
    }
    while (region->large != NULL) {
        ps_region_drop_large(region, region->large);
    }
    region->free_cleanups = NULL; /* their records are blocks */
    ps_region_rewind(region);
    ps_region_enter(region);
    region->is_ending = false;
    errno = error;
}

size_t ps_region_trim_to(struct ps_region *public, size_t keep_bytes) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    if (PS_UNLIKELY(region->is_watched)) {
        ps_region_verify(region);
    }
    return give_kept(region, keep_bytes);
}

size_t ps_region_trim(struct ps_region *region, size_t keep_bytes) {
    return ps_region_trim_to(region, keep_bytes);
}

const char *ps_region_name(const struct ps_region *region) {
    return ps_region_const_state(region)->chunks.name;
}

void ps_region_set_name(struct ps_region *region, const char *name) {
    struct ps_chunks *chunks = &ps_region_state(region)->chunks;
    chunks->name = name;
    if (PS_UNLIKELY(chunks->record != NULL)) {
        ps_registry_rename(chunks);
    }
}

void ps_region_adopt(struct ps_region *region) { ps_region_state(region)->owner = this_thread(); }

void ps_region_stats(const struct ps_region *public, struct ps_region_stats *stats) {
    const struct ps_region_state *region = ps_region_const_state(public);
    *stats = (struct ps_region_stats){
        .reserved_bytes = region->chunks.total_bytes,
        .peak_bytes = region->peak_bytes,
        .waiting_bytes = region->kept_bytes,
        .next_chunk_bytes = region->chunks.next_bytes,
    };
    for (const struct ps_region_chunk *chunk = region->chunk; chunk != NULL; chunk = chunk->prev) {
        stats->chunk_count++;
        stats->used_bytes += (size_t)(ps_region_top(region, chunk) - chunk->start);
    }
    for (const struct ps_region_large *large = region->large; large != NULL; large = large->next) {
        stats->large_count += ps_region_is_large(region, large);
        stats->used_bytes += large->room_bytes;
    }
    for (const struct ps_region_state *child = region->child; child != NULL;
         child = child->next_sibling) {
        stats->child_count++;
    }
}

bool ps_region_owns(const struct ps_region *public, const void *address) {
    const struct ps_region_state *region = ps_region_const_state(public);
    uintptr_t at = (uintptr_t)address;
    for (const struct ps_region_chunk *chunk = region->chunk; chunk != NULL; chunk = chunk->prev) {
        if (at >= (uintptr_t)chunk->start && at < (uintptr_t)ps_region_top(region, chunk)) {
            return true;
        }
    }
    for (const struct ps_region_large *large = region->large; large != NULL; large = large->next) {
        uintptr_t block = (uintptr_t)(large->base + large->bytes) - large->room_bytes;
        if (at >= block && at - block < large->room_bytes) {
            return true;
        }
    }
    return false;
}
