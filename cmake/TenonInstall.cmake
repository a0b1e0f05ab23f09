# What `cmake --install` puts where. The libdir is plain lib/: the command finds its plugins in ../lib/tenon beside it.
include(CMakePackageConfigHelpers)

if(TARGET tenon)
  install(TARGETS tenon RUNTIME DESTINATION bin)
endif()
install(FILES "${PROJECT_SOURCE_DIR}/include/plugin_api.h" DESTINATION include/tenon)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/conf/" DESTINATION share/tenon/conf OPTIONAL)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/core/serve/page/" DESTINATION share/tenon/serve OPTIONAL)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/contrib/template/" DESTINATION share/tenon/template
  USE_SOURCE_PERMISSIONS OPTIONAL)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/contrib/scaffold/" DESTINATION share/tenon/scaffold
  USE_SOURCE_PERMISSIONS OPTIONAL)

# For plugins out of tree: pkg-config and find_package(Tenon) with tenon_add_plugin.
# In the build tree tenon.pc lies as in an installation, and serves plugins there as well.
configure_file("${PROJECT_SOURCE_DIR}/cmake/tenon.pc.in" "${PROJECT_BINARY_DIR}/lib/pkgconfig/tenon.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/lib/pkgconfig/tenon.pc" DESTINATION lib/pkgconfig)
set(package_dir lib/cmake/Tenon)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/TenonConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/TenonConfig.cmake" INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/TenonConfig.cmake" "${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/TenonPlugin.cmake" "${PROJECT_SOURCE_DIR}/cmake/plugin.map" DESTINATION ${package_dir})
