# SPDX-License-Identifier: MIT
# CMake toolchain file: the C library musl, by the musl-gcc of musl-tools. Debian has no C++ library
# for it, so targets in C++ are omitted.
#
#     cmake --preset musl           packages: scripts/setup elsewhere
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER NOTFOUND)

# musl-gcc looks into musl's folder alone; the kernel's own headers serve any C library.
execute_process(COMMAND gcc -print-multiarch OUTPUT_VARIABLE multiarch
                OUTPUT_STRIP_TRAILING_WHITESPACE)
set(kernel_headers ${CMAKE_BINARY_DIR}/kernel-headers)
file(MAKE_DIRECTORY ${kernel_headers})
file(CREATE_LINK /usr/include/linux ${kernel_headers}/linux SYMBOLIC)
file(CREATE_LINK /usr/include/asm-generic ${kernel_headers}/asm-generic SYMBOLIC)
file(CREATE_LINK /usr/include/${multiarch}/asm ${kernel_headers}/asm SYMBOLIC)
set(CMAKE_C_FLAGS_INIT "-idirafter ${kernel_headers}")

# musl-gcc leaves out the index of unwind tables, which a gcc made for musl writes.
foreach(kind IN ITEMS EXE SHARED MODULE)
    set(CMAKE_${kind}_LINKER_FLAGS_INIT "-Wl,--eh-frame-hdr")
endforeach()
