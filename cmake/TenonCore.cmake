# The host: libtenon_core.a for the command and the tests, and the command itself.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# tenon_require(<prefix> <pkg-config module> <Debian package>)
function(tenon_require prefix module package)
  pkg_check_modules(${prefix} IMPORTED_TARGET GLOBAL QUIET ${module})
  if(NOT ${prefix}_FOUND)
    message(FATAL_ERROR "library '${module}' not found: install the package ${package} (Debian), "
      "or run contrib/run-demo, which installs all that is needed")
  endif()
endfunction()
tenon_require(INIH inih libinih-dev)
tenon_require(PCRE2 libpcre2-8 libpcre2-dev)
tenon_require(JANSSON jansson libjansson-dev)
tenon_require(EDIT libedit libedit-dev)
tenon_require(MICROHTTPD libmicrohttpd libmicrohttpd-dev)
tenon_require(CURL libcurl libcurl4-openssl-dev)

# What a plugin sees: include/, as "plugin_api.h" and, as in an installation, as <tenon/plugin_api.h>.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/include/tenon/plugin_api.h"
  CONTENT "#include \"@PROJECT_SOURCE_DIR@/include/plugin_api.h\"\n" @ONLY)
add_library(tenon_plugin_api INTERFACE)
add_library(Tenon::plugin_api ALIAS tenon_plugin_api)
target_include_directories(tenon_plugin_api INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/include")

# The command looks for ../share/tenon beside itself, in the build tree as in an installation.
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/share/tenon")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/conf" "${PROJECT_BINARY_DIR}/share/tenon/conf" SYMBOLIC)
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/contrib/scaffold" "${PROJECT_BINARY_DIR}/share/tenon/scaffold" SYMBOLIC)
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/core/serve/page" "${PROJECT_BINARY_DIR}/share/tenon/serve" SYMBOLIC)

file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/core/*.c")
list(REMOVE_ITEM sources "${PROJECT_SOURCE_DIR}/core/main.c")
if(NOT TENON_MPI)
  list(FILTER sources EXCLUDE REGEX "_mpi\\.c$")
endif()
if(sources)
  add_library(tenon_core STATIC ${sources})
  target_include_directories(tenon_core PUBLIC
    "${PROJECT_SOURCE_DIR}/core" "${PROJECT_SOURCE_DIR}/kernels" "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(tenon_core PUBLIC TN_VERSION="${PROJECT_VERSION}"
    PRIVATE TN_PLUGIN_DIR="${CMAKE_INSTALL_PREFIX}/lib/tenon")
  target_link_libraries(tenon_core PUBLIC Tenon::plugin_api
    PkgConfig::INIH PkgConfig::PCRE2 PkgConfig::JANSSON PkgConfig::EDIT PkgConfig::MICROHTTPD PkgConfig::CURL Threads::Threads ${CMAKE_DL_LIBS} m)
  tenon_link_existing(tenon_core PUBLIC tenon_kernels_quant)
  if(TENON_MPI)
    find_package(MPI REQUIRED COMPONENTS C)
    target_compile_definitions(tenon_core PUBLIC TN_MPI=1)
    target_link_libraries(tenon_core PUBLIC MPI::MPI_C)
  endif()
endif()

if(TARGET tenon_core AND EXISTS "${PROJECT_SOURCE_DIR}/core/main.c")
  add_executable(tenon "${PROJECT_SOURCE_DIR}/core/main.c")
  set_target_properties(tenon PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  target_link_libraries(tenon PRIVATE tenon_core)
endif()
