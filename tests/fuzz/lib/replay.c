/* SPDX-License-Identifier: MIT */
/*
 * main() of a fuzz target without libFuzzer: runs each file that is named, and each file of each
 * directory, once. Any compiler. Ends with 0 and a count; a finding ends the process in the target.
 */
#include "tests/fuzz/lib/fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

#define PATH_BYTES 4096

static unsigned long replayed;

__attribute__((weak)) int LLVMFuzzerInitialize(int *count, char ***arguments) {
    (void)count;
    (void)arguments;
    return 0;
}

/* In memory of exactly its length, so that a sanitizer sees a read past the end. */
static void replay_file(const char *path, size_t bytes) {
    FILE *file = fopen(path, "rb");
    uint8_t *input = malloc(bytes + (bytes == 0));
    if (file == NULL || input == NULL || fread(input, 1, bytes, file) != bytes) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        exit(2);
    }
    fclose(file);
    fprintf(stderr, "replay: %s\n", path);
    LLVMFuzzerTestOneInput(input, bytes);
    free(input);
    replayed++;
}

static void replay_directory(const char *path) {
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char name[PATH_BYTES];
        struct stat status;
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (stat(name, &status) == 0 && S_ISREG(status.st_mode)) {
            replay_file(name, (size_t)status.st_size);
        }
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
}

int main(int count, char **arguments) {
    LLVMFuzzerInitialize(&count, &arguments);
    for (int i = 1; i < count; i++) {
        struct stat status;
        if (stat(arguments[i], &status) != 0) {
            fprintf(stderr, "replay: there is no %s\n", arguments[i]);
            return 2;
        }
        if (S_ISDIR(status.st_mode)) {
            replay_directory(arguments[i]);
        } else {
            replay_file(arguments[i], (size_t)status.st_size);
        }
    }
    printf("replayed: %lu\n", replayed);
    return replayed > 0 ? 0 : 2;
}
