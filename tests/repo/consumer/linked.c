/* SPDX-License-Identifier: MIT */
/*
 * Linked with poolshim::static. Calls malloc by libc alone; prints the version of the library.
 */
#include <poolshim/poolshim.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    char *line = NULL;
    size_t bytes = 0;
    FILE *file = fopen("/proc/self/stat", "r");
    if (file == NULL || getline(&line, &bytes, file) < 1 || !poolshim_is_active()) {
        return 1;
    }
    puts(poolshim_version());
    return fclose(file);
}
