/* SPDX-License-Identifier: MIT */
/*
 * frames.h - a ring of regions: memory that lives for a number of rounds.
 *
 * A loop that draws, simulates or samples in rounds needs the objects of this round and of the last
 * one, or the last few. Each round has a region; beginning a round empties the oldest and makes it
 * the current one. With count regions, an allocation in a round remains valid for count - 1 rounds
 * more. Nothing is ever freed one by one. After the first few rounds nothing is taken from the
 * source, since the regions retain their memory (options: retain_bytes).
 *
 *     struct ps_frames *frames = ps_frames_create(2, NULL);
 *     for (;;) {
 *         struct ps_region *now = ps_frames_next(frames);
 *         struct state *state = PS_REGION_NEW(now, struct state, 1);
 *         advance(state, before); // before: of the last round, still there
 *         before = state;
 *     }
 *     ps_frames_destroy(frames);
 *
 * pools/examples/frames.c is the whole of it. One thread at a time. From foonathan/memory's
 * iteration allocator; here each round has a whole region, with growth, texts and cleanups.
 */
#ifndef POOLSHIM_FRAMES_H
#define POOLSHIM_FRAMES_H

#include <poolshim/common.h>
#include <poolshim/region.h>

PS_BEGIN_DECLS

/* The library's own: read it by ps_frames_current. */
struct ps_frames {
    struct ps_region *current;
};

#define PS_FRAMES_MAX 65536

/*
 * count: 1 to PS_FRAMES_MAX, else NULL and EINVAL. options: of each region; NULL for the defaults;
 * not retained. Takes count + 1 chunks; NULL and ENOMEM when memory is exhausted. The first region
 * is the current one.
 */
PS_API struct ps_frames *ps_frames_create(unsigned count, const struct ps_region_options *options);

/* The region of this round. O(1). */
static inline struct ps_region *ps_frames_current(const struct ps_frames *frames) {
    return frames->current;
}

/*
 * Begins a round: resets the oldest region, as ps_region_reset does, cleanups included, and returns
 * it. All blocks of count rounds ago are freed. Only the owner may end or move it.
 */
PS_API struct ps_region *ps_frames_next(struct ps_frames *frames) PS_NOEXCEPT;

/* The region of `age` rounds ago; 0 is the current one. NULL when age is count or more. O(1). */
PS_API struct ps_region *ps_frames_before(const struct ps_frames *frames, unsigned age) PS_NOEXCEPT;

/* Returns the regions' retained chunks to the source, except keep_bytes in each. Returns the bytes
 * released. O(count + chunks). */
PS_API size_t ps_frames_trim_to(struct ps_frames *frames, size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_frames_trim_to")
PS_API size_t ps_frames_trim(struct ps_frames *frames, size_t keep_bytes) PS_NOEXCEPT;

/* Destroys all regions, with their cleanups. NULL does nothing. Preserves errno. */
PS_API void ps_frames_destroy(struct ps_frames *frames) PS_NOEXCEPT;

PS_END_DECLS

#endif
