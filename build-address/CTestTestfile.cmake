# CMake generated Testfile for 
# Source directory: /tmp/wt-sim
# Build directory: /tmp/wt-sim/build-address
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
subdirs("src")
subdirs("sim/cuda")
subdirs("tests/cpp")
