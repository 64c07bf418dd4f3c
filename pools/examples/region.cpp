// SPDX-License-Identifier: MIT
// The example of region.hpp: a document that owns a region for its words, both in one block. Exits
// 0 when all is as it should be.
#include <poolshim/region.hpp>

namespace {

struct Word {
    std::string_view text;
    Word *next;
};

class Document {
  public:
    explicit Document(ps::region_ref region) : region_(region) {}

    void add(std::string_view text) {
        words_ = region_.make<Word>(Word{region_.copy(text), words_});
        count_++;
    }
    std::size_t count() const { return count_; }
    std::string_view newest() const { return words_->text; }

  private:
    ps::region_ref region_;
    Word *words_ = nullptr;
    std::size_t count_ = 0;
};

} // namespace

int main() {
    int ended = 0;
    {
        auto document = ps::make_root<Document>();
        for (std::string_view text : {"a", "document", "of", "words"}) {
            document->add(text);
        }
        document.region().on_destroy([&ended] { ended++; });
        if (document->count() != 4 || document->newest() != "words") {
            return 1;
        }
    } // all words, the document, the region
    return ended == 1 ? 0 : 1;
}
