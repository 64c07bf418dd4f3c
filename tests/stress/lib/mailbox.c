/* SPDX-License-Identifier: MIT */
/* Boxes of blocks between threads; see mailbox.h. */
#include "tests/stress/lib/mailbox.h"

#include <pthread.h>
#include <string.h>

#define CAPACITY 4096

struct mailbox {
    pthread_mutex_t lock;
    size_t count; /* under lock, as are the following */
    size_t bytes;
    struct block blocks[CAPACITY];
};

static struct mailbox boxes[MAILBOX_COUNT];
static size_t bytes_limit;

void mailbox_start(size_t bytes) {
    bytes_limit = bytes;
    for (unsigned i = 0; i < MAILBOX_COUNT; i++) {
        pthread_mutex_init(&boxes[i].lock, NULL);
    }
}

size_t mailbox_put(unsigned box, const struct block *blocks, size_t count) {
    struct mailbox *mailbox = &boxes[box];
    size_t taken = 0;
    pthread_mutex_lock(&mailbox->lock);
    while (taken < count && mailbox->count < CAPACITY &&
           mailbox->bytes + blocks[taken].size <= bytes_limit) {
        mailbox->bytes += blocks[taken].size;
        mailbox->blocks[mailbox->count++] = blocks[taken++];
    }
    pthread_mutex_unlock(&mailbox->lock);
    return taken;
}

size_t mailbox_take(unsigned box, struct block *blocks, size_t count) {
    struct mailbox *mailbox = &boxes[box];
    pthread_mutex_lock(&mailbox->lock);
    size_t taken = count < mailbox->count ? count : mailbox->count;
    memcpy(blocks, mailbox->blocks, taken * sizeof *blocks);
    mailbox->count -= taken;
    memmove(mailbox->blocks, mailbox->blocks + taken, mailbox->count * sizeof *blocks);
    for (size_t i = 0; i < taken; i++) {
        mailbox->bytes -= blocks[i].size;
    }
    pthread_mutex_unlock(&mailbox->lock);
    return taken;
}

void mailbox_lock_all(void) {
    for (unsigned i = 0; i < MAILBOX_COUNT; i++) {
        pthread_mutex_lock(&boxes[i].lock);
    }
}

void mailbox_unlock_all(void) {
    for (unsigned i = 0; i < MAILBOX_COUNT; i++) {
        pthread_mutex_unlock(&boxes[i].lock);
    }
}
