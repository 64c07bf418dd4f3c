/* SPDX-License-Identifier: MIT */
/*
 * A pipeline of two threads: one fills packets, the other reads and frees them. The pool bounds the
 * packets under way; when it is empty, the first thread drops a packet instead of blocking. Checks
 * itself.
 */
#include <poolshim/bounded.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

struct packet {
    unsigned number;
    char text[60];
};

enum { PACKETS = 100000, BOX_COUNT = 256 };
static struct ps_bounded *pool;
static struct packet *x_boxes[BOX_COUNT]; /* packets under way */
static int x_is_over;

static void *fill(void *unused) {
    size_t dropped = 0;
    (void)unused;
    for (unsigned number = 0; number < PACKETS; number++) {
        struct packet *packet = ps_bounded_alloc(pool);
        struct packet **box = &x_boxes[number % BOX_COUNT];
        if (packet == NULL || __atomic_load_n(box, __ATOMIC_ACQUIRE) != NULL) {
            ps_bounded_free(pool, packet);
            dropped++;
            sched_yield();
            continue;
        }
        packet->number = number;
        __atomic_store_n(box, packet, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&x_is_over, 1, __ATOMIC_RELEASE);
    return (void *)dropped;
}

/* Reads and frees the packets under way; returns their number. */
static size_t read_boxes(size_t *wrong) {
    size_t count = 0;
    for (unsigned at = 0; at < BOX_COUNT; at++) {
        struct packet *packet = __atomic_exchange_n(&x_boxes[at], NULL, __ATOMIC_ACQ_REL);
        if (packet != NULL) {
            *wrong += packet->number % BOX_COUNT != at;
            ps_bounded_free(pool, packet);
            count++;
        }
    }
    return count;
}

int main(void) {
    pool = ps_bounded_create(sizeof(struct packet), 0, 128, NULL);
    pthread_t thread;
    if (pool == NULL || pthread_create(&thread, NULL, fill, NULL) != 0) {
        return 1;
    }
    size_t read = 0;
    size_t wrong = 0;
    int is_over = 0;
    do { /* once more after the end */
        is_over = __atomic_load_n(&x_is_over, __ATOMIC_ACQUIRE);
        read += read_boxes(&wrong);
    } while (!is_over);
    void *dropped = NULL;
    pthread_join(thread, &dropped);
    struct ps_bounded_stats stats;
    ps_bounded_stats(pool, &stats);
    printf("%zu packets read, %zu dropped, %zu in use\n", read, (size_t)dropped, stats.used_count);
    ps_bounded_destroy(pool);
    return wrong == 0 && stats.used_count == 0 && read + (size_t)dropped == PACKETS ? 0 : 1;
}
