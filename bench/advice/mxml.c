/* SPDX-License-Identifier: MIT */
/* mxml FILE ROUNDS: reads an XML text with Mini-XML so often, each time into a tree that is
 * deleted. */
#include "document.h"

#include <mxml.h>

int main(int argc, char **argv) {
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    char *text = document_text(rounds > 0 ? argv[1] : "");
    for (int i = 0; i < rounds; i++) {
        mxml_node_t *root = mxmlLoadString(NULL, text, MXML_OPAQUE_CALLBACK);
        if (root == NULL) {
            return 3;
        }
        mxmlDelete(root);
    }
    free(text);
    return EXIT_SUCCESS;
}
