if(EXISTS "/tmp/wt-sim/build-thread/src/tack_tests")
  if(NOT EXISTS "/tmp/wt-sim/build-thread/tests/cpp/tack_tests_7ff83dcd_tests.cmake" OR
     NOT "/tmp/wt-sim/build-thread/tests/cpp/tack_tests_7ff83dcd_tests.cmake" IS_NEWER_THAN "/tmp/wt-sim/build-thread/src/tack_tests" OR
     NOT "/tmp/wt-sim/build-thread/tests/cpp/tack_tests_7ff83dcd_tests.cmake" IS_NEWER_THAN "${CMAKE_CURRENT_LIST_FILE}")
    include("/tmp/wt-sim/build-thread/tests/cpp/tack_tests_7ff83dcd_discovery.cmake")
  endif()
endif()
if(EXISTS "/tmp/wt-sim/build-thread/tests/cpp/tack_tests_7ff83dcd_tests.cmake")
  include("/tmp/wt-sim/build-thread/tests/cpp/tack_tests_7ff83dcd_tests.cmake")
else()
  add_test(tack_tests_NOT_BUILT tack_tests_NOT_BUILT)
endif()
