/* Jobs that compute: one kernel or a few, and the same on the host. */
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* Device memory with a copy of the host's. */
static void *upload(const void *from, size_t size)
{
    void *to = on_device(size);
    MUST(hipMemcpy(to, from, size, hipMemcpyHostToDevice));
    return to;
}

/* Brings results back, compares them and gives the device memory back. */
static u64 compare(void *device, const void *expected, size_t size)
{
    void *found = on_host(size);
    MUST(hipMemcpy(found, device, size, hipMemcpyDeviceToHost));
    u64 sum = same(found, expected, size);
    free(found);
    MUST(hipFree(device));
    return sum;
}

u64 axpy(u32 seed)
{
    enum { N = 10000 };
    static u32 x[N], y[N];
    u32 a = next(&seed), n = N;
    fill(x, N, seed);
    fill(y, N, ~seed);
    void *dx = upload(x, sizeof x), *dy = upload(y, sizeof y);
    LAUNCH(NULL, "axpy", N, 256, &dx, &dy, &a, &n);
    for (u32 i = 0; i < N; i++)
        y[i] = a * x[i] + y[i];
    MUST(hipFree(dx));
    return compare(dy, y, sizeof y);
}

u64 symbol(u32 seed)
{
    enum { N = 1000 };
    static u32 y[N];
    u32 n = N, bias = next(&seed);
    fill(y, N, seed);
    void *variable, *dy = upload(y, sizeof y);
    size_t size = 0;
    MUST(hipModuleGetGlobal(&variable, &size, module(), "bias"));
    CHECK(size == sizeof bias);
    MUST(hipMemcpy(variable, &bias, sizeof bias, hipMemcpyHostToDevice));
    LAUNCH(NULL, "add_bias", N, 256, &dy, &n);
    for (u32 i = 0; i < N; i++)
        y[i] += bias;
    return compare(dy, y, sizeof y);
}

u64 reduce(u32 seed)
{
    enum { N = 20000 };
    static u32 in[N];
    u64 sum = 0;
    u32 n = N;
    fill(in, N, seed);
    void *din = upload(in, sizeof in), *dsum = upload(&sum, sizeof sum);
    LAUNCH(NULL, "reduce", N, 256, &din, &dsum, &n);
    for (u32 i = 0; i < N; i++)
        sum += in[i] & 0xffff;
    u64 result = compare(dsum, &sum, sizeof sum);
    MUST(hipFree(din));
    return result;
}

u64 histogram(u32 seed)
{
    enum { N = 20000 };
    static u32 in[N];
    u32 bins[64] = {0}, n = N;
    fill(in, N, seed);
    void *din = upload(in, sizeof in), *dbins = upload(bins, sizeof bins);
    LAUNCH(NULL, "histogram", 8 * 256, 256, &din, &dbins, &n);
    for (u32 i = 0; i < N; i++)
        bins[in[i] >> 26]++;
    u64 result = compare(dbins, bins, sizeof bins);
    MUST(hipFree(din));
    return result;
}

u64 exactly_once(u32 seed)
{
    enum { GROUPS = 300, LANES = 64 };
    static u32 groups[GROUPS], lanes[GROUPS * LANES];
    u32 steps = 400 + (next(&seed) >> 29);
    memset(groups, 0, sizeof groups);
    memset(lanes, 0, sizeof lanes);
    void *dgroups = upload(groups, sizeof groups), *dlanes = upload(lanes, sizeof lanes);
    LAUNCH(NULL, "exactly_once", GROUPS * LANES, LANES, &dgroups, &dlanes, &steps);
    for (u32 i = 0; i < GROUPS; i++)
        groups[i] = 1;
    for (u32 i = 0; i < GROUPS * LANES; i++)
        lanes[i] = steps;
    u64 counted = compare(dgroups, groups, sizeof groups);
    return counted ^ compare(dlanes, lanes, sizeof lanes);
}

static u32 scratch_item(u32 in)
{
    u32 box[256], value = in;
    for (u32 k = 0; k < 256; k++)
        box[k] = in * (k + 1);
    for (u32 k = 0; k < 48; k++) {
        u32 at = value >> 24;
        value = value * 1664525 + box[at];
        box[(at + k) & 255] ^= value;
    }
    return value;
}

