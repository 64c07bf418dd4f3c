// SPDX-License-Identifier: MIT
// The example of fifo.hpp: a list of strings from which the oldest are dropped. Exits 0 when all is
// as it should be.
#include <list>
#include <poolshim/adapters.hpp>
#include <poolshim/fifo.hpp>
#include <string>

int main() {
    ps::fifo fifo;
    ps::resource<ps::fifo> resource(fifo);
    {
        std::pmr::list<std::pmr::string> newest(&resource);
        for (int i = 0; i < 10000; i++) {
            newest.emplace_back("a line of the log that is too long to lie within the string");
            if (newest.size() > 100) {
                newest.pop_front();
            }
        }
        if (fifo.stats().live_count != 200 || fifo.stats().chunk_bytes > 512 * 1024) {
            return 1;
        }
    }
    return fifo.stats().live_count == 0 ? 0 : 1;
}
