/* SPDX-License-Identifier: MIT */
/*
 * A table of words and how often each was seen, that lives in a file. Each start of the program
 * adds its words; a start that is killed has either added all of them or none.
 */
#include <poolshim/arena.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct word {
    struct ps_link next;
    unsigned long count;
    char text[];
};

struct counts {
    unsigned long starts;
    struct ps_link words;
};

static struct counts *find_counts(struct ps_arena *arena) {
    struct counts *counts = PS_ARENA_AT(arena, struct counts, ps_arena_root(arena));
    if (counts == NULL) { /* the file is new */
        counts = ps_arena_alloc(arena, sizeof *counts);
        if (counts != NULL) {
            memset(counts, 0, sizeof *counts);
            ps_arena_set_root(arena, ps_arena_offset(arena, counts));
        }
    }
    return counts;
}

static struct word *count_word(struct ps_arena *arena, struct counts *counts, const char *text) {
    struct word *word = ps_link_get(&counts->words);
    while (word != NULL && strcmp(word->text, text) != 0) {
        word = ps_link_get(&word->next);
    }
    if (word == NULL) {
        word = ps_arena_alloc(arena, sizeof *word + strlen(text) + 1);
        if (word == NULL) {
            return NULL;
        }
        strcpy(word->text, text);
        word->count = 0;
        ps_link_set(&word->next, ps_link_get(&counts->words));
        ps_link_set(&counts->words, word);
    }
    word->count++;
    return word;
}

/* One start of the program. Returns how often it was started so far; 0: failure. */
static unsigned long start(const char *path, const char *const *words, size_t word_count) {
    struct ps_arena *arena;
    enum ps_arena_status status = ps_arena_open(&arena, path, PS_ARENA_CREATE, NULL);
    if (status != PS_ARENA_OK) {
        fprintf(stderr, "%s: %s\n", path, ps_arena_explain(status));
        return 0;
    }
    struct counts *counts = find_counts(arena);
    unsigned long starts = 0;
    for (size_t i = 0; i < word_count && counts != NULL; i++) {
        if (count_word(arena, counts, words[i]) == NULL) {
            counts = NULL;
        }
    }
    if (counts != NULL) {
        starts = ++counts->starts;
        status = ps_arena_commit(arena);
        for (struct word *word = ps_link_get(&counts->words); word != NULL;
             word = ps_link_get(&word->next)) {
            printf("%s %lu\n", word->text, word->count);
        }
    }
    ps_arena_close(arena);
    return status == PS_ARENA_OK ? starts : 0;
}

int main(void) {
    static const char *const path = "example-words.arena";
    static const char *const words[] = {"one", "two", "one", "three"};
    unlink(path);
    for (unsigned long i = 1; i <= 3; i++) {
        if (start(path, words, 4) != i) {
            return 1;
        }
    }
    return unlink(path);
}
