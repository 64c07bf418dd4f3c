# SPDX-License-Identifier: MIT
# Install rules: the libraries, the public headers, a CMake package, pkg-config files, the command
# poolshim, manual pages, completions, the licence and the documents; and the target uninstall,
# which removes them. Package, pkg-config files and command find the rest from where they lie, so an
# installed tree may be moved.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/poolshim)
set(libraries poolshim-headers poolshim-pools poolshim-pools-static)
set(pkg_config_names poolshim-pools)
if(TARGET poolshim)
    list(APPEND libraries poolshim)
    if(TARGET poolshim-static)
        list(APPEND libraries poolshim-static)
    endif()
    list(APPEND pkg_config_names poolshim)
endif()

install(TARGETS ${libraries}
    EXPORT poolshim-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/pools/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT poolshim-targets NAMESPACE poolshim:: DESTINATION ${package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/poolshim-config.cmake.in
    ${PROJECT_BINARY_DIR}/poolshim-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/poolshim-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/poolshim-config.cmake
    ${PROJECT_BINARY_DIR}/poolshim-config-version.cmake DESTINATION ${package_dir})

# A relative path between two absolute ones: it is right also where LIBDIR is lib/<triplet>.
file(RELATIVE_PATH POOLSHIM_PC_TO_PREFIX
    "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" POOLSHIM_PC_TO_PREFIX "${POOLSHIM_PC_TO_PREFIX}")
foreach(name IN LISTS pkg_config_names)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# Links between the documents lead on as in the checkout.
install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
    FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.dot")
install(DIRECTORY pools/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
    FILES_MATCHING PATTERN "*.c" PATTERN "*.cpp" PATTERN "*.hpp")

if(POOLSHIM_BUILD_MANUALS)
    include(cmake/manuals.cmake)
endif()

# gdb loads it with the library, by its name, from its own folder of such files. It imports the
# modules of the command.
if(TARGET poolshim AND TARGET poolshim-launcher)
    install(FILES ${PROJECT_SOURCE_DIR}/scripts/gdb/poolshim_gdb.py
        RENAME libpoolshim.so.${PROJECT_VERSION}-gdb.py
        DESTINATION ${CMAKE_INSTALL_DATADIR}/gdb/auto-load${CMAKE_INSTALL_FULL_LIBDIR})
endif()

add_custom_target(uninstall COMMENT "Removing what install_manifest.txt lists"
    COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
    -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake)

# The command: bin/poolshim looks for libexec/poolshim and lib/poolshim/python beside bin. A link in
# lib/poolshim leads it to the library, which may lie in lib/<triplet>, and whose unversioned link
# may be missing where it is packaged apart.
if(TARGET poolshim-launcher)
    set(python_dir lib/poolshim/python)
    install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/poolshim DESTINATION bin)
    install(TARGETS poolshim-launcher poolshim-family poolshim-limit poolshim-replay
        poolshim-replay_malloc poolshim-run
        RUNTIME DESTINATION libexec/poolshim)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/poolshim_cli DESTINATION ${python_dir}
        FILES_MATCHING PATTERN "*.py" PATTERN "*.toml" PATTERN "*.j2"
        PATTERN "*.js"
        PATTERN "__pycache__" EXCLUDE)
    install(FILES ${PROJECT_SOURCE_DIR}/pools/engine/record/figures.def
        DESTINATION ${python_dir}/poolshim_cli/live)
    file(RELATIVE_PATH to_library "/prefix/lib/poolshim"
        "/prefix/${CMAKE_INSTALL_LIBDIR}/libpoolshim.so.${PROJECT_VERSION_MAJOR}")
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/private)
    file(CREATE_LINK ${to_library} ${PROJECT_BINARY_DIR}/private/libpoolshim.so SYMBOLIC)
    install(FILES ${PROJECT_BINARY_DIR}/private/libpoolshim.so DESTINATION lib/poolshim)
    file(WRITE ${PROJECT_BINARY_DIR}/installed.json
        "{\"root\": \"../../../..\", \"library\": \"../..\", "
        "\"programs\": \"../../../../libexec/poolshim\", "
        "\"version\": \"${PROJECT_VERSION}\"}\n")
    install(FILES ${PROJECT_BINARY_DIR}/installed.json DESTINATION ${python_dir}/poolshim_cli)
endif()
