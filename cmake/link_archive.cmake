# SPDX-License-Identifier: MIT
# Makes the two members of libpoolshim.a from the objects that FOLDER/parts.txt lists. Run by
# cmake/archive.cmake with COMPILER, FLAGS, OBJCOPY, NM, FOLDER, HAS_LATE_CODE, ENTRY_POINTS, LEFT,
# HAS_GLIBC.
#
# poolshim.o is linked in two steps: the shim's own thrd_create, for instance, becomes local before
# shim/linked/loader.c is added, which refers to libc's.
cmake_minimum_required(VERSION 3.16)

function(run)
    execute_process(COMMAND ${ARGV} RESULT_VARIABLE result ERROR_VARIABLE text)
    if(result)
        string(JOIN " " command ${ARGV})
        message(FATAL_ERROR "libpoolshim.a: ${command}\n${text}")
    endif()
endfunction()

# Names in the file that nm lists with the options; <out> is a list.
function(list_names out object)
    execute_process(COMMAND ${NM} -P ${ARGN} ${object} OUTPUT_VARIABLE text RESULT_VARIABLE result)
    if(result)
        message(FATAL_ERROR "libpoolshim.a: ${NM} cannot read ${object}")
    endif()
    string(REGEX REPLACE " [^\n]*\n" ";" names "${text}")
    set(${out} "${names}" PARENT_SCOPE)
endfunction()

# Rows of a table whose kind fits.
function(list_rows out file kinds)
    file(STRINGS ${file} rows REGEX "^(${kinds})\\(")
    string(REGEX REPLACE "[A-Z_]+\\(([A-Za-z0-9_]+)\\)" "\\1" names "${rows}")
    set(${out} "${names}" PARENT_SCOPE)
endfunction()

function(write_lines file)
    string(JOIN "\n" text ${ARGN})
    file(WRITE ${file} "${text}\n")
endfunction()

# One object of many. All code is in a section of its own: by its bounds the shim tells its frames
# from the program's, and it lies in one piece.
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
if(HAS_LATE_CODE)
    list(APPEND flags -flinker-output=nolto-rel)
endif()
set(layout ${FOLDER}/poolshim.ld)
write_lines(${layout} "SECTIONS { poolshim_text : {"
    "*(poolshim_text) *(.text) *(SORT_BY_NAME(.text.*)) } }")
function(join out)
    run(${COMPILER} ${flags} -r -nostdlib -Wl,-T,${layout} ${ARGN} -o ${out})
endfunction()

file(STRINGS ${FOLDER}/parts.txt parts)
list(FILTER parts EXCLUDE REGEX "/shim/token\\.") # it needs the operators, which a C program lacks
set(cxx_parts ${parts})
list(FILTER cxx_parts INCLUDE REGEX "/cxx_[a-z_]*\\.")
set(loader_part ${parts})
list(FILTER loader_part INCLUDE REGEX "/linked/loader\\.")
list(REMOVE_ITEM parts ${cxx_parts} ${loader_part})

list_rows(entries ${ENTRY_POINTS} "PS_ENTRY|PS_ENTRY_RSEQ|PS_CONTROL")
set(left_kinds "PS_LEFT")
if(NOT HAS_GLIBC)
    set(left_kinds "PS_LEFT|PS_LEFT_MUSL")
endif()
list_rows(left ${LEFT} "${left_kinds}")
list(REMOVE_ITEM entries ${left})
set(operators ${entries})
list(FILTER operators INCLUDE REGEX
    "^_Z|^tc_(new|delete)|^(__|tcmalloc_)size_returning_|^mi_(new|heap_alloc_new)")
list(REMOVE_ITEM entries ${operators})

set(poolshim ${FOLDER}/poolshim.o)
set(cxx ${FOLDER}/cxx.o)
join(${FOLDER}/shim.o ${parts})
join(${cxx} ${cxx_parts})

# What the operators use of the shim: under other names than in the pools library, which has some of
# the same functions.
list_names(wanted ${cxx} --undefined-only)
list_names(defined ${FOLDER}/shim.o --defined-only --extern-only)
set(shared "")
set(renamed "")
foreach(name IN LISTS wanted)
    if(name MATCHES "^ps_" AND name IN_LIST defined)
        list(APPEND shared ${name})
        list(APPEND renamed "${name} poolshim_internal_${name}")
    endif()
endforeach()
write_lines(${FOLDER}/renamed.txt ${renamed})
write_lines(${FOLDER}/global.txt ${entries} ${shared} _.stapsdt.base)
write_lines(${FOLDER}/operators.txt ${operators})

run(${OBJCOPY} --keep-global-symbols=${FOLDER}/global.txt ${FOLDER}/shim.o)
join(${poolshim} ${FOLDER}/shim.o ${loader_part})
run(${OBJCOPY} --keep-global-symbols=${FOLDER}/global.txt ${poolshim})
run(${OBJCOPY} --redefine-syms=${FOLDER}/renamed.txt ${poolshim})

# Weak: a program may define any of the operators itself.
run(${OBJCOPY} --keep-global-symbols=${FOLDER}/operators.txt ${cxx})
run(${OBJCOPY} --weaken-symbols=${FOLDER}/operators.txt
    --redefine-syms=${FOLDER}/renamed.txt ${cxx})
