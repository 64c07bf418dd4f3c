# SPDX-License-Identifier: MIT
# Install rules: the libraries, the public headers, a CMake package and pkg-config files. Both of
# the last find the rest from where they lie, so an installed tree may be moved.
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
