// SPDX-License-Identifier: MIT
// The pools library from C++: every header that is installed, and pages by hand.
#include <cstring>
#include <memory>
#include <poolshim/pages.h>
#include <poolshim/source.h>

struct pages_deleter {
    std::size_t bytes;
    void operator()(void *pages) const noexcept { ps_pages_free(pages, bytes); }
};

int main() {
    std::size_t bytes = 100000;
    std::unique_ptr<void, pages_deleter> pages(ps_pages_alloc(bytes, PS_ALIGN_DEFAULT), {bytes});
    if (pages == nullptr) {
        return 1;
    }
    std::memset(pages.get(), 1, bytes);
    ps_source *source = ps_source_malloc();
    void *chunk = source->alloc(source, bytes, 64);
    bool is_good = chunk != nullptr;
    source->free(source, chunk, bytes);
    return is_good ? 0 : 1;
}
