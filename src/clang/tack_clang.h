/* The C interface of libtack_clang.so, the embedded compiler. It is loaded with
   dlopen(RTLD_NOW | RTLD_LOCAL) at the first compile and never unloaded. No function prints,
   exits, changes a signal disposition or lets a C++ exception out; all may be called from any
   thread. The library and libtack come from one build: tack_clang_abi() must agree. */
#ifndef TACK_CLANG_H
#define TACK_CLANG_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TACK_CLANG_ABI 1

enum tack_clang_output {
    TACK_CLANG_OBJECT = 0,   /* a relocatable ELF object: position-independent, small code model */
    TACK_CLANG_ASSEMBLY = 1, /* its assembly text */
};

/* A function that the vectorizer may widen: calls of `scalar` become calls of `vector` on `width`
   elements. `prefix` is the vector ABI's mangling, "_ZGV_LLVM_N8v" for width 8, one argument. */
struct tack_clang_vector_function {
    const char* scalar;
    const char* vector;
    unsigned width;
    const char* prefix;
};

struct tack_clang_request {
    const char* source; /* C, self-contained; need not end with a zero */
    size_t source_size;
    const char* name;            /* file name in diagnostics */
    const char* const* features; /* target features over plain x86-64: "+avx2", ... */
    size_t feature_count;
    int fast_math; /* contraction and reassociation allowed; else neither */
    int output;    /* enum tack_clang_output */
    const struct tack_clang_vector_function* vector_functions;
    size_t vector_function_count;
};

struct tack_clang_result {
    char* data; /* the output; null on failure */
    size_t size;
    char* log; /* diagnostics, zero-terminated; null where there are none */
};

int tack_clang_abi(void);
/* "22.1.8" */
const char* tack_clang_version(void);
/* 0 and result->data, or non-zero and result->log. */
int tack_clang_compile(const struct tack_clang_request* request, struct tack_clang_result* result);
void tack_clang_free(struct tack_clang_result* result);

#ifdef __cplusplus
}
#endif
#endif
