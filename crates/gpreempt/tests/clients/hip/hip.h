/* The functions of HIP 5.7 that these programs call, declared here because the library comes without its headers. */
#ifndef HIP_H
#define HIP_H

#include <stddef.h>

typedef int hipError_t;
typedef struct Stream *hipStream_t;
typedef struct Event *hipEvent_t;
typedef struct Module *hipModule_t;
typedef struct Function *hipFunction_t;

enum {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorOutOfMemory = 2,
    hipErrorInvalidConfiguration = 9,
    hipErrorInvalidImage = 200,
    hipErrorNotFound = 500,
    hipErrorNotReady = 600,
};
enum { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2, hipMemcpyDeviceToDevice = 3, hipMemcpyDefault = 4 };
enum { hipStreamNonBlocking = 1, hipMemAttachGlobal = 1 };
enum { hipDeviceScheduleBlockingSync = 4, hipEventBlockingSync = 1 };

hipError_t hipInit(unsigned flags);
hipError_t hipGetDeviceCount(int *count);
hipError_t hipSetDeviceFlags(unsigned flags);
hipError_t hipDeviceSynchronize(void);
const char *hipGetErrorName(hipError_t error);
hipError_t hipGetLastError(void);

hipError_t hipMalloc(void **memory, size_t size);
hipError_t hipFree(void *memory);
hipError_t hipHostMalloc(void **memory, size_t size, unsigned flags);
hipError_t hipHostFree(void *memory);
hipError_t hipHostRegister(void *memory, size_t size, unsigned flags);
hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags);
hipError_t hipHostUnregister(void *memory);
hipError_t hipMallocManaged(void **memory, size_t size, unsigned flags);
hipError_t hipMemGetInfo(size_t *left, size_t *all);
hipError_t hipMemcpy(void *to, const void *from, size_t size, int kind);
hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, int kind, hipStream_t stream);
hipError_t hipMemset(void *to, int value, size_t size);
hipError_t hipMemsetAsync(void *to, int value, size_t size, hipStream_t stream);
hipError_t hipMemsetD32Async(void *to, int value, size_t count, hipStream_t stream);

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags);
hipError_t hipLaunchHostFunc(hipStream_t stream, void (*function)(void *), void *data);
hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t begin, hipEvent_t end);

hipError_t hipModuleLoadData(hipModule_t *module, const void *image);
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name);
hipError_t hipModuleGetGlobal(void **memory, size_t *size, hipModule_t module, const char *name);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                 hipStream_t stream, void **arguments, void **extra);

#endif
