/* SPDX-License-Identifier: MIT */
/*
 * See watch.h.
 */
#include "pools/engine/page/watch.h"

const struct ps_pools_watch *ps_watch_x_set;

void ps_watch_set(const struct ps_pools_watch *watch) {
    if (watch != NULL) {
        ps_store_release(&ps_watch_x_set, watch); /* release: pairs with ps_watch_now */
    }
}
