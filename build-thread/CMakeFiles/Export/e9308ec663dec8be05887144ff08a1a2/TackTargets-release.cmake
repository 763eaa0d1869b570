#----------------------------------------------------------------
# Generated CMake target import file for configuration "Release".
#----------------------------------------------------------------

# Commands may need to know the format version.
set(CMAKE_IMPORT_FILE_VERSION 1)

# Import target "tack::tack" for configuration "Release"
set_property(TARGET tack::tack APPEND PROPERTY IMPORTED_CONFIGURATIONS RELEASE)
set_target_properties(tack::tack PROPERTIES
  IMPORTED_LOCATION_RELEASE "${_IMPORT_PREFIX}/lib/libtack.so.0"
  IMPORTED_SONAME_RELEASE "libtack.so.0"
  )

list(APPEND _cmake_import_check_targets tack::tack )
list(APPEND _cmake_import_check_files_for_tack::tack "${_IMPORT_PREFIX}/lib/libtack.so.0" )

# Commands beyond this point should not need to know the version.
set(CMAKE_IMPORT_FILE_VERSION)
