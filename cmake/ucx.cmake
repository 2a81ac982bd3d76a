# UCX comes from the Python package libucx-cu12, which carries headers and libraries. Its CMake files are not used:
# they have the path of the machine they were made on.
set(HIPRESS_UCX_ROOT "" CACHE PATH "Folder of the package libucx; empty: as ${Python_EXECUTABLE} would import it")
if(NOT HIPRESS_UCX_ROOT)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import libucx, os; print(os.path.dirname(libucx.__file__), end='')"
    OUTPUT_VARIABLE HIPRESS_UCX_ROOT ERROR_QUIET)
endif()
if(NOT EXISTS "${HIPRESS_UCX_ROOT}/include/ucp/api/ucp.h")
  message(FATAL_ERROR "UCX was not found: ${Python_EXECUTABLE} cannot import libucx. Run: pip install libucx-cu12")
endif()
message(STATUS "UCX: ${HIPRESS_UCX_ROOT}")

add_library(hipress_ucx INTERFACE)
target_include_directories(hipress_ucx SYSTEM INTERFACE "${HIPRESS_UCX_ROOT}/include")
target_link_libraries(hipress_ucx INTERFACE "${HIPRESS_UCX_ROOT}/lib/libucp.so" "${HIPRESS_UCX_ROOT}/lib/libucs.so")
# UCX's libraries are resolved when they are loaded, some of them only on machines with the hardware they serve.
target_link_options(hipress_ucx INTERFACE -Wl,--allow-shlib-undefined)
