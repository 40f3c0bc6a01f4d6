#include "corpus.h"

/* Product of two 4x4 matrices and the determinant of the first. */
KERNEL(matrix4, f32, u32)
{
    GLOBAL const f32 *a = in + 32 * item, *b = a + 16;
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 4; column++) {
            f32 sum = 0;
            for (int i = 0; i < 4; i++)
                sum += a[row * 4 + i] * b[i * 4 + column];
            out[17 * item + row * 4 + column] = bits32(sum);
        }
    f32 m[16];
    for (int i = 0; i < 16; i++)
        m[i] = a[i];
    f32 determinant = 1;
    for (int i = 0; i < 4; i++) {
        int pivot = i;
        for (int row = i + 1; row < 4; row++)
            if (__builtin_fabsf(m[row * 4 + i]) > __builtin_fabsf(m[pivot * 4 + i]))
                pivot = row;
        if (pivot != i) {
            determinant = -determinant;
            for (int column = 0; column < 4; column++) {
                f32 kept = m[i * 4 + column];
                m[i * 4 + column] = m[pivot * 4 + column];
                m[pivot * 4 + column] = kept;
            }
        }
        determinant *= m[i * 4 + i];
        for (int row = i + 1; row < 4; row++) {
            f32 factor = m[row * 4 + i] / m[i * 4 + i];
            for (int column = i; column < 4; column++)
                m[row * 4 + column] -= factor * m[i * 4 + column];
        }
    }
    out[17 * item + 16] = bits32(determinant);
}
