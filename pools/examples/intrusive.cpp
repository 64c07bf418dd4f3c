// SPDX-License-Identifier: MIT
// Connections that are expensive to set up: constructed once, opened and closed many times, shared
// by several owners, four at most.
#include <cstdio>
#include <poolshim/intrusive.hpp>
#include <vector>

static int built_count;

class connection : public ps::intrusive_item<> {
  public:
    connection() : buffer_(4096) { built_count++; }
    // Begins a use.
    void init(int descriptor) { descriptor_ = descriptor; }
    // Ends it: the next message reuses the buffer.
    void destroy() noexcept { descriptor_ = -1; }
    int descriptor() const { return descriptor_; }

  private:
    std::vector<char> buffer_;
    int descriptor_ = -1;
};

int main() {
    ps::intrusive_options options;
    options.max_items = 4;
    ps::intrusive_pool<connection, ps::reuse_destroy> pool(options);
    int refused_count = 0;
    for (int round = 0; round < 100; round++) {
        std::vector<ps::ref<connection>> owners;
        for (int descriptor = 0; descriptor < 5; descriptor++) {
            ps::ref<connection> opened = pool.allocate_through_init(descriptor);
            if (!opened) {
                refused_count++;
                continue;
            }
            owners.push_back(opened);
            owners.push_back(opened);
        }
    }
    std::printf("%d built, %d refused\n", built_count, refused_count);
    ps::ref<connection> survivor = pool.allocate_through_init(9);
    pool.reset();
    // PS_DEBUG=malloc builds each one anew.
    return built_count >= 4 && refused_count == 100 && survivor->descriptor() == 9 ? 0 : 1;
}
