#include "device.h"

#define LANES 64
#define LOG2_E 1.44269504088896340736f

/* One workgroup for each row. The exponential is the machine's own instruction. */
KERNEL softmax(GLOBAL const float *in, GLOBAL float *out, u32 columns)
{
    LOCAL float shared[LANES];
    GLOBAL const float *row = in + (u64)GROUP * columns;
    GLOBAL float *result = out + (u64)GROUP * columns;

    float largest = -__builtin_inff();
    for (u32 column = LANE; column < columns; column += LANES)
        largest = row[column] > largest ? row[column] : largest;
    shared[LANE] = largest;
    barrier();
    for (u32 half = LANES / 2; half > 0; half /= 2) {
        if (LANE < half && shared[LANE + half] > shared[LANE])
            shared[LANE] = shared[LANE + half];
        barrier();
    }
    largest = shared[0];
    barrier();

    float sum = 0.0f;
    for (u32 column = LANE; column < columns; column += LANES)
        sum += __builtin_amdgcn_exp2f((row[column] - largest) * LOG2_E);
    shared[LANE] = sum;
    barrier();
    for (u32 half = LANES / 2; half > 0; half /= 2) {
        if (LANE < half)
            shared[LANE] += shared[LANE + half];
        barrier();
    }
    sum = shared[0];

    for (u32 column = LANE; column < columns; column += LANES)
        result[column] = __builtin_amdgcn_exp2f((row[column] - largest) * LOG2_E) / sum;
}
