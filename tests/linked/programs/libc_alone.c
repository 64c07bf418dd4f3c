/* SPDX-License-Identifier: MIT */
/*
 * Calls no malloc itself, only functions of libc that do.
 */
#include <poolshim/poolshim.h>
#include <stdio.h>

int main(void) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = fopen("/proc/self/stat", "r");
    if (stream == NULL || getline(&text, &bytes, stream) < 1) {
        return 1;
    }
    puts(poolshim_version != NULL ? "linked" : "not linked");
    return fclose(stream);
}
