/* A C library of tensors that knows DLPack and nothing of Tack. */
#include <dlpack/dlpack.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* n doubles 0, 1, 2 ...; the receiver calls the deleter. */
DLManagedTensor* library_make(int64_t n);
DLManagedTensorVersioned* library_make_versioned(int64_t n, int read_only);
/* Doubles every element and gives the tensor back; -1 where it may not be written. */
int library_take(DLManagedTensor* tensor);
int library_take_versioned(DLManagedTensorVersioned* tensor);
/* Tensors made and not yet given back. */
int library_alive(void);

#ifdef __cplusplus
}
#endif
