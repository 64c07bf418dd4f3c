/* SPDX-License-Identifier: MIT */
/*
 * See pages.h.
 */
#include <poolshim/pages.h>

#include "pools/base/bits.h"
#include "pools/os/lock.h"
#include "pools/os/os.h"
#include "pools/page/page_cache.h"
#include "pools/page/purge.h"

#include <errno.h>
#include <string.h>

static struct ps_lock start_lock = PS_LOCK_INIT(PS_RANK_INIT);
static uint32_t x_is_started;

static void start(void) {
    if (ps_load_acquire(&x_is_started) == 0) { /* acquire: pairs with the release below */
        ps_lock_acquire(&start_lock);
        if (x_is_started == 0) {
            struct ps_config config = PS_CONFIG_DEFAULT;
            ps_page_cache_start(&config);
            ps_purge_start(config.purge_delay_ms);
            ps_store_release(&x_is_started, 1u); /* release: makes the page layer visible */
        }
        ps_lock_release(&start_lock);
    }
}

void *ps_pages_alloc(size_t bytes, size_t align) {
    start();
    size_t slices = bytes == 0 ? 1 : (bytes + PS_SLICE_BYTES - 1) >> PS_SLICE_SHIFT;
    struct ps_run *run = ps_page_cache_take(slices, ps_max(align >> PS_SLICE_SHIFT, 1));
    if (run == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    return run->base;
}

void *ps_pages_zalloc(size_t bytes, size_t align) {
    void *pages = ps_pages_alloc(bytes, align);
    return pages != NULL ? memset(pages, 0, bytes) : NULL;
}

void ps_pages_free(void *pages, size_t bytes) {
    (void)bytes;
    ps_page_cache_give(&ps_page_map_slot(pages)->run);
}
