#include "corpus.h"

KERNEL(mandelbrot, f32, u32)
{
    f32 cx = in[2 * item] * 2.0f - 0.5f, cy = in[2 * item + 1] * 1.5f, x = 0, y = 0;
    u32 steps = 0;
    while (steps < 200 && x * x + y * y < 4.0f) {
        f32 next = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = next;
        steps++;
    }
    out[item] = steps;
}
