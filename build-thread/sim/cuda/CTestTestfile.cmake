# CMake generated Testfile for 
# Source directory: /tmp/wt-sim/sim/cuda
# Build directory: /tmp/wt-sim/build-thread/sim/cuda
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
