if(EXISTS "/tmp/wt-sim/build-address/src/tack_tests_sim")
  if(NOT EXISTS "/tmp/wt-sim/build-address/tests/cpp/tack_tests_sim_719e19d5_tests.cmake" OR
     NOT "/tmp/wt-sim/build-address/tests/cpp/tack_tests_sim_719e19d5_tests.cmake" IS_NEWER_THAN "/tmp/wt-sim/build-address/src/tack_tests_sim" OR
     NOT "/tmp/wt-sim/build-address/tests/cpp/tack_tests_sim_719e19d5_tests.cmake" IS_NEWER_THAN "${CMAKE_CURRENT_LIST_FILE}")
    include("/tmp/wt-sim/build-address/tests/cpp/tack_tests_sim_719e19d5_discovery.cmake")
  endif()
endif()
if(EXISTS "/tmp/wt-sim/build-address/tests/cpp/tack_tests_sim_719e19d5_tests.cmake")
  include("/tmp/wt-sim/build-address/tests/cpp/tack_tests_sim_719e19d5_tests.cmake")
else()
  add_test(tack_tests_sim_NOT_BUILT tack_tests_sim_NOT_BUILT)
endif()
