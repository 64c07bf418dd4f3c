// SPDX-License-Identifier: MIT
// foonathan/memory without its checks of sizes, which the package's configuration has on and which
// a release has off: for what the headers instantiate. Included before any other of its headers.
// The free lists themselves are in the package's library, which has no further checks on.
#ifndef PS_BENCH_POOLS_FOONATHAN_HPP
#define PS_BENCH_POOLS_FOONATHAN_HPP

#include <foonathan/memory/config.hpp>

#undef FOONATHAN_MEMORY_CHECK_ALLOCATION_SIZE
#define FOONATHAN_MEMORY_CHECK_ALLOCATION_SIZE 0
// Else the pools would come from the library, with the checks.
#undef FOONATHAN_MEMORY_EXTERN_TEMPLATE
#define FOONATHAN_MEMORY_EXTERN_TEMPLATE 0

#endif
