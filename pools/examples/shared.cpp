// SPDX-License-Identifier: MIT
// A counter of words that several processes fill at once, each in a table of its own, under names;
// the parent reads all of them.
#include <cstdio>
#include <cstring>
#include <poolshim/shared.hpp>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

struct word {
    ps::offset_ptr<word> next;
    unsigned long count = 0;
    char text[24] = "";
};

struct table {
    ps::offset_ptr<word> words;
};

static void count(ps::shared &heap, table &counts, const char *text) {
    word *found = counts.words.get();
    while (found != nullptr && std::strcmp(found->text, text) != 0) {
        found = found->next.get();
    }
    if (found == nullptr) {
        found = heap.create<word>();
        std::snprintf(found->text, sizeof found->text, "%s", text);
        found->next = counts.words;
        counts.words = found;
    }
    found->count++;
}

int main() {
    const char *path = "words.shared";
    unlink(path);
    ps::shared heap(path, PS_SHARED_CREATE);
    for (int i = 0; i < 3; i++) {
        if (fork() == 0) {
            ps::shared own(path); // or `heap`, which a child may go on with
            table *counts = own.find_or_create<table>(("table " + std::to_string(i)).c_str());
            for (int n = 0; n < 1000; n++) {
                count(own, *counts, n % (i + 2) == 0 ? "some" : "many");
            }
            _exit(0);
        }
    }
    while (wait(nullptr) > 0) {
    }
    unsigned long sum = 0;
    for (std::size_t i = 0; const char *name = ps_shared_root_name(heap.get(), i); i++) {
        for (const word *at = heap.root<table>(name)->words.get(); at != nullptr;
             at = at->next.get()) {
            std::printf("%s: %lu x %s\n", name, at->count, at->text);
            sum += at->count;
        }
    }
    unlink(path);
    return sum == 3000 && heap.check() == nullptr ? 0 : 1;
}
