/* SPDX-License-Identifier: MIT */
/*
 * See lasting.h.
 */
#include "shim/lasting.h"

#include "pools/engine/base/atomic.h"

#include <errno.h>

static struct ps_partition *x_spare; /* made twice, by two threads; NULL: none */

PS_COLD struct ps_partition *ps_lasting_make(struct ps_partition **x_place, const char *name) {
    int saved_errno = errno;
    struct ps_partition *none = NULL;
    /* acq_rel: the spare one is complete. */
    struct ps_partition *made = ps_exchange_acq_rel(&x_spare, NULL);
    if (made == NULL) {
        made = ps_partition_create(NULL, 0);
        errno = saved_errno;
        if (made == NULL) {
            return NULL;
        }
        (void)ps_partition_add_fronts(made); /* without, each call takes a lock */
    }
    ps_partition_set_name(made, name);
    /* acq_rel: the partition is complete. */
    if (!ps_cas_strong_acq_rel(x_place, &none, made)) {
        (void)ps_exchange_acq_rel(&x_spare, made); /* another spare, if any, remains unused */
        return none;
    }
    return made;
}
