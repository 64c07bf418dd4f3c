/* SPDX-License-Identifier: MIT */
/*
 * A list of words with their counts: two sizes of slices, no header on either, one call that frees
 * the whole list.
 */
#include <poolshim/slice.h>
#include <stdio.h>
#include <string.h>

struct word {
    struct word *next;
    const char *text;
    unsigned long count;
};

/* Counts the word, at the front of the list if it is new. False: no memory. */
static bool count_word(struct word **list, const char *text) {
    for (struct word *word = *list; word != NULL; word = word->next) {
        if (strcmp(word->text, text) == 0) {
            word->count++;
            return true;
        }
    }
    struct word *word = (struct word *)ps_slice_alloc(sizeof *word); /* 24 bytes, 32 with padding */
    if (word == NULL) {
        return false;
    }
    *word = (struct word){*list, text, 1};
    *list = word;
    return true;
}

int main(void) {
    static const char *const text[] = {"to", "be", "or", "not", "to", "be"};
    struct word *list = NULL;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        if (!count_word(&list, text[i])) {
            return 1;
        }
    }
    unsigned long words = 0;
    unsigned long total = 0;
    for (const struct word *word = list; word != NULL; word = word->next) {
        words++;
        total += word->count;
        printf("%-4s %lu\n", word->text, word->count);
    }
    ps_slice_free_chain(sizeof *list, list, offsetof(struct word, next));
    return words == 4 && total == 6 ? 0 : 1;
}
