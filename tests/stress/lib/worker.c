/* SPDX-License-Identifier: MIT */
/*
 * The random walk of one worker; see worker.h. Two kinds of steps: single ones on the table (make,
 * free, regrow, read), and bursts: many blocks in one go, freed in order, in reverse, interleaved
 * or scattered, here or by another thread, as allocators treat sequences apart.
 */
#include "tests/stress/lib/worker.h"

#include "tests/stress/lib/finding.h"
#include "tests/stress/lib/mailbox.h"

#include <malloc.h>

enum order { FORWARD, REVERSE, INTERLEAVED, SCATTERED, ORDERS };

static size_t order_index(enum order order, size_t i, size_t count) {
    size_t half = (count + 1) / 2;
    switch (order) {
    case FORWARD:
        return i;
    case REVERSE:
        return count - 1 - i;
    default:
        return i < half ? 2 * i : 2 * (i - half) + 1;
    }
}

static void shuffle(struct block *blocks, size_t count, struct random_state *random) {
    for (size_t i = count; i > 1; i--) {
        size_t other = random_below(random, (uint32_t)i);
        struct block swapped = blocks[i - 1];
        blocks[i - 1] = blocks[other];
        blocks[other] = swapped;
    }
}

static void give_back_all(struct worker *worker, struct block *blocks, size_t count) {
    enum order order = (enum order)random_below(&worker->random, ORDERS);
    if (order == SCATTERED) {
        shuffle(blocks, count, &worker->random);
        order = FORWARD;
    }
    for (size_t i = 0; i < count; i++) {
        block_give_back(&blocks[order_index(order, i, count)], &worker->random);
    }
}

static void free_slot(struct worker *worker, struct block *slot) {
    worker->live_bytes -= slot->size;
    block_give_back(slot, &worker->random);
}

/* Frees random blocks until `size` more fit. */
static void make_room(struct worker *worker, size_t size) {
    while (worker->live_bytes + size > worker->live_bytes_max && worker->live_bytes > 0) {
        struct block *slot = &worker->slots[random_below(&worker->random, WORKER_SLOTS)];
        if (slot->bytes != NULL) {
            free_slot(worker, slot);
        }
    }
}

static void fill_slot(struct worker *worker, struct block *slot) {
    size_t size = sizes_next(&worker->sizes, &worker->random);
    make_room(worker, size);
    block_make(slot, block_random_call(&worker->random), size, &worker->random);
    worker->live_bytes += slot->bytes != NULL ? size : 0;
}

static void resize_slot(struct worker *worker, struct block *slot) {
    size_t size = sizes_next(&worker->sizes, &worker->random);
    if (random_below(&worker->random, 2) == 0) {
        size_t doubled = slot->size * 2;
        size = doubled <= (size_t)32 << 20 ? doubled : size;
    }
    worker->live_bytes -= slot->size;
    if (worker->live_bytes + size > worker->live_bytes_max) {
        size = slot->size / 2;
    }
    block_resize(slot, size, &worker->random);
    worker->live_bytes += slot->bytes != NULL ? slot->size : 0;
}

static void step_on_table(struct worker *worker) {
    struct block *slot = &worker->slots[random_below(&worker->random, WORKER_SLOTS)];
    if (slot->bytes == NULL) {
        fill_slot(worker, slot);
        return;
    }
    uint32_t kind = random_below(&worker->random, 16);
    if (kind < 11) {
        free_slot(worker, slot);
        if (kind < 7) {
            fill_slot(worker, slot);
        }
    } else if (kind < 14 && block_is_of_malloc(slot)) {
        resize_slot(worker, slot);
    } else if (kind <= 14) {
        block_verify(slot);
    } else {
        struct block posted = *slot;
        __atomic_store_n(&slot->bytes, NULL, __ATOMIC_RELEASE);
        if (mailbox_put(random_below(&worker->random, MAILBOX_COUNT), &posted, 1) == 1) {
            worker->live_bytes -= posted.size;
        } else {
            __atomic_store_n(&slot->bytes, posted.bytes, __ATOMIC_RELEASE);
        }
    }
}

/* What others have left: frees it in some order, as the thread that never made it. */
static void step_on_mailbox(struct worker *worker) {
    size_t wanted = random_log_uniform(&worker->random, 1, WORKER_BURST);
    unsigned box = random_below(&worker->random, MAILBOX_COUNT);
    size_t count = mailbox_take(box, worker->burst, wanted);
    if (count > 0) {
        give_back_all(worker, worker->burst, count);
    }
}

