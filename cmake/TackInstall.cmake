# What is installed, by component: runtime (the libraries), development (headers and CMake
# package), python (see python/CMakeLists.txt) and bundled (what a wheel carries along). All paths
# are relative to the prefix, which in a Python installation is the package's folder.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tack)

# A wheel holds no links, so that the link name is a component that it leaves out.
install(TARGETS tack EXPORT TackTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
    NAMELINK_COMPONENT namelink)
if(TACK_WITH_CLANG)
    install(TARGETS tack_clang LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endif()

install(DIRECTORY include/tack DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT TackTargets NAMESPACE tack:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(cmake/TackConfig.cmake.in TackConfig.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(TackConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    ${PROJECT_BINARY_DIR}/TackConfig.cmake ${PROJECT_BINARY_DIR}/TackConfigVersion.cmake
    DESTINATION ${package_dir} COMPONENT development)

if(NOT TACK_PYTHON)
    return()
endif()

function(tack_bundle_licence name)
    foreach(text ${ARGN})
        if(EXISTS ${text})
            install(FILES ${text} DESTINATION licenses RENAME ${name}.txt
                COMPONENT bundled EXCLUDE_FROM_ALL)
            return()
        endif()
    endforeach()
    message(STATUS "The licence of ${name} was not found (${ARGN}); a wheel made here lacks it and "
                   "must not be passed on")
endfunction()

if(TACK_PTHREADPOOL)
    file(REAL_PATH ${TACK_PTHREADPOOL_LIBRARY} pthreadpool_file)
    install(PROGRAMS ${pthreadpool_file} DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT bundled EXCLUDE_FROM_ALL)
    tack_bundle_licence(pthreadpool /usr/share/doc/libpthreadpool0/copyright)
endif()
if(TACK_WITH_CLANG)
    tack_bundle_licence(llvm-and-clang /usr/share/doc/llvm-22-dev/copyright)
    tack_bundle_licence(apache-2.0 /usr/share/common-licenses/Apache-2.0)
    tack_bundle_licence(zstd /usr/share/doc/libzstd-dev/copyright)
    tack_bundle_licence(zlib /usr/share/doc/zlib1g-dev/copyright)
endif()
file(GLOB nanobind_licence ${nanobind_DIR}/../../nanobind-*.dist-info/licenses/LICENSE)
tack_bundle_licence(nanobind ${nanobind_licence})
# Its licence is the beginning of its header.
tack_bundle_licence(robin-map ${nanobind_DIR}/../ext/robin_map/include/tsl/robin_map.h)
