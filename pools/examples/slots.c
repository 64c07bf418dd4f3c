/* SPDX-License-Identifier: MIT */
/*
 * Timers that are cancelled by handle, also after they have fired and their memory serves another
 * timer. Checks itself.
 */
#include <poolshim/slots.h>
#include <stdio.h>

struct timer {
    unsigned due;
    unsigned owner;
};

enum { ROUNDS = 1000 };

int main(void) {
    struct ps_slots timers;
    struct ps_slots_options options = {.chunks = {.name = "timers"}};
    if (!ps_slots_init(&timers, sizeof(struct timer), 0, &options)) {
        return 1;
    }
    uint64_t watchdogs[4] = {0};
    unsigned fired = 0;
    unsigned cancelled = 0;
    unsigned too_late = 0;
    for (unsigned now = 0; now < ROUNDS; now++) {
        uint64_t *watchdog = &watchdogs[now % 4]; /* each owner cancels its own and sets it anew */
        if (*watchdog != 0) {
            bool was_pending = ps_slots_remove(&timers, *watchdog);
            cancelled += was_pending;
            too_late += !was_pending; /* it has fired: the handle is stale */
        }
        struct timer *timer = NULL;
        *watchdog = ps_slots_insert(&timers, (void **)&timer);
        if (*watchdog == 0) {
            return 1;
        }
        *timer = (struct timer){.due = now + 1 + now % 7, .owner = now % 4};
        struct ps_slots_cursor cursor = ps_slots_begin();
        while ((timer = ps_slots_next(&timers, &cursor)) != NULL) {
            if (timer->due <= now) {
                fired++;
                ps_slots_remove(&timers, ps_slots_handle(timer));
            }
        }
    }
    size_t pending = timers.live_count;
    printf("%u fired, %u cancelled, %u were too late, %zu pending\n", fired, cancelled, too_late,
           pending);
    ps_slots_destroy(&timers);
    return fired + cancelled + pending == ROUNDS && too_late != 0 && cancelled != 0 ? 0 : 1;
}
