# SPDX-License-Identifier: MIT
# libpoolshim-pools: the special-purpose pools, on the engine's lower layers. A family is a folder
# of pools/ that has sources; a new one is found by glob.

file(GLOB pool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pools/*/*.c)
list(FILTER pool_sources EXCLUDE REGEX "/pools/examples/")
set(pool_layers ${engine_sources})
list(FILTER pool_layers INCLUDE REGEX "/pools/engine/(base|os|page)/")

add_library(poolshim-pools-objects OBJECT ${pool_sources} ${pool_layers})
set_target_properties(poolshim-pools-objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(poolshim-pools-objects PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/pools/include>)
target_link_libraries(poolshim-pools-objects PRIVATE poolshim-engine-flags)

add_library(poolshim-pools-static STATIC $<TARGET_OBJECTS:poolshim-pools-objects>)
set_target_properties(poolshim-pools-static PROPERTIES OUTPUT_NAME poolshim-pools)
# Weak in the archive: where libpoolshim.a has them, too, in either order, those of malloc serve.
if(NOT has_late_code)
    add_custom_command(TARGET poolshim-pools-static POST_BUILD
        COMMAND ${CMAKE_OBJCOPY} --enable-deterministic-archives --wildcard
            "--weaken-symbol=ps_pages_*" $<TARGET_FILE:poolshim-pools-static> VERBATIM)
endif()
add_library(poolshim-pools SHARED $<TARGET_OBJECTS:poolshim-pools-objects>)
# Exported is what headers mark PS_API; the version script has the versions. Never unloaded: threads
# that end call into it.
set(pools_version_script ${PROJECT_SOURCE_DIR}/cmake/poolshim-pools.map)
set_target_properties(poolshim-pools PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} LINK_DEPENDS ${pools_version_script})
target_link_options(poolshim-pools PRIVATE
    LINKER:--as-needed LINKER:-z,now LINKER:-z,relro LINKER:-z,noexecstack LINKER:-z,nodelete
    LINKER:--version-script=${pools_version_script})
foreach(library IN ITEMS poolshim-pools poolshim-pools-static)
    target_include_directories(${library} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/pools/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${library} PRIVATE Threads::Threads ${atomic_library})
endforeach()
set_target_properties(poolshim-pools PROPERTIES EXPORT_NAME pools)
set_target_properties(poolshim-pools-static PROPERTIES EXPORT_NAME pools-static)
add_library(poolshim::pools ALIAS poolshim-pools)
add_library(poolshim::pools-static ALIAS poolshim-pools-static)
