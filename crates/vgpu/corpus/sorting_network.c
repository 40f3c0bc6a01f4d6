#include "corpus.h"

/* Eight numbers through the nineteen comparisons that sort them. */
#define ORDER(i, j)                      \
    do {                                 \
        i32 low = v[i] < v[j] ? v[i] : v[j], high = v[i] < v[j] ? v[j] : v[i]; \
        v[i] = low;                      \
        v[j] = high;                     \
    } while (0)
KERNEL(sorting_network, i32, i32)
{
    i32 v[8];
    for (int i = 0; i < 8; i++)
        v[i] = in[8 * item + i];
    ORDER(0, 2); ORDER(1, 3); ORDER(4, 6); ORDER(5, 7);
    ORDER(0, 4); ORDER(1, 5); ORDER(2, 6); ORDER(3, 7);
    ORDER(0, 1); ORDER(2, 3); ORDER(4, 5); ORDER(6, 7);
    ORDER(2, 4); ORDER(3, 5);
    ORDER(1, 4); ORDER(3, 6);
    ORDER(1, 2); ORDER(3, 4); ORDER(5, 6);
    for (int i = 0; i < 8; i++)
        out[8 * item + i] = v[i];
}
