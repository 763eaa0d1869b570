// saxpy as one would write it by hand: all cores by OpenMP, and stores that pass the caches by.
#include <immintrin.h>

void saxpy(long count, float a, const float *x, const float *y, float *z) {
    const __m256 scale = _mm256_set1_ps(a);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (long i = 0; i < count; i += 8)
            _mm256_stream_ps(z + i, _mm256_add_ps(_mm256_mul_ps(scale, _mm256_loadu_ps(x + i)),
                                                  _mm256_loadu_ps(y + i)));
        _mm_sfence();
    }
}
