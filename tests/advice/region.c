// advise: region
/* SPDX-License-Identifier: MIT */
/* Documents: each is a tree of nodes of many sizes, which is built, read and freed as a whole. */
#include "tests/advice/advice.h"

struct node {
    struct node *next;
    char text[];
};

SITE struct node *add_node(struct node *after) {
    size_t bytes = sizeof(struct node) + random_between(8, 120);
    struct node *node = filled(malloc(bytes), bytes);
    node->next = after;
    return node;
}

SITE void free_document(struct node *node) {
    while (node != NULL) {
        struct node *next = node->next;
        free(node);
        node = next;
    }
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (unsigned document = 0; document < 300 * scale; document++) {
        struct node *first = NULL;
        size_t count = random_between(300, 700);
        for (size_t i = 0; i < count; i++) {
            first = add_node(first);
        }
        free_document(first);
    }
    return EXIT_SUCCESS;
}
