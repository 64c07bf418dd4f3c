/* SPDX-License-Identifier: MIT */
/*
 * The example of frames.h: a simulation that needs the state of the last round to make the next.
 * Exits 0 when all is as it should be.
 */
#include <poolshim/frames.h>

struct state {
    const struct state *before;
    unsigned round;
    unsigned sum;
};

int main(void) {
    struct ps_frames *frames = ps_frames_create(2, NULL);
    const struct state *before = NULL;
    for (unsigned round = 1; round <= 1000; round++) {
        struct ps_region *now = ps_frames_next(frames);
        struct state *state = PS_REGION_NEW(now, struct state, 1);
        *state = (struct state){before, round, round + (before != NULL ? before->sum : 0)};
        before = state; /* valid in the next round, freed in the one after */
    }
    int is_good = before->sum == 500500 && before->before->round == 999;
    ps_frames_destroy(frames);
    return is_good ? 0 : 1;
}
