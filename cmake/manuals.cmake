# SPDX-License-Identifier: MIT
# The target manuals, part of all: manual pages and completions, in <build>/manuals, from the
# headers, shim/config.def and the parsers of the command. Needs Python 3.10; without it they are
# not installed. POOLSHIM_MANUALS_DIR names a folder in which they were made before.
set(POOLSHIM_MANUALS_DIR "" CACHE PATH
    "Folder that scripts/manuals/make_manuals.py wrote; empty: the build makes it")
set(manuals ${POOLSHIM_MANUALS_DIR})
if(NOT manuals)
    find_package(Python3 3.10 QUIET COMPONENTS Interpreter)
    if(NOT Python3_FOUND)
        message(WARNING "Python 3.10 was not found: manual pages and completions are not installed")
        return()
    endif()
    set(manuals ${PROJECT_BINARY_DIR}/manuals)
    file(GLOB manual_sources CONFIGURE_DEPENDS
        ${PROJECT_SOURCE_DIR}/scripts/manuals/*.py
        ${PROJECT_SOURCE_DIR}/pools/include/poolshim/*.h*
        ${PROJECT_SOURCE_DIR}/scripts/poolshim_cli/*.py
        ${PROJECT_SOURCE_DIR}/scripts/poolshim_cli/*/*.py)
    list(APPEND manual_sources ${PROJECT_SOURCE_DIR}/shim/config.def
        ${PROJECT_SOURCE_DIR}/pools/engine/base/config.h
        ${PROJECT_SOURCE_DIR}/scripts/native/run.c ${PROJECT_SOURCE_DIR}/CMakeLists.txt)
    add_custom_command(OUTPUT ${manuals}/made DEPENDS ${manual_sources}
        COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/manuals/make_manuals.py
        ${manuals}
        COMMAND ${CMAKE_COMMAND} -E touch ${manuals}/made
        COMMENT "Making manual pages and completions" VERBATIM)
    add_custom_target(manuals ALL DEPENDS ${manuals}/made)
endif()

install(DIRECTORY ${manuals}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
if(TARGET poolshim-launcher)
    install(FILES ${manuals}/completions/poolshim.bash RENAME poolshim
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${manuals}/completions/_poolshim
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${manuals}/completions/poolshim.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
