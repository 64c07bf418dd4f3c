/* SPDX-License-Identifier: MIT */
/*
 * See frames.h. The ring is the first block of a region of its own, whose children are the frames.
 * Callers: users.
 */
#include <poolshim/frames.h>

#include <errno.h>

struct ring {
    struct ps_frames hot;
    struct ps_region *holder;
    unsigned count;
    unsigned index; /* regions[index] is hot.current */
    struct ps_region *regions[];
};

struct ps_frames *ps_frames_create(unsigned count, const struct ps_region_options *options) {
    if (count == 0 || count > PS_FRAMES_MAX) {
        errno = EINVAL;
        return NULL;
    }
    struct ps_region_options of_holder = {0};
    if (options != NULL) {
        of_holder = *options;
    }
    of_holder.chunks.first_bytes = 1; /* as short as a chunk can be */
    struct ps_region *holder;
    struct ring *ring = ps_region_create_for(
        sizeof(struct ring) + count * sizeof(struct ps_region *), &of_holder, &holder);
    if (ring == NULL) {
        return NULL;
    }
    ring->holder = holder;
    ring->count = count;
    ring->index = 0;
    for (unsigned i = 0; i < count; i++) {
        ring->regions[i] = ps_region_create_child(holder, options);
        if (ring->regions[i] == NULL) {
            ps_region_destroy(holder);
            errno = ENOMEM;
            return NULL;
        }
    }
    ring->hot.current = ring->regions[0];
    return &ring->hot;
}

struct ps_region *ps_frames_next(struct ps_frames *frames) {
    struct ring *ring = (struct ring *)frames;
    ring->index = ring->index + 1 < ring->count ? ring->index + 1 : 0;
    ring->hot.current = ring->regions[ring->index];
    ps_region_reset(ring->hot.current);
    return ring->hot.current;
}

struct ps_region *ps_frames_before(const struct ps_frames *frames, unsigned age) {
    const struct ring *ring = (const struct ring *)frames;
    if (age >= ring->count) {
        return NULL;
    }
    return ring->regions[age <= ring->index ? ring->index - age : ring->index + ring->count - age];
}

size_t ps_frames_trim_to(struct ps_frames *frames, size_t keep_bytes) {
    struct ring *ring = (struct ring *)frames;
    size_t given = 0;
    for (unsigned i = 0; i < ring->count; i++) {
        given += ps_region_trim_to(ring->regions[i], keep_bytes);
    }
    return given;
}

size_t ps_frames_trim(struct ps_frames *frames, size_t keep_bytes) {
    return ps_frames_trim_to(frames, keep_bytes);
}

void ps_frames_destroy(struct ps_frames *frames) {
    if (frames != NULL) {
        ps_region_destroy(((struct ring *)frames)->holder);
    }
}
