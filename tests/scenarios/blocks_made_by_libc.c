// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* What libc allocates for its caller (strdup, asprintf, getline, …) is freed and regrown by it. */
#include "claim.h"

#include <dirent.h>
#include <malloc.h>
#include <wchar.h>

static void give_back(void *block, size_t least) {
    CLAIM(block != NULL);
    CLAIM(malloc_usable_size(block) >= least);
    block = realloc(block, least * 3 + 100);
    CLAIM(block != NULL);
    free(block);
}

static void check_getline(void) {
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    CLAIM(file != NULL);
    while (getline(&line, &capacity, file) > 0) {
        CLAIM(malloc_usable_size(line) >= capacity);
    }
    fclose(file);
    give_back(line, capacity);
}

static void check_stream(void) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    CLAIM(stream != NULL);
    for (int i = 0; i < 20000; i++) {
        CLAIM(fprintf(stream, "line %d\n", i) > 0);
    }
    CLAIM(fclose(stream) == 0);
    CLAIM(strlen(text) == length);
    give_back(text, length);
}

int main(void) {
    char *text = NULL;
    CLAIM(asprintf(&text, "%0300d", 7) == 300);
    give_back(text, 301);
    give_back(strdup("some words"), 11);
    give_back(strndup("some words", 4), 5);
    give_back(wcsdup(L"wide words"), 11 * sizeof(wchar_t));
    give_back(getcwd(NULL, 0), 2);
    give_back(realpath("/proc/self/exe", NULL), 2);
    check_getline();
    check_stream();
    struct dirent **entries = NULL;
    int count = scandir("/", &entries, NULL, alphasort);
    CLAIM(count > 2);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    give_back(entries, (size_t)count * sizeof *entries);
    CLAIM(setenv("PS_SCENARIO", "value", 1) == 0 && unsetenv("PS_SCENARIO") == 0);
    return 0;
}
