/*
 * A stand-in for librocprofiler-sdk.so.1, which Debian does not package.
 *
 * The XLA plugin for ROCm is linked with the profiler library and asks it for traces only while a program profiles.
 * Every function here refuses: it returns ROCPROFILER_STATUS_ERROR, whatever its arguments are. The plugin then
 * computes as usual and has no traces to show. Nothing else of JAX refers to this library.
 *
 * The functions are those that the plugin imports. None of them reads its arguments, so they are declared without.
 */

enum { ROCPROFILER_STATUS_ERROR = 1 };

#define REFUSES(name) \
    int name(void) { return ROCPROFILER_STATUS_ERROR; }

REFUSES(rocprofiler_assign_callback_thread)
REFUSES(rocprofiler_configure_buffer_tracing_service)
REFUSES(rocprofiler_configure_callback_tracing_service)
REFUSES(rocprofiler_context_is_valid)
REFUSES(rocprofiler_create_buffer)
REFUSES(rocprofiler_create_callback_thread)
REFUSES(rocprofiler_create_context)
REFUSES(rocprofiler_flush_buffer)
REFUSES(rocprofiler_force_configure)
REFUSES(rocprofiler_get_timestamp)
REFUSES(rocprofiler_iterate_callback_tracing_kind_operations)
REFUSES(rocprofiler_iterate_callback_tracing_kinds)
REFUSES(rocprofiler_query_available_agents)
REFUSES(rocprofiler_query_callback_tracing_kind_name)
REFUSES(rocprofiler_query_callback_tracing_kind_operation_name)
REFUSES(rocprofiler_start_context)
REFUSES(rocprofiler_stop_context)

/* What a status means, in words. */
const char *rocprofiler_get_status_string(void) { return "this library is a stand-in that does not profile"; }
