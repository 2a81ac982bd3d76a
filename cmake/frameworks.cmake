# Where a framework's headers are: its installed package, or the folder that frameworks/fetch_headers.py has taken out of
# the framework's wheel, so that one build has the operators of frameworks that cannot be installed side by side.
foreach(framework TORCH TENSORFLOW MXNET)
  option(HIPRESS_BUILD_${framework} "Build its operators where its headers are found" ON)
  set(HIPRESS_${framework}_ROOT "" CACHE PATH
    "Folder of the framework's package, with its include/; empty: as ${Python_EXECUTABLE} would import it")
endforeach()

set(HIPRESS_FIND_FRAMEWORK "${CMAKE_CURRENT_LIST_DIR}/find_framework.py")

# Sets <name>_root and <name>_version; the root is empty where the framework is not there, or not wanted.
function(hipress_find_framework name)
  string(TOUPPER "${name}" upper)
  set(${name}_root "" PARENT_SCOPE)
  if(NOT HIPRESS_BUILD_${upper})
    message(STATUS "${name}: not wanted (HIPRESS_BUILD_${upper})")
    return()
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${HIPRESS_FIND_FRAMEWORK}" ${name} "${HIPRESS_${upper}_ROOT}"
    OUTPUT_VARIABLE found ERROR_VARIABLE error RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${name}: ${error}Set HIPRESS_${upper}_ROOT to the folder of its package, or to what this "
      "prints: python frameworks/fetch_headers.py ${name}")
  endif()
  if(NOT found)
    message(STATUS "${name}: not found by ${Python_EXECUTABLE}; its operators are not built")
    return()
  endif()
  list(GET found 0 root)
  list(GET found 1 version)
  message(STATUS "${name} ${version}: ${root}")
  set(${name}_root "${root}" PARENT_SCOPE)
  set(${name}_version "${version}" PARENT_SCOPE)
endfunction()

# Links `target` to libraries that the framework has loaded into the process, by their names alone. The libraries
# themselves are not needed to build: an empty one of each name stands for it; symbols are found when `target` is loaded.
function(hipress_link_loaded target)
  foreach(name ${ARGN})
    string(MAKE_C_IDENTIFIER "loaded_${name}" stand_in)
    if(NOT TARGET ${stand_in})
      set(folder "${PROJECT_BINARY_DIR}/loaded")
      file(CONFIGURE OUTPUT "${folder}/empty.cc" CONTENT "")
      add_library(${stand_in} SHARED "${folder}/empty.cc")
      set_target_properties(${stand_in} PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY "${folder}" PREFIX "" OUTPUT_NAME "${name}" SUFFIX "")
    endif()
    target_link_libraries(${target} PRIVATE -Wl,--push-state,--no-as-needed ${stand_in} -Wl,--pop-state)
  endforeach()
  target_link_options(${target} PRIVATE -Wl,--allow-shlib-undefined)
endfunction()
