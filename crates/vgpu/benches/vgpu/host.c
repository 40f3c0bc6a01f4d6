/* What the kernels compute, written for one thread of a CPU. */
#include <math.h>
#include <stddef.h>

#define TILE 16
#define LOG2_E 1.44269504088896340736f

void vadd(const float *restrict a, const float *restrict b, float *restrict sum, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sum[i] = a[i] + b[i];
}

void matmul(const float *restrict a, const float *restrict b, float *restrict c, unsigned side)
{
    for (unsigned row_tile = 0; row_tile < side; row_tile += TILE)
        for (unsigned column_tile = 0; column_tile < side; column_tile += TILE)
            for (unsigned tile = 0; tile < side; tile += TILE)
                for (unsigned row = row_tile; row < row_tile + TILE; row++)
                    for (unsigned column = column_tile; column < column_tile + TILE; column++) {
                        float sum = tile == 0 ? 0.0f : c[row * side + column];
                        for (unsigned k = tile; k < tile + TILE; k++)
                            sum += a[row * side + k] * b[k * side + column];
                        c[row * side + column] = sum;
                    }
}

void softmax(const float *restrict in, float *restrict out, unsigned rows, unsigned columns)
{
    for (unsigned line = 0; line < rows; line++) {
        const float *row = in + (size_t)line * columns;
        float *result = out + (size_t)line * columns;
        float largest = -INFINITY;
        for (unsigned column = 0; column < columns; column++)
            largest = row[column] > largest ? row[column] : largest;
        float sum = 0.0f;
        for (unsigned column = 0; column < columns; column++)
            sum += exp2f((row[column] - largest) * LOG2_E);
        for (unsigned column = 0; column < columns; column++)
            result[column] = exp2f((row[column] - largest) * LOG2_E) / sum;
    }
}
