# SPDX-License-Identifier: MIT
# Removes what `cmake --install` has written, then the folders below a folder "poolshim" that are
# empty thereafter. $DESTDIR counts as it does when installing.
#
#     cmake --build build/library -t uninstall
if(NOT EXISTS "${MANIFEST}")
    message(FATAL_ERROR "${MANIFEST} is not there: nothing was installed from this build")
endif()

set(folders "")
file(STRINGS "${MANIFEST}" files)
foreach(name IN LISTS files)
    set(file "$ENV{DESTDIR}${name}")
    if(EXISTS "${file}" OR IS_SYMLINK "${file}")
        message(STATUS "Removing: ${file}")
        file(REMOVE "${file}")
    else()
        message(STATUS "Not there: ${file}")
    endif()
    get_filename_component(folder "${file}" DIRECTORY)
    if(name MATCHES "\\.py$") # Python writes its compiled modules beside them
        get_filename_component(module "${file}" NAME_WE)
        file(GLOB compiled "${folder}/__pycache__/${module}.*.pyc")
        if(compiled)
            file(REMOVE ${compiled})
        endif()
        list(APPEND folders "${folder}/__pycache__")
    endif()
    while(folder MATCHES "/poolshim(/|$)")
        list(APPEND folders "${folder}")
        get_filename_component(folder "${folder}" DIRECTORY)
    endwhile()
endforeach()

# A subfolder sorts after the folder that contains it.
list(REMOVE_DUPLICATES folders)
list(SORT folders)
list(REVERSE folders)
foreach(folder IN LISTS folders)
    file(GLOB left "${folder}/*" "${folder}/.*")
    if(IS_DIRECTORY "${folder}" AND left STREQUAL "")
        file(REMOVE_RECURSE "${folder}")
    endif()
endforeach()
