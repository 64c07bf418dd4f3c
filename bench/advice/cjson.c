/* SPDX-License-Identifier: MIT */
/* cjson FILE ROUNDS: reads a JSON text with cJSON so often, each time into a tree that is deleted.
 */
#include "document.h"

#include <cJSON.h>

int main(int argc, char **argv) {
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    char *text = document_text(rounds > 0 ? argv[1] : "");
    for (int i = 0; i < rounds; i++) {
        cJSON *root = cJSON_Parse(text);
        if (root == NULL) {
            return 3;
        }
        cJSON_Delete(root);
    }
    free(text);
    return EXIT_SUCCESS;
}