static void make_burst(struct worker *worker, size_t count, size_t size, int is_uniform) {
    enum block_call call = block_random_call(&worker->random);
    for (size_t i = 0; i < count; i++) {
        if (!is_uniform) {
            size = sizes_next_small(&worker->sizes, &worker->random);
            call = block_random_call(&worker->random);
        }
        block_make(&worker->burst[i], call, size, &worker->random);
    }
}

/* Posts a burst whole, or half of it, every other block; the rest is freed here. */
static void post_burst(struct worker *worker, size_t count) {
    unsigned box = random_below(&worker->random, MAILBOX_COUNT);
    size_t posted = mailbox_put(box, worker->burst, count);
    for (size_t i = 0; i < posted; i++) {
        worker->burst[i].bytes = NULL;
    }
    if (posted < count) {
        give_back_all(worker, worker->burst + posted, count - posted);
    }
}

static void step_in_burst(struct worker *worker) {
    size_t count = random_log_uniform(&worker->random, 16, WORKER_BURST);
    size_t size = sizes_next_small(&worker->sizes, &worker->random);
    int is_uniform = random_below(&worker->random, 4) != 0;
    if (count * size > worker->live_bytes_max / 2) {
        count = worker->live_bytes_max / 2 / (size + 1) + 1;
    }
    make_burst(worker, count, size, is_uniform);
    switch (random_below(&worker->random, 4)) {
    case 0:
        post_burst(worker, count);
        break;
    case 1: { /* half now, then as many again into the gaps, then all */
        for (size_t i = 0; i < count; i += 2) {
            block_give_back(&worker->burst[i], &worker->random);
        }
        for (size_t i = 0; i < count; i += 2) {
            block_make(&worker->burst[i], BLOCK_MALLOC, size, &worker->random);
        }
        give_back_all(worker, worker->burst, count);
        break;
    }
    default:
        give_back_all(worker, worker->burst, count);
        break;
    }
}

/* Calls that are not about one block. A trim purges everything that is free, so it is rare. */
static void step_beside(struct worker *worker) {
    uint32_t kind = random_below(&worker->random, 64);
    if (kind == 0) {
        finding_place.operation++;
        malloc_trim(0);
    } else if (kind == 1) {
        finding_place.operation++;
        malloc_trim(random_log_uniform(&worker->random, 1, (uint64_t)64 << 20));
    } else if (kind == 2) {
        finding_place.operation++;
        (void)mallinfo2();
    } else {
        block_ask_impossible(&worker->random);
    }
}

void worker_run(struct worker *worker, uint64_t operations) {
    uint64_t end = finding_place.operation + operations;
    sizes_choose_profile(&worker->sizes, &worker->random);
    while (finding_place.operation < end) {
        uint32_t kind = random_below(&worker->random, 8192);
        if (kind >= 40) {
            step_on_table(worker);
        } else if (kind >= 20) {
            step_on_mailbox(worker);
        } else if (kind >= 2) {
            step_in_burst(worker);
        } else {
            step_beside(worker);
        }
    }
}

void worker_leave(struct worker *worker) {
    uint32_t kind = random_below(&worker->random, 4);
    if (kind == 0) {
        worker_free_all(worker);
    }
    for (size_t i = 0; kind == 1 && i < WORKER_SLOTS; i++) {
        struct block posted = worker->slots[i];
        __atomic_store_n(&worker->slots[i].bytes, NULL, __ATOMIC_RELEASE);
        if (posted.bytes == NULL) {
            continue;
        }
        if (mailbox_put((unsigned)(i % MAILBOX_COUNT), &posted, 1) == 1) {
            worker->live_bytes -= posted.size;
        } else {
            __atomic_store_n(&worker->slots[i].bytes, posted.bytes, __ATOMIC_RELEASE);
        }
    }
}

void worker_free_all(struct worker *worker) {
    for (size_t i = 0; i < WORKER_SLOTS; i++) {
        if (worker->slots[i].bytes != NULL) {
            free_slot(worker, &worker->slots[i]);
        }
    }
    worker->live_bytes = 0;
}

void worker_empty_mailboxes(struct worker *worker) {
    for (unsigned box = 0; box < MAILBOX_COUNT; box++) {
        for (;;) {
            size_t count = mailbox_take(box, worker->burst, WORKER_BURST);
            if (count == 0) {
                break;
            }
            give_back_all(worker, worker->burst, count);
        }
    }
}
