/* SPDX-License-Identifier: MIT */
/*
 * Confirmation of a double free. The first word of a freed block is a link near the block (link.h).
 * A live block has such a word, too, when the program copied the first bytes of a freed block of
 * the same span into it: reading freed memory is a fault of the program, but no double free, and
 * other allocators let it pass. So before the library reports a block as free by its word alone, it
 * searches all places of freed blocks: the lists of its span, and the batches and caches of threads
 * and processors.
 *
 * Other threads change these meanwhile. The search therefore runs in a child of the process, made
 * by the system call clone without shared memory: a snapshot, in which no other thread exists, and
 * which is consistent at each instant, as for a fork. It reads only and ends with its answer. The
 * program is not notified: no fork handler runs, and no signal is sent when the child ends.
 *
 * Cost: a fork, once per suspicious word; a correct program has none. If the system refuses one,
 * and for a block that another thread is moving at this moment, the word decides. Locks: none. Any
 * thread; preserves errno.
 */
#ifndef PS_HEAP_CONFIRM_H
#define PS_HEAP_CONFIRM_H

#include "pools/engine/small/span.h"

#include <stdbool.h>

/* True if a block whose word is a link of its span is free. After PS_CONFIRM_DENIALS answers that
 * it is not, always false: the program copies freed memory, and its words mean nothing. */
bool ps_confirm_is_listed(const struct ps_span *span, const void *block);

#define PS_CONFIRM_DENIALS 256

#endif
