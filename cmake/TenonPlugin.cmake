# tenon_add_plugin(<slot> <name> <sources>...): one plugin, <output>/<slot>/<name>.so.
#
# Used by Tenon's own build and, through find_package(Tenon), by plugins out of tree. The target is plugin_<slot>_<name>.
# <output> is TENON_PLUGIN_OUTPUT_DIR, or lib/tenon in the build folder, so that TN_PATH=<build>/lib/tenon finds it;
# `cmake --install` puts the file into lib/tenon/<slot> under the prefix.
# The plugin exports its entry alone, and a symbol that nobody defines is an error at link time.
set(TENON_PLUGIN_MAP "${CMAKE_CURRENT_LIST_DIR}/plugin.map")
set(TENON_SLOTS backend memory eviction quantizer draft attention position scheduler parallel)

# tenon_plugin_target(<target> <slot> <name> <output> <sources>...): the target alone, without version script or install.
function(tenon_plugin_target target slot name output)
  add_library(${target} MODULE ${ARGN})
  set_target_properties(${target} PROPERTIES
    PREFIX "" SUFFIX ".so" OUTPUT_NAME "${name}" LIBRARY_OUTPUT_DIRECTORY "${output}/${slot}"
    C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${target} PRIVATE Tenon::plugin_api)
  target_link_options(${target} PRIVATE LINKER:--as-needed)
endfunction()

function(tenon_add_plugin slot name)
  if(NOT slot IN_LIST TENON_SLOTS)
    list(JOIN TENON_SLOTS ", " slots)
    message(FATAL_ERROR "plugin '${name}': there is no slot '${slot}'; the slots are ${slots}")
  endif()
  if(NOT ARGN)
    message(FATAL_ERROR "plugin '${slot}/${name}' has no source files")
  endif()
  if(TENON_PLUGIN_OUTPUT_DIR)
    set(output "${TENON_PLUGIN_OUTPUT_DIR}")
  else()
    set(output "${CMAKE_BINARY_DIR}/lib/tenon")
  endif()
  set(target plugin_${slot}_${name})
  tenon_plugin_target(${target} ${slot} ${name} "${output}" ${ARGN})
  target_link_options(${target} PRIVATE "LINKER:--version-script=${TENON_PLUGIN_MAP}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${TENON_PLUGIN_MAP}")
  # clang leaves the sanitizer's symbols to the program, so they are undefined in a module of such a build.
  if(NOT TENON_INSTRUMENTED)
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION lib/tenon/${slot})
endfunction()
