# CMake generated Testfile for 
# Source directory: /tmp/wt-sim/tests/cpp
# Build directory: /tmp/wt-sim/build-thread/tests/cpp
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
include("/tmp/wt-sim/build-thread/tests/cpp/tack_tests_7ff83dcd_include.cmake")
include("/tmp/wt-sim/build-thread/tests/cpp/tack_tests_std_threads_ce8555fd_include.cmake")
include("/tmp/wt-sim/build-thread/tests/cpp/tack_tests_sim_719e19d5_include.cmake")
