#include "corpus.h"

/* One block of SHA-256. */
static const u32 round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
KERNEL(sha256, u32, u32)
{
    u32 schedule[64];
    u32 state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int i = 0; i < 16; i++)
        schedule[i] = in[16 * item + i];
    for (int i = 16; i < 64; i++) {
        u32 x = schedule[i - 15], y = schedule[i - 2];
        u32 small = rotate_left(x, 25) ^ rotate_left(x, 14) ^ x >> 3;
        u32 large = rotate_left(y, 15) ^ rotate_left(y, 13) ^ y >> 10;
        schedule[i] = schedule[i - 16] + small + schedule[i - 7] + large;
    }
    u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        u32 one = h + (rotate_left(e, 26) ^ rotate_left(e, 21) ^ rotate_left(e, 7)) + ((e & f) ^ (~e & g)) +
                  round_constants[i] + schedule[i];
        u32 two = (rotate_left(a, 30) ^ rotate_left(a, 19) ^ rotate_left(a, 10)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + one;
        d = c;
        c = b;
        b = a;
        a = one + two;
    }
    u32 result[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        out[8 * item + i] = state[i] + result[i];
}
