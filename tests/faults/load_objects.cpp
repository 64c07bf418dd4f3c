/* SPDX-License-Identifier: MIT */
/* Allocates objects of a class and texts, and aborts: a core file of known content. */
#include <cstdlib>
#include <string>
#include <vector>

struct shape {
    virtual ~shape() = default;
    char more[200];
};

struct circle : shape {
    int radius = 1;
};

int main() {
    std::vector<shape *> shapes;
    std::vector<std::string *> texts;
    for (int i = 0; i < 100000; i++) {
        shapes.push_back(new circle);
    }
    for (int i = 0; i < 20000; i++) {
        texts.push_back(new std::string("GET /index.html?number=" + std::to_string(i) +
                                        " is a line that does not fit into the string"));
    }
    std::abort();
}
