if(EXISTS "/tmp/wt-sim/build-address/src/tack_tests_std_threads")
  if(NOT EXISTS "/tmp/wt-sim/build-address/tests/cpp/tack_tests_std_threads_ce8555fd_tests.cmake" OR
     NOT "/tmp/wt-sim/build-address/tests/cpp/tack_tests_std_threads_ce8555fd_tests.cmake" IS_NEWER_THAN "/tmp/wt-sim/build-address/src/tack_tests_std_threads" OR
     NOT "/tmp/wt-sim/build-address/tests/cpp/tack_tests_std_threads_ce8555fd_tests.cmake" IS_NEWER_THAN "${CMAKE_CURRENT_LIST_FILE}")
    include("/tmp/wt-sim/build-address/tests/cpp/tack_tests_std_threads_ce8555fd_discovery.cmake")
  endif()
endif()
if(EXISTS "/tmp/wt-sim/build-address/tests/cpp/tack_tests_std_threads_ce8555fd_tests.cmake")
  include("/tmp/wt-sim/build-address/tests/cpp/tack_tests_std_threads_ce8555fd_tests.cmake")
else()
  add_test(tack_tests_std_threads_NOT_BUILT tack_tests_std_threads_NOT_BUILT)
endif()
