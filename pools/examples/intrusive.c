/* SPDX-License-Identifier: MIT */
/*
 * Messages that several queues share: two parts of a program refer to the same message, and it
 * returns to the pool when both have dropped it; at most four may be under way.
 */
#include <poolshim/intrusive.h>
#include <stdio.h>
#include <string.h>

struct message {
    struct ps_intrusive_item item;
    char text[1000];
};

/* Empties a message at the end of each use, so that the next user finds it clean. */
static void wipe(struct ps_intrusive_item *item, void *context) {
    (void)context;
    ((struct message *)item)->text[0] = 0;
}

int main(void) {
    struct ps_intrusive pool;
    struct ps_intrusive_options options;
    memset(&options, 0, sizeof options);
    options.bytes = sizeof(struct message);
    options.max_items = 4;
    options.recycle = wipe;
    if (!ps_intrusive_init(&pool, &options)) {
        return 1;
    }
    struct message *queues[2][5];
    size_t sent = 0;
    for (; sent < 5; sent++) {
        struct message *message = (struct message *)ps_intrusive_alloc(&pool);
        if (message == NULL) {
            break; /* all four are under way */
        }
        snprintf(message->text, sizeof message->text, "message %zu", sent);
        queues[0][sent] = message;
        queues[1][sent] = message;
        ps_intrusive_take(&message->item); /* one reference per queue */
    }
    for (size_t i = 0; i < sent; i++) {
        ps_intrusive_drop(&queues[0][i]->item);
    }
    int is_right = sent == 4 && strcmp(queues[1][3]->text, "message 3") == 0;
    ps_intrusive_destroy(&pool); /* the second queue still reads its messages */
    for (size_t i = 0; i < sent; i++) {
        ps_intrusive_drop(&queues[1][i]->item);
    }
    printf("%zu messages under way at most\n", sent);
    return is_right ? 0 : 1;
}
