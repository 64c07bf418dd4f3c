// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* reallocarray grows by count x size, takes NULL, and refuses a product that overflows. */
#include "claim.h"

#include <malloc.h>

int main(void) {
    int *numbers = reallocarray(NULL, 10, sizeof *numbers);
    CLAIM(numbers != NULL);
    size_t count = 10;
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (int)i;
    }
    while (count < 1000000) {
        size_t larger = count * 3;
        numbers = reallocarray(numbers, larger, sizeof *numbers);
        CLAIM(numbers != NULL);
        CLAIM(malloc_usable_size(numbers) >= larger * sizeof *numbers);
        for (size_t i = 0; i < count; i++) {
            CLAIM(numbers[i] == (int)i);
        }
        for (size_t i = count; i < larger; i++) {
            numbers[i] = (int)i;
        }
        count = larger;
    }
    errno = 0;
    CLAIM(reallocarray(numbers, claim_size(SIZE_MAX / 4 + 1), 4) == NULL);
    CLAIM(errno == ENOMEM);
    CLAIM(numbers[count - 1] == (int)(count - 1));
    free(numbers);
    return 0;
}
