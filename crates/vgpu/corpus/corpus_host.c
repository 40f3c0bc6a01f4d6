/* Inputs for the kernels, the same for the same seed. */
#include "corpus.h"

#include <string.h>

static u64 next(u64 *state)
{
    /* splitmix64, by Vigna (public domain). */
    u64 z = *state += 0x9E3779B97F4A7C15ul;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ul;
    z = (z ^ z >> 27) * 0x94D049BB133111EBul;
    return z ^ z >> 31;
}

static const u64 integers[] = {
    0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF,
    0x80000000ul, 0xFFFFFFFFul, 0x100000000ul, 0x7FFFFFFFFFFFFFFFul, 0x8000000000000000ul, 0xFFFFFFFFFFFFFFFFul,
    0xFFFFFFFFFFFFFFFEul, 0xFFFFFFFFFFFFFF80ul, 0xFFFFFFFFFFFF8000ul, 0xFFFFFFFF80000000ul, 0x5555555555555555ul,
    0xAAAAAAAAAAAAAAAAul,
};

static const u32 singles[] = {
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x3F7FFFFF, 0x3F800001, 0x40000000, 0x3F000000, 0x00000001,
    0x80000001, 0x007FFFFF, 0x00800000, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
    0x4B000000, 0x4B800000, 0x4EFFFFFF, 0x4F000000, 0xCF000000, 0x5F000000, 0x3DCCCCCD, 0x40490FDB, 0x477FE000,
    0x477FF000, 0x33800000, 0x33000000, 0x38800000, 0x387FC000,
};

static const u64 doubles[] = {
    0x0000000000000000, 0x8000000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FF0000000000001,
    0x0000000000000001, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF,
    0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x4330000000000000, 0x41DFFFFFFFC00000,
    0x41E0000000000000, 0xC1E0000000000000, 0x43E0000000000000, 0x3810000000000000, 0x36A0000000000000,
    0x47EFFFFFE0000000, 0x47EFFFFFF0000000, 0x400921FB54442D18, 0x3FB999999999999A,
};

static const u16 halves[] = {
    0x0000, 0x8000, 0x3C00, 0xBC00, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x3555,
};

#define PICK(table, random) table[(random) % (sizeof(table) / sizeof *(table))]

/* A random value of a kind as bits of the type: `bits` any, `edge` half of them from the tables above, `unit` numbers
 * from -1 to 1, `small` whole numbers from -100 to 100 (0 to 200 unsigned). */
static u64 value(char class, unsigned width, const char *kind, u64 *state)
{
    u64 random = next(state);
    int edge = strcmp(kind, "edge") == 0 && random >> 63;
    f64 unit = (f64)(i64)(random >> 11) * 0x1p-52 - 1.0;
    if (class == 'f') {
        if (edge)
            return width == 2 ? PICK(halves, random >> 8) : width == 4 ? PICK(singles, random >> 8)
                                                                       : PICK(doubles, random >> 8);
        if (strcmp(kind, "unit") == 0 || strcmp(kind, "small") == 0) {
            f64 x = *kind == 'u' ? unit : (f64)((i64)(random % 201) - 100);
            f32 single = (f32)x;
            f16 half = (f16)x;
            return width == 2   ? __builtin_bit_cast(u16, half)
                   : width == 4 ? __builtin_bit_cast(u32, single)
                                : __builtin_bit_cast(u64, x);
        }
        /* Signalling NaNs are treated differently by different machines, so there are none: they become quiet. */
        if (width == 2)
            return (random & 0x7C00) == 0x7C00 ? random | 0x200 : random;
        if (width == 4)
            return (random & 0x7F800000) == 0x7F800000 ? random | 0x400000 : random;
        return (random & 0x7FF0000000000000) == 0x7FF0000000000000 ? random | 0x8000000000000 : random;
    }
    if (edge)
        return PICK(integers, random >> 8);
    if (strcmp(kind, "small") == 0)
        return class == 'i' ? (u64)((i64)(random % 201) - 100) : random % 201;
    /* All magnitudes as well as all bits. */
    return random & 1 ? next(state) : next(state) >> (random >> 8 & 63);
}

/* Fills `count` elements of a type named as in corpus.h. Returns 0, or -1 for a type or kind that there is not. */
int corpus_fill(void *to, const char *type, const char *kind, long count, u64 seed)
{
    char class = type[0];
    unsigned width = strcmp(type + 1, "8") == 0    ? 1
                     : strcmp(type + 1, "16") == 0 ? 2
                     : strcmp(type + 1, "32") == 0 ? 4
                     : strcmp(type + 1, "64") == 0 ? 8
                                                   : 0;
    int known = strcmp(kind, "bits") == 0 || strcmp(kind, "edge") == 0 || strcmp(kind, "unit") == 0 ||
                strcmp(kind, "small") == 0;
    if (width == 0 || !known || !strchr("iuf", class))
        return -1;
    u64 state = seed;
    for (long index = 0; index < count; index++) {
        u64 bits = value(class, width, kind, &state);
        memcpy((char *)to + index * width, &bits, width);
    }
    return 0;
}
