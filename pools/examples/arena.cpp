/* SPDX-License-Identifier: MIT */
/*
 * A stack of notes in a file: one object writes, another, as if in another process, reads.
 */
#include <poolshim/arena.hpp>

#include <cstdio>

struct note {
    note(int value, ps::offset_ptr<note> below) : value(value), below(below) {}
    int value;
    ps::offset_ptr<note> below;
};

int main() {
    const char *path = "example-notes.arena";
    std::remove(path);
    ps::arena writer(path, PS_ARENA_CREATE);
    for (int i = 1; i <= 100; i++) {
        writer.set_root(writer.create<note>(i, writer.root<note>()));
    }
    writer.commit();
    note *top = writer.root<note>(); /* not committed: the reader does not see it */
    writer.set_root(top->below.get());
    writer.destroy(top);

    int sum = 0;
    ps::arena reader(path, PS_ARENA_READ);
    /* get(): an offset_ptr does not turn into a plain pointer by itself. */
    for (const note *at = reader.root<note>(); at != nullptr; at = at->below.get()) {
        sum += at->value;
    }
    std::printf("%d\n", sum);
    std::remove(path);
    std::remove("example-notes.arena-journal");
    return sum == 5050 ? 0 : 1;
}
