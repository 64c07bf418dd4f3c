# SPDX-License-Identifier: MIT
# Install rules: the libraries, the public headers, a CMake package, pkg-config files and the
# command poolshim. The last three find the rest from where they lie, so an installed tree may be
# moved.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/poolshim)

install(TARGETS poolshim poolshim-headers poolshim-pools poolshim-pools-static
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

# A relative path between two absolute ones: it also holds where LIBDIR is lib/<triplet>.
file(RELATIVE_PATH POOLSHIM_PC_TO_PREFIX
    "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" POOLSHIM_PC_TO_PREFIX "${POOLSHIM_PC_TO_PREFIX}")
foreach(name IN ITEMS poolshim poolshim-pools)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# The command: bin/poolshim looks for libexec/poolshim and lib/poolshim/python beside bin. The
# package is told where the library lies, which may be in lib/<triplet>.
if(TARGET poolshim-launcher)
    set(python_dir lib/poolshim/python)
    install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/poolshim DESTINATION bin)
    install(TARGETS poolshim-launcher poolshim-family poolshim-limit poolshim-run
        RUNTIME DESTINATION libexec/poolshim)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/poolshim_cli DESTINATION ${python_dir}
        FILES_MATCHING PATTERN "*.py" PATTERN "*.toml" PATTERN "*.j2"
        PATTERN "__pycache__" EXCLUDE)
    file(RELATIVE_PATH to_library "/prefix/${python_dir}/poolshim_cli"
        "/prefix/${CMAKE_INSTALL_LIBDIR}")
    file(WRITE ${PROJECT_BINARY_DIR}/installed.json
        "{\"root\": \"../../../..\", \"library\": \"${to_library}\", "
        "\"programs\": \"../../../../libexec/poolshim\", "
        "\"version\": \"${PROJECT_VERSION}\"}\n")
    install(FILES ${PROJECT_BINARY_DIR}/installed.json DESTINATION ${python_dir}/poolshim_cli)
endif()
