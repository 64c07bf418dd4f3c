/* SPDX-License-Identifier: MIT */
/*
 * The example of fifo.h: a sender stores each message until it is acknowledged, and
 * acknowledgements come nearly in order. Exits 0 when all is as it should be.
 */
#include <poolshim/fifo.h>
#include <string.h>

enum { MESSAGES = 100000, WINDOW = 64 };

struct message {
    unsigned number;
    unsigned length;
    char text[];
};

static struct message *make_message(struct ps_fifo *fifo, unsigned number) {
    unsigned length = number % 200;
    struct message *message = ps_fifo_alloc(fifo, sizeof *message + length);
    if (message != NULL) {
        message->number = number;
        message->length = length;
        memset(message->text, 'x', length);
    }
    return message;
}

int main(void) {
    struct ps_fifo *fifo = ps_fifo_create(NULL);
    struct message *unacknowledged[WINDOW] = {NULL};
    unsigned acknowledged = 0;
    for (unsigned number = 0; number < MESSAGES; number++) {
        unsigned slot = (number ^ 3) % WINDOW; /* four neighbours change places */
        if (unacknowledged[slot] != NULL) {
            acknowledged += unacknowledged[slot]->number < number;
            ps_fifo_free(fifo, unacknowledged[slot]);
        }
        unacknowledged[slot] = make_message(fifo, number);
        if (unacknowledged[slot] == NULL) {
            return 1;
        }
    }
    struct ps_fifo_stats stats;
    ps_fifo_stats(fifo, &stats);
    int is_right = stats.live_count == WINDOW && acknowledged == MESSAGES - WINDOW;
    ps_fifo_destroy(fifo); /* the last message takes it along */
    for (unsigned slot = 0; slot < WINDOW; slot++) {
        ps_fifo_free(fifo, unacknowledged[slot]);
    }
    return is_right ? 0 : 1;
}
