# SPDX-License-Identifier: MIT
# libpoolshim.a: the shim as a part of the program, for programs without a loader and others. Two
# members: poolshim.o has all of libc's names, so that a program never has malloc from here and free
# from libc; cxx.o has C++'s. Everything else in them is local. cmake/link_archive.cmake makes them.

if(has_late_code AND NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
    message(STATUS "libpoolshim.a is not built: only gcc links it with -flto")
    return()
endif()

include(CheckSymbolExists)
check_symbol_exists(__GLIBC__ features.h POOLSHIM_HAS_GLIBC)

file(GLOB linked_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shim/linked/*.c)
add_library(poolshim-linked OBJECT ${linked_sources})
set_target_properties(poolshim-linked PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(poolshim-linked PRIVATE poolshim-engine-flags)

set(linked_dir ${PROJECT_BINARY_DIR}/linked)
set(linked_objects ${linked_dir}/poolshim.o ${linked_dir}/cxx.o)
set(parts "$<TARGET_OBJECTS:poolshim-shim>;$<TARGET_OBJECTS:poolshim-engine>")
string(APPEND parts ";$<TARGET_OBJECTS:poolshim-linked>")
file(GENERATE OUTPUT ${linked_dir}/parts.txt CONTENT "$<JOIN:${parts},\n>\n")
set(names ${PROJECT_SOURCE_DIR}/shim/linked/left_to_libc.def)
set(script ${PROJECT_SOURCE_DIR}/cmake/link_archive.cmake)
add_custom_command(OUTPUT ${linked_objects}
    COMMAND ${CMAKE_COMMAND} "-DCOMPILER=${CMAKE_C_COMPILER}" "-DFLAGS=${all_c_flags}"
        -DOBJCOPY=${CMAKE_OBJCOPY} -DNM=${CMAKE_NM} -DFOLDER=${linked_dir}
        "-DHAS_LATE_CODE=${has_late_code}"
        -DENTRY_POINTS=${entry_points} -DLEFT=${names} "-DHAS_GLIBC=${POOLSHIM_HAS_GLIBC}"
        -P ${script}
    DEPENDS ${script} ${entry_points} ${names} $<TARGET_OBJECTS:poolshim-shim>
        $<TARGET_OBJECTS:poolshim-engine> $<TARGET_OBJECTS:poolshim-linked>
    COMMENT "Linking the members of libpoolshim.a" VERBATIM)

add_library(poolshim-static STATIC ${linked_objects})
# make knows the objects above as files alone, and without this looks for them before they are made.
add_dependencies(poolshim-static poolshim-shim poolshim-engine poolshim-linked)
set_source_files_properties(${linked_objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
set_target_properties(poolshim-static PROPERTIES
    OUTPUT_NAME poolshim LINKER_LANGUAGE C EXPORT_NAME static
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
# A program that calls malloc in libraries alone would have libc's: those come after this one. gcc
# -static leaves out the index of unwind tables, by which stacks are walked.
target_link_options(poolshim-static INTERFACE LINKER:--undefined=malloc LINKER:--eh-frame-hdr)
target_link_libraries(poolshim-static PUBLIC poolshim-headers
    PRIVATE ${CMAKE_DL_LIBS} Threads::Threads ${atomic_library})
add_library(poolshim::static ALIAS poolshim-static)
