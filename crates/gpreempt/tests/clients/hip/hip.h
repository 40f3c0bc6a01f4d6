/* The functions of HIP 5.7 that these programs call, declared here because the library comes without its headers. */
#ifndef HIP_H
#define HIP_H

#include <stddef.h>

typedef int hipError_t;
typedef struct Stream *hipStream_t;
typedef struct Event *hipEvent_t;
typedef struct Module *hipModule_t;
typedef struct Function *hipFunction_t;
typedef struct Graph *hipGraph_t;
typedef struct GraphNode *hipGraphNode_t;
typedef struct GraphExec *hipGraphExec_t;

enum {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorOutOfMemory = 2,
    hipErrorInvalidConfiguration = 9,
    hipErrorInvalidMemcpyDirection = 21,
    hipErrorInvalidDeviceFunction = 98,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidImage = 200,
    hipErrorInvalidHandle = 400,
    hipErrorNotFound = 500,
    hipErrorNotReady = 600,
    hipErrorCooperativeLaunchTooLarge = 720,
};
enum { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2, hipMemcpyDeviceToDevice = 3, hipMemcpyDefault = 4 };
enum { hipStreamNonBlocking = 1, hipMemAttachGlobal = 1 };
enum { hipDeviceAttributeCooperativeLaunch = 10, hipStreamCaptureModeGlobal = 0 };
enum { hipCpuDeviceId = -1, hipInvalidDeviceId = -2 };
enum {
    hipMemAdviseSetReadMostly = 1,
    hipMemAdviseUnsetReadMostly,
    hipMemAdviseSetPreferredLocation,
    hipMemAdviseUnsetPreferredLocation,
    hipMemAdviseSetAccessedBy,
    hipMemAdviseUnsetAccessedBy,
};
enum {
    hipMemRangeAttributeReadMostly = 1,
    hipMemRangeAttributePreferredLocation,
    hipMemRangeAttributeAccessedBy,
    hipMemRangeAttributeLastPrefetchLocation,
};
enum { hipDeviceScheduleBlockingSync = 4, hipEventBlockingSync = 1 };

hipError_t hipInit(unsigned flags);
hipError_t hipGetDeviceCount(int *count);
hipError_t hipSetDevice(int device);
hipError_t hipSetDeviceFlags(unsigned flags);
hipError_t hipDeviceGetAttribute(int *value, int attribute, int device);
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
hipError_t hipMemAdvise(const void *memory, size_t size, int advice, int device);
hipError_t hipMemRangeGetAttribute(void *data, size_t size, int attribute, const void *memory, size_t count);
hipError_t hipMemPrefetchAsync(const void *memory, size_t size, int device, hipStream_t stream);
hipError_t hipMemGetInfo(size_t *left, size_t *all);
hipError_t hipMemcpy(void *to, const void *from, size_t size, int kind);
hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, int kind, hipStream_t stream);
hipError_t hipMemset(void *to, int value, size_t size);
hipError_t hipMemsetAsync(void *to, int value, size_t size, hipStream_t stream);
hipError_t hipMemsetD32Async(void *to, int value, size_t count, hipStream_t stream);

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags);
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority);
hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, unsigned words, const unsigned *mask);
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
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                            hipStream_t stream, void **arguments);

typedef struct {
    unsigned x, y, z;
} dim3;
typedef struct {
    dim3 blockDim;
    void **extra;
    void *func;
    dim3 gridDim;
    void **kernelParams;
    unsigned sharedMemBytes;
} hipKernelNodeParams;

hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                           hipStream_t stream);
hipError_t hipStreamBeginCapture(hipStream_t stream, int mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphAddKernelNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *after, size_t count,
                                 const hipKernelNodeParams *parameters);
hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *after, size_t count,
                                   void *to, const void *from, size_t size, int kind);
hipError_t hipGraphInstantiate(hipGraphExec_t *ready, hipGraph_t graph, hipGraphNode_t *failed, char *log, size_t size);
hipError_t hipGraphExecDestroy(hipGraphExec_t ready);
hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t ready, hipGraphNode_t node,
                                           const hipKernelNodeParams *parameters);
hipError_t hipGraphLaunch(hipGraphExec_t ready, hipStream_t stream);

#endif
