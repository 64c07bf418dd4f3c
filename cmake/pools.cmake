# SPDX-License-Identifier: MIT
# libpoolshim-pools: the special-purpose pools, on the engine's lower layers. A family is a folder
# of pools/ that has sources; a new one is found by glob.

file(GLOB pool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pools/*/*.c)
set(pages_source ${PROJECT_SOURCE_DIR}/pools/pages/pages.c)
list(REMOVE_ITEM pool_sources ${pages_source})
list(FILTER pool_sources EXCLUDE REGEX "/pools/examples/")
set(pool_layers ${engine_sources})
list(FILTER pool_layers INCLUDE REGEX "/pools/engine/(base|os|page)/")

add_library(poolshim-pools-objects OBJECT ${pool_sources} ${pool_layers})
add_library(poolshim-pools-pages OBJECT ${pages_source})
foreach(objects IN ITEMS poolshim-pools-objects poolshim-pools-pages)
    set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${objects} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/pools/include>)
    target_link_libraries(${objects} PRIVATE poolshim-engine-flags)
endforeach()

# Its functions are weak in the archive: where libpoolshim.a has them, too, in either order of the
# two, those of malloc serve both.
set(weak_pages $<TARGET_OBJECTS:poolshim-pools-pages>)
if(NOT has_late_code)
    file(STRINGS ${PROJECT_SOURCE_DIR}/shim/entry_points.def names REGEX "^PS_CONTROL\\(ps_pages_")
    string(REGEX REPLACE "PS_CONTROL\\(([a-z_]+)\\)" "--weaken-symbol=\\1" weaken "${names}")
    set(weak_pages ${PROJECT_BINARY_DIR}/linked/pages.o)
    add_custom_command(OUTPUT ${weak_pages}
        COMMAND ${CMAKE_OBJCOPY} ${weaken} $<TARGET_OBJECTS:poolshim-pools-pages> ${weak_pages}
        DEPENDS $<TARGET_OBJECTS:poolshim-pools-pages>
        COMMENT "Making the pages of libpoolshim-pools.a weak" VERBATIM)
    set_source_files_properties(${weak_pages} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/linked)
endif()
add_library(poolshim-pools-static STATIC $<TARGET_OBJECTS:poolshim-pools-objects> ${weak_pages})
set_target_properties(poolshim-pools-static PROPERTIES OUTPUT_NAME poolshim-pools)
add_library(poolshim-pools SHARED $<TARGET_OBJECTS:poolshim-pools-objects>
    $<TARGET_OBJECTS:poolshim-pools-pages>)
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
