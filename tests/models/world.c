/* SPDX-License-Identifier: MIT */
/*
 * See world.h. Replaces metadata.c, lock.c and fatal.c.
 */
#include "world.h"

#include "pools/engine/os/fatal.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"

#define METADATA_BYTES ((size_t)8 << 20)

__thread uint32_t ps_lock_thread_id;

static PS_ALIGNED(65536) char memory[WORLD_GRANULES][PS_GRANULE_BYTES];
static PS_ALIGNED(65536) char metadata[METADATA_BYTES];
static size_t metadata_used;

void ps_check_failed(const char *text) { explore_fail(text); }

/* ---- locks ---- */

uint32_t ps_lock_ask_thread_id(void) { return ps_lock_thread_id = explore_thread() + 1; }

void ps_lock_acquire_slow(struct ps_lock *lock) {
    do { /* ends: the explorer finds deadlocks */
        explore_until_zero(&lock->x_state);
    } while (!ps_lock_try(lock));
}

void ps_lock_check_acquire(const struct ps_lock *lock) { (void)lock; }

void ps_lock_check_release(const struct ps_lock *lock) { (void)lock; }

bool ps_lock_fork_child(struct ps_lock *lock) { return lock->x_state == 0; }

void ps_lock_watch_forks(void) {}

bool ps_lock_is_forking(void) { return false; }

/* ---- the page layer ---- */

void *ps_metadata_map(size_t bytes) { return ps_metadata_take(bytes); }

bool ps_metadata_map_at(void *base, size_t bytes) {
    (void)base, (void)bytes;
    return false;
}

void *ps_metadata_take(size_t bytes) {
    char *taken = metadata + metadata_used;
    metadata_used += (bytes + 65535) & ~(size_t)65535;
    EXPLORE_ASSERT(metadata_used <= METADATA_BYTES);
    return taken;
}

bool ps_os_is_mapped(const void *address) { return address != NULL; }

uint64_t ps_os_now_ms(void) { return 0; }

uint64_t ps_os_random(void) { return 0; }

void ps_os_advise_huge(void *base, size_t bytes, bool is_on) {
    (void)base, (void)bytes, (void)is_on;
}

/* ---- for scenarios ---- */

bool world_cover(void) { return ps_page_map_cover(memory, sizeof memory); }

char *world_granule(size_t index) { return memory[index]; }
