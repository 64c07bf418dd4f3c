/* SPDX-License-Identifier: MIT */
/* What the programs of this folder share: the text of a file. */
#ifndef BENCH_ADVICE_DOCUMENT_H
#define BENCH_ADVICE_DOCUMENT_H

#include <stdio.h>
#include <stdlib.h>

/* The file's text, with a zero after it; ends the program without. */
static inline char *document_text(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        exit(2);
    }
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(bytes + 1);
    if (text == NULL || fread(text, 1, bytes, file) != bytes) {
        exit(2);
    }
    text[bytes] = '\0';
    fclose(file);
    return text;
}

#endif