u64 scratch(u32 seed)
{
    enum { N = 2000 };
    static u32 in[N], out[N];
    u32 n = N;
    fill(in, N, seed);
    void *din = upload(in, sizeof in), *dout = on_device(sizeof out);
    LAUNCH(NULL, "scratch", N, 256, &din, &dout, &n);
    for (u32 i = 0; i < N; i++)
        out[i] = scratch_item(in[i]);
    MUST(hipFree(din));
    return compare(dout, out, sizeof out);
}

u64 matmul(u32 seed)
{
    enum { N = 64 };
    static float a[N][N], b[N][N], c[N][N];
    u32 n = N;
    for (u32 i = 0; i < N * N; i++) {
        a[i / N][i % N] = next_float(&seed);
        b[i / N][i % N] = next_float(&seed);
    }
    void *da = upload(a, sizeof a), *db = upload(b, sizeof b), *dc = on_device(sizeof c);
    MUST(hipModuleLaunchKernel(kernel("matmul"), N / 16, N / 16, 1, 16, 16, 1, 0, NULL, (void *[]){&da, &db, &dc, &n},
                               NULL));
    for (u32 i = 0; i < N; i++) {
        for (u32 j = 0; j < N; j++) {
            float sum = 0;
            for (u32 k = 0; k < N; k++)
                sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
    }
    MUST(hipFree(da));
    MUST(hipFree(db));
    return compare(dc, c, sizeof c);
}

u64 train(u32 seed)
{
    enum { ROWS = 128, COLUMNS = 32, STEPS = 40 };
    static float x[ROWS][COLUMNS], w[COLUMNS], t[ROWS], r[ROWS];
    float rate = 1.0f / 1024, first = 0, last = 0;
    u32 rows = ROWS, columns = COLUMNS;
    for (u32 i = 0; i < ROWS; i++) {
        for (u32 k = 0; k < COLUMNS; k++)
            x[i][k] = next_float(&seed);
        t[i] = next_float(&seed);
    }
    memset(w, 0, sizeof w);
    void *dx = upload(x, sizeof x), *dw = upload(w, sizeof w), *dt = upload(t, sizeof t), *dr = on_device(sizeof r);
    for (int step = 0; step < STEPS; step++) {
        LAUNCH(NULL, "residual", ROWS, 64, &dx, &dw, &dt, &dr, &rows, &columns);
        LAUNCH(NULL, "descend", COLUMNS, 64, &dx, &dw, &dr, &rows, &columns, &rate);
    }
    for (int step = 0; step < STEPS; step++) {
        float loss = 0;
        for (u32 i = 0; i < ROWS; i++) {
            float sum = -t[i];
            for (u32 k = 0; k < COLUMNS; k++)
                sum += x[i][k] * w[k];
            r[i] = sum;
            loss += sum * sum;
        }
        for (u32 k = 0; k < COLUMNS; k++) {
            float sum = 0;
            for (u32 i = 0; i < ROWS; i++)
                sum += x[i][k] * r[i];
            w[k] -= rate * sum;
        }
        first = step == 0 ? loss : first;
        last = loss;
    }
    CHECK(last < first);
    MUST(hipFree(dx));
    MUST(hipFree(dt));
    u64 residuals = compare(dr, r, sizeof r);
    return residuals ^ compare(dw, w, sizeof w);
}

u64 churn(u32 seed)
{
    enum { N = 1024, ROUNDS = 2000 };
    static u32 data[N];
    u32 n = N, rounds = ROUNDS;
    fill(data, N, seed);
    void *ddata = upload(data, sizeof data);
    LAUNCH(NULL, "churn", N, 256, &ddata, &n, &rounds);
    for (u32 i = 0; i < N; i++) {
        for (u32 k = 0; k < ROUNDS; k++) {
            data[i] ^= data[i] << 13;
            data[i] ^= data[i] >> 17;
            data[i] ^= data[i] << 5;
        }
    }
    return compare(ddata, data, sizeof data);
}
