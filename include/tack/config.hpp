/// Version and symbol visibility of libtack.
#pragma once

#define TACK_VERSION_MAJOR 0
#define TACK_VERSION_MINOR 1
#define TACK_VERSION_PATCH 0
#define TACK_VERSION "0.1.0"

#if defined(_WIN32)
#if defined(TACK_BUILDING)
#define TACK_API __declspec(dllexport)
#else
#define TACK_API __declspec(dllimport)
#endif
#else
#define TACK_API __attribute__((visibility("default")))
#endif
