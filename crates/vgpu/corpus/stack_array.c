#include "corpus.h"

/* An array that no register can hold, sorted. */
KERNEL(stack_array, i32, i32)
{
    i32 values[24];
    for (int i = 0; i < 24; i++)
        values[i] = in[(item * 24 + i * 7) % (n * 24)];
    for (int i = 1; i < 24; i++) {
        i32 value = values[i];
        int j = i - 1;
        while (j >= 0 && values[j] > value) {
            values[j + 1] = values[j];
            j--;
        }
        values[j + 1] = value;
    }
    for (int i = 0; i < 24; i += 3)
        out[8 * item + i / 3] = values[i];
}
