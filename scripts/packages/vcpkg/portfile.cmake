# SPDX-License-Identifier: MIT
# A port for vcpkg, as an overlay of this checkout:
#
#     vcpkg install poolshim --overlay-ports=scripts/packages/vcpkg
#
# It has both kinds of each library: poolshim::pools, poolshim::pools-static, and with the feature
# shim poolshim::poolshim, poolshim::static.
# The sources are those of the checkout; a registry would have vcpkg_from_github in their place.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

set(with_shim OFF)
if("shim" IN_LIST FEATURES)
    set(with_shim ON)
endif()
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -DPOOLSHIM_BUILD_SHIM=${with_shim} -DPOOLSHIM_BUILD_COMMAND=OFF
    -DPOOLSHIM_BUILD_MANUALS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/poolshim)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
