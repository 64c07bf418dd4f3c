/* SPDX-License-Identifier: MIT */
/*
 * A bump allocator for metadata. See metadata.h. Lock: metadata_lock, protects all variables here;
 * held over the mapping of a new 256 KiB piece, four times per megabyte.
 */
#include "pools/engine/page/metadata.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"

#define PIECE_BYTES ((size_t)256 << 10)
#define TAKE_ALIGN ((size_t)128)  /* a slot of the page map */
#define LONG_ALIGN ((size_t)4096) /* of long structures */

PS_UNDO_LOG(metadata_undo, 4);
static struct ps_lock metadata_lock = PS_LOCK_INIT_UNDO(PS_RANK_METADATA, &metadata_undo);
static char *piece_next;
static char *piece_end;
uint64_t ps_metadata_x_bytes;

static void *count_locked(void *base, size_t bytes) {
    if (base != NULL) {
        PS_UNDO_NOTE(&metadata_undo, ps_metadata_x_bytes);
        ps_owner_add(&ps_metadata_x_bytes, bytes);
    }
    return base;
}

static void *map_locked(size_t bytes) {
    return count_locked(ps_os_reserve(bytes, ps_os_page_bytes()), bytes);
}

void *ps_metadata_map(size_t bytes) {
    ps_lock_acquire(&metadata_lock);
    void *base = map_locked(bytes);
    ps_lock_release(&metadata_lock);
    return base;
}

void *ps_metadata_map_closed(size_t bytes) {
    ps_lock_acquire(&metadata_lock);
    void *base = count_locked(ps_os_reserve_closed(bytes, ps_os_page_bytes()), bytes);
    ps_lock_release(&metadata_lock);
    return base;
}

bool ps_metadata_map_at(void *base, size_t bytes) {
    ps_lock_acquire(&metadata_lock);
    bool is_mapped = ps_os_reserve_at(base, bytes);
    if (is_mapped) {
        PS_UNDO_NOTE(&metadata_undo, ps_metadata_x_bytes);
        ps_owner_add(&ps_metadata_x_bytes, bytes);
    }
    ps_lock_release(&metadata_lock);
    return is_mapped;
}

void *ps_metadata_take(size_t bytes) {
    size_t align = bytes < LONG_ALIGN ? TAKE_ALIGN : LONG_ALIGN;
    size_t rounded = ps_round_up(bytes, align);
    ps_lock_acquire(&metadata_lock);
    char *result = (char *)ps_round_up((uintptr_t)piece_next, align);
    if ((size_t)(piece_end - piece_next) < (size_t)(result - piece_next) + rounded) {
        char *piece = map_locked(PIECE_BYTES);
        if (piece == NULL) {
            /* near a limit: map the needed bytes only, and preserve the old piece */
            piece = map_locked(ps_round_up(bytes, ps_os_page_bytes()));
            ps_lock_release(&metadata_lock);
            return piece;
        }
        PS_UNDO_NOTE(&metadata_undo, piece_next);
        PS_UNDO_NOTE(&metadata_undo, piece_end);
        piece_next = piece;
        piece_end = piece + PIECE_BYTES;
        result = piece;
    }
    piece_next = result + rounded;
    ps_lock_release(&metadata_lock);
    return result;
}

void ps_metadata_fork_child(void) { ps_lock_fork_child(&metadata_lock); }
