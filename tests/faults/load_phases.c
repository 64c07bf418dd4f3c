/* SPDX-License-Identifier: MIT */
/*
 * A program whose live memory never exceeds 40 MiB, of another size of blocks in each phase; for a
 * memory cgroup, in which a heap that retains all freed memory gets killed.
 *
 *     load_phases BYTES...   block sizes, a phase each
 */
#include "blocks.h"

#define LIVE_BYTES (40 * MIB)

int main(int count, char **arguments) {
    for (int phase = 1; phase < count; phase++) {
        size_t bytes = strtoull(arguments[phase], NULL, 10);
        size_t blocks = LIVE_BYTES / bytes;
        unsigned char **all = malloc(blocks * sizeof *all);
        for (size_t i = 0; i < blocks; i++) {
            all[i] = malloc(bytes);
            CLAIM(all[i] != NULL);
            memset(all[i], (int)(i + 1), bytes);
        }
        for (size_t i = 0; i < blocks; i++) {
            CLAIM(all[i][bytes - 1] == (unsigned char)(i + 1));
            free(all[i]);
        }
        free(all);
    }
    return 0;
}
