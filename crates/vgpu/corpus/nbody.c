#include "corpus.h"

/* What sixteen bodies do to one. */
KERNEL(nbody, f32, u32)
{
    f32 px = in[3 * item], py = in[3 * item + 1], pz = in[3 * item + 2], ax = 0, ay = 0, az = 0;
    for (int i = 0; i < 16; i++) {
        int other = 3 * ((item + i * 17) % n);
        f32 dx = in[other] - px, dy = in[other + 1] - py, dz = in[other + 2] - pz;
        f32 square = dx * dx + dy * dy + dz * dz + 0.01f;
        f32 inverse = 1.0f / __builtin_sqrtf(square);
        f32 strength = inverse * inverse * inverse;
        ax += dx * strength;
        ay += dy * strength;
        az += dz * strength;
    }
    out[3 * item] = bits32(ax);
    out[3 * item + 1] = bits32(ay);
    out[3 * item + 2] = bits32(az);
}
