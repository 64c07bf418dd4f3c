# SPDX-License-Identifier: MIT
# libpoolshim.so: the engine with libc's names. Needs libc only; it exports the symbols of
# shim/entry_points.def, from which the version script is made.

set(entry_points ${PROJECT_SOURCE_DIR}/shim/entry_points.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${entry_points})
file(STRINGS ${entry_points} control_rows REGEX "^PS_CONTROL\\(")
set(POOLSHIM_CONTROL_SYMBOLS "")
foreach(row IN LISTS control_rows)
    string(REGEX REPLACE "^PS_CONTROL\\(([A-Za-z0-9_]+)\\).*$" "\\1" name "${row}")
    string(APPEND POOLSHIM_CONTROL_SYMBOLS "        ${name};\n")
endforeach()
if(POOLSHIM_CONTROL_SYMBOLS)
    string(PREPEND POOLSHIM_CONTROL_SYMBOLS "    global:\n")
endif()
set(version_script ${PROJECT_BINARY_DIR}/poolshim.map)
configure_file(${PROJECT_SOURCE_DIR}/shim/poolshim.map.in ${version_script} @ONLY)

# The pages of the pools library: one cache serves malloc and the pools of the program.
file(GLOB pages_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pools/pages/*.c
    ${PROJECT_SOURCE_DIR}/pools/common/poison.c)
list(FILTER pages_sources EXCLUDE REGEX "/pages/alone\\.c$")

# What libpoolshim.so and libpoolshim.a have in common.
add_library(poolshim-shim OBJECT ${shim_sources} ${pages_sources})
set_target_properties(poolshim-shim PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(poolshim-shim PRIVATE ${PROJECT_SOURCE_DIR}/pools/include)
target_link_libraries(poolshim-shim PRIVATE poolshim-engine-flags)

file(GLOB preloaded_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shim/preloaded/*.c)
add_library(poolshim SHARED $<TARGET_OBJECTS:poolshim-shim> ${preloaded_sources}
    $<TARGET_OBJECTS:poolshim-engine>)
target_link_libraries(poolshim PRIVATE $<BUILD_INTERFACE:poolshim-engine-flags>
    ${CMAKE_DL_LIBS} Threads::Threads # libraries of their own in glibc before 2.34
    ${atomic_library})
set_target_properties(poolshim PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} LINK_DEPENDS ${version_script})
# Segments are aligned to 64 KiB, which the system reads around each page that is touched: at 4 KiB
# the range read depends on the library's address. Never unloaded: threads that end call into it,
# and blocks remain in use. DT_FINI is omitted: it would call an empty function at the end of .text.
target_link_options(poolshim PRIVATE LINKER:-z,max-page-size=65536 LINKER:-fini=ps_no_fini
    LINKER:--as-needed LINKER:--no-undefined LINKER:-z,now LINKER:-z,relro LINKER:-z,noexecstack
    LINKER:-z,text LINKER:-z,nodelete LINKER:--exclude-libs,ALL
    LINKER:--version-script=${version_script}
    LINKER:--sort-section=name) # PS_SPARSE of base/compiler.h is last

# Assembler directives give its functions their names, which whole-program optimisation does not
# see.
set_source_files_properties(${PROJECT_SOURCE_DIR}/shim/bytes.c PROPERTIES
    COMPILE_OPTIONS -fno-lto)

# Code that a start and a plain malloc do not run is placed after the rest of .text, so that it is
# not read into memory with it: the system reads 64 KiB around each page that is touched. Sections
# are sorted by name, and sections of single functions come after .text.
set(late_sources ${shim_sources} ${preloaded_sources} ${engine_sources} ${pages_sources})
set(late_engine harden/ profile/ record/ front/partition heap/cpu_cache heap/limit
    heap/orphan_purge heap/partition_path page/extents
    small/span_purge)
set(late_shim cxx_[a-z_]* preloaded/ [a-z_]*report record stats text exit_output guard_trace
    introspect process profile unwind[a-z_]* jemalloc mallctl[a-z_]* extension heap set token
    mimalloc[a-z_]* tcmalloc[a-z_]* vfork)
list(JOIN late_engine "|" late_engine)
list(JOIN late_shim "|" late_shim)
list(FILTER late_sources INCLUDE REGEX
    "/engine/(${late_engine})|/pages/|/poison|/shim/(${late_shim})")
set_source_files_properties(${late_sources} PROPERTIES COMPILE_OPTIONS -ffunction-sections)

# What users of the library link with: poolshim::poolshim.
target_link_libraries(poolshim PUBLIC poolshim-headers)
add_library(poolshim::poolshim ALIAS poolshim)

include(cmake/archive.cmake)
