// Which handle a device's memory is exported as, for both systems whatever this one is.
#include <gtest/gtest.h>

#include "backend/cuda/buffer.hpp"

namespace {

using tack::cuda::export_type;
using tack::cuda::ExportAttributes;
using tack::cuda::Platform;

constexpr ExportAttributes able{.virtual_memory = true, .posix_fd = true, .win32_kmt = true};

TEST(ExportType, is_a_file_descriptor_on_linux) {
    EXPECT_EQ(export_type(Platform::linux, able), tack::cuda::handle_posix_fd);
}

TEST(ExportType, is_a_kmt_handle_on_windows) {
    EXPECT_EQ(export_type(Platform::windows, able), tack::cuda::handle_win32_kmt);
}

TEST(ExportType, is_none_without_virtual_memory_management) {
    ExportAttributes device = able;
    device.virtual_memory = false;
    EXPECT_EQ(export_type(Platform::linux, device), tack::cuda::handle_none);
    EXPECT_EQ(export_type(Platform::windows, device), tack::cuda::handle_none);
}

TEST(ExportType, is_none_where_the_device_lacks_the_systems_own_handle) {
    ExportAttributes device = able;
    device.posix_fd = false;
    EXPECT_EQ(export_type(Platform::linux, device), tack::cuda::handle_none);
    device = able;
    device.win32_kmt = false;
    EXPECT_EQ(export_type(Platform::windows, device), tack::cuda::handle_none);
}

TEST(ExportType, is_never_the_other_systems_handle) {
    ExportAttributes device = able;
    device.posix_fd = false;
    EXPECT_EQ(export_type(Platform::windows, device), tack::cuda::handle_win32_kmt);
    device = able;
    device.win32_kmt = false;
    EXPECT_EQ(export_type(Platform::linux, device), tack::cuda::handle_posix_fd);
}

TEST(ExportType, is_none_for_a_gpu_in_tcc_mode) {
    ExportAttributes device = able;
    device.tcc = true;
    EXPECT_EQ(export_type(Platform::windows, device), tack::cuda::handle_none);
}

TEST(ExportType, does_not_heed_on_linux_what_only_windows_has) {
    ExportAttributes device = able;
    device.tcc = true;
    EXPECT_EQ(export_type(Platform::linux, device), tack::cuda::handle_posix_fd);
}

}  // namespace
