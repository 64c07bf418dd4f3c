/* SPDX-License-Identifier: MIT */
/*
 * See clock.h.
 */
#include "pools/engine/os/clock.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/os/auxiliary.h"
#include "pools/engine/os/syscall.h"

typedef int clock_function(clockid_t id, struct timespec *out);

/* For processes without the vDSO, as under valgrind. */
static int read_by_call(clockid_t id, struct timespec *out) {
    return (int)ps_syscall3(SYS_clock_gettime, id, (long)out, 0);
}

static clock_function *choose_reader(void) {
    static clock_function *x_found;
    clock_function *found = ps_load_relaxed(&x_found); /* relaxed, both: all find the same */
    if (PS_UNLIKELY(found == NULL)) {
        found = (clock_function *)ps_auxiliary_vdso(PS_VDSO("clock_gettime"));
        found = found != NULL ? found : read_by_call;
        ps_store_relaxed(&x_found, found);
    }
    return found;
}

void ps_clock_read(clockid_t id, struct timespec *out) {
    *out = (struct timespec){.tv_sec = 0};
    (void)choose_reader()(id, out);
}

uint64_t ps_clock_steady(struct ps_clock *clock, ps_clock_reader *reader) {
    for (;;) { /* ends: another thread has just set the offset, or this one does */
        /* Both words come before the system's time. acquire: pairs with the release below; a thread
         * that reads an offset reads the system's time after the step that the offset is for. */
        uint64_t offset = ps_load_acquire(&clock->x_offset);
        uint64_t last = ps_load_acquire(&clock->x_last); /* acquire: as above */
        uint64_t now = reader() + offset;
        if (PS_LIKELY(now >= last)) {
            /* release: see above. Ends: each failure is another thread's progress. */
            while (now > last && !ps_cas_strong_acq_rel(&clock->x_last, &last, now)) {
            }
            return now;
        }
        if (ps_cas_strong_acq_rel(&clock->x_offset, &offset, offset + last - now)) {
            return last;
        }
    }
}
