//! The installed kernel header, if there is one, agrees with this crate: a C compiler says sizes, offsets, request
//! numbers and constants, and they are compared. An older header is compared as far as it goes. To compare with another
//! header than the installed one, `KFD_ABI_INCLUDE` names the directory that holds `linux/kfd_ioctl.h`.

mod support;

use kfd_abi::ioctl::{COMMAND_END, COMMANDS};
use kfd_abi::{criu, debug, event, exception, memory, process, queue, save_area, smi, svm, topology};
use support::{Header, Rows, notice};

#[test]
fn the_installed_header_agrees() {
    let header = match Header::find() {
        Ok(header) => header,
        Err(missing) => return notice(&format!("skipped the comparison with the kernel's header: {missing}")),
    };
    let mut rows = Rows::default();
    commands(&mut rows);
    structures(&mut rows);
    newer_structures(&mut rows);
    enumerations(&mut rows);
    flag_sets(&mut rows);
    let (version, compared) = header.compare(&rows);
    notice(&format!("compared {compared} of {} numbers with {}, version 1.{version}", rows.len(), header.name()));
    assert!(compared > 200, "only {compared} numbers compared");
}

fn commands(rows: &mut Rows) {
    for command in COMMANDS {
        let suffix = if command.is_retired() { "_DEPRECATED" } else { "" };
        let name = format!("AMDKFD_IOC_{}{suffix}", command.name);
        // The argument of CREATE_QUEUE grew in 1.17.
        let since = if command.name == "CREATE_QUEUE" { 17 } else { 1 };
        rows.defined(since, &name, command.request().0);
    }
    rows.defined(17, "AMDKFD_COMMAND_END", u32::from(COMMAND_END));
    rows.defined(17, "KFD_IOCTL_MINOR_VERSION", process::VERSION_MINOR);
    rows.defined(1, "KFD_IOCTL_MAJOR_VERSION", process::VERSION_MAJOR);
    rows.defined(1, "KFD_MAX_QUEUE_PERCENTAGE", queue::MAX_PERCENTAGE);
    rows.defined(1, "KFD_MAX_QUEUE_PRIORITY", queue::MAX_PRIORITY);
    rows.defined(1, "KFD_MIN_QUEUE_RING_SIZE", queue::MIN_RING_SIZE);
    rows.defined(1, "KFD_SIGNAL_EVENT_LIMIT", event::SIGNAL_EVENT_LIMIT);
    rows.defined(1, "KFD_INVALID_FD", process::INVALID_FD);
    rows.defined(1, "KFD_SMI_EVENT_MSG_SIZE", smi::MESSAGE_SIZE as u32);
    rows.defined(13, "KFD_DBG_QUEUE_ERROR_MASK", debug::QueueStatus::ERROR);
    rows.defined(13, "KFD_DBG_QUEUE_INVALID_MASK", debug::QueueStatus::INVALID);
}

// tidy: table
fn structures(rows: &mut Rows) {
    use criu::{CriuArgs, CriuBoBucket, CriuDeviceBucket};
    use event::{CreateEventArgs, EventData, HwException, MemoryException, MemoryFailure, WaitEventsArgs};
    use event::{DestroyEventArgs, ResetEventArgs, SetEventArgs};
    use memory::{AllocMemoryArgs, FreeMemoryArgs, MapMemoryArgs, UnmapMemoryArgs};
    use memory::{AvailableMemoryArgs, GetDmabufInfoArgs, ImportDmabufArgs};
    use memory::{DeviceApertures, GetProcessAperturesArgs, GetProcessAperturesNewArgs};
    use process::{AcquireVmArgs, GetClockCountersArgs, GetTileConfigArgs, GetVersionArgs, SetMemoryPolicyArgs};
    use process::{SetScratchBackingVaArgs, SetTrapHandlerArgs, SetXnackModeArgs};
    use queue::{AllocQueueGwsArgs, CreateQueueArgs, DestroyQueueArgs, UpdateQueueArgs};
    use queue::{GetQueueWaveStateArgs, SetCuMaskArgs};
    use smi::SmiEventsArgs;
    use svm::{SvmArgs, SvmAttribute};

    structure!(rows, 1, "kfd_ioctl_get_version_args", GetVersionArgs { major_version, minor_version });
    fields!(
        rows,
        1,
        "kfd_ioctl_create_queue_args",
        CreateQueueArgs {
            ring_base_address,
            write_pointer_address,
            read_pointer_address,
            doorbell_offset,
            ring_size,
            gpu_id,
            queue_type,
            queue_percentage,
            queue_priority,
            queue_id,
            eop_buffer_address,
            eop_buffer_size,
            ctx_save_restore_address,
            ctx_save_restore_size,
            ctl_stack_size
        }
    );
    structure!(rows, 17, "kfd_ioctl_create_queue_args", CreateQueueArgs { sdma_engine_id, pad });
    structure!(rows, 1, "kfd_ioctl_destroy_queue_args", DestroyQueueArgs { queue_id, pad });
    structure!(
        rows,
        1,
        "kfd_ioctl_update_queue_args",
        UpdateQueueArgs { ring_base_address, queue_id, ring_size, queue_percentage, queue_priority }
    );
    structure!(rows, 1, "kfd_ioctl_set_cu_mask_args", SetCuMaskArgs { queue_id, num_cu_mask, cu_mask_ptr });
    structure!(
        rows,
        1,
        "kfd_ioctl_get_queue_wave_state_args",
        GetQueueWaveStateArgs { ctl_stack_address, ctl_stack_used_size, save_area_used_size, queue_id, pad }
    );
    structure!(rows, 3, "kfd_ioctl_alloc_queue_gws_args", AllocQueueGwsArgs { queue_id, num_gws, first_gws, pad });
    structure!(
        rows,
        1,
        "kfd_ioctl_set_memory_policy_args",
        SetMemoryPolicyArgs {
            alternate_aperture_base,
            alternate_aperture_size,
            gpu_id,
            default_policy,
            alternate_policy,
            pad
        }
    );
    structure!(
        rows,
        1,
        "kfd_ioctl_get_clock_counters_args",
        GetClockCountersArgs {
            gpu_clock_counter,
            cpu_clock_counter,
            system_clock_counter,
            system_clock_freq,
            gpu_id,
            pad
        }
    );
    structure!(
        rows,
        1,
        "kfd_process_device_apertures",
        DeviceApertures { lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit, gpu_id, pad }
    );
    structure!(
        rows,
        1,
        "kfd_ioctl_get_process_apertures_args",
        GetProcessAperturesArgs { process_apertures, num_of_nodes, pad }
    );
    structure!(
        rows,
        1,
        "kfd_ioctl_get_process_apertures_new_args",
        GetProcessAperturesNewArgs { kfd_process_device_apertures_ptr, num_of_nodes, pad }
    );
    structure!(
        rows,
        1,
        "kfd_ioctl_create_event_args",
        CreateEventArgs {
            event_page_offset,
            event_trigger_data,
            event_type,
            auto_reset,
            node_id,
            event_id,
            event_slot_index
        }
    );
    structure!(rows, 1, "kfd_ioctl_destroy_event_args", DestroyEventArgs { event_id, pad });
    structure!(rows, 1, "kfd_ioctl_set_event_args", SetEventArgs { event_id, pad });
    structure!(rows, 1, "kfd_ioctl_reset_event_args", ResetEventArgs { event_id, pad });
    structure!(
        rows,
        1,
        "kfd_ioctl_wait_events_args",
        WaitEventsArgs { events_ptr, num_events, wait_for_all, timeout, wait_result }
    );
    structure!(rows, 1, "kfd_event_data", EventData {
        data as "memory_exception_data", kfd_event_data_ext, event_id, pad
    });
    structure!(rows, 1, "kfd_memory_exception_failure", MemoryFailure {
        not_present as "NotPresent", read_only as "ReadOnly", no_execute as "NoExecute", imprecise
    });
    structure!(rows, 1, "kfd_hsa_memory_exception_data", MemoryException {
        failure, va, gpu_id, error_type as "ErrorType"
    });
    structure!(rows, 1, "kfd_hsa_hw_exception_data", HwException { reset_type, reset_cause, memory_lost, gpu_id });
    structure!(rows, 1, "kfd_ioctl_set_scratch_backing_va_args", SetScratchBackingVaArgs { va_addr, gpu_id, pad });
    structure!(
        rows,
        1,
        "kfd_ioctl_get_tile_config_args",
        GetTileConfigArgs {
            tile_config_ptr,
            macro_tile_config_ptr,
            num_tile_configs,
            num_macro_tile_configs,
            gpu_id,
            gb_addr_config,
            num_banks,
            num_ranks
        }
    );
    structure!(rows, 1, "kfd_ioctl_set_trap_handler_args", SetTrapHandlerArgs { tba_addr, tma_addr, gpu_id, pad });
    structure!(rows, 1, "kfd_ioctl_acquire_vm_args", AcquireVmArgs { drm_fd, gpu_id });
    structure!(
        rows,
        1,
        "kfd_ioctl_alloc_memory_of_gpu_args",
        AllocMemoryArgs { va_addr, size, handle, mmap_offset, gpu_id, flags }
    );
    structure!(rows, 1, "kfd_ioctl_free_memory_of_gpu_args", FreeMemoryArgs { handle });
    structure!(
        rows,
        1,
        "kfd_ioctl_map_memory_to_gpu_args",
        MapMemoryArgs { handle, device_ids_array_ptr, n_devices, n_success }
    );
    structure!(
        rows,
        1,
        "kfd_ioctl_unmap_memory_from_gpu_args",
        UnmapMemoryArgs { handle, device_ids_array_ptr, n_devices, n_success }
    );
    structure!(
        rows,
        1,
        "kfd_ioctl_get_dmabuf_info_args",
        GetDmabufInfoArgs { size, metadata_ptr, metadata_size, gpu_id, flags, dmabuf_fd }
    );
    structure!(rows, 1, "kfd_ioctl_import_dmabuf_args", ImportDmabufArgs { va_addr, handle, gpu_id, dmabuf_fd });
    structure!(rows, 3, "kfd_ioctl_smi_events_args", SmiEventsArgs { gpuid, anon_fd });
    structure!(rows, 5, "kfd_ioctl_svm_attribute", SvmAttribute { kind as "type", value });
    structure!(rows, 5, "kfd_ioctl_svm_args", SvmArgs { start_addr, size, op, nattr });
    structure!(rows, 5, "kfd_ioctl_set_xnack_mode_args", SetXnackModeArgs { xnack_enabled });
    structure!(
        rows,
        8,
        "kfd_ioctl_criu_args",
        CriuArgs { devices, bos, priv_data, priv_data_size, num_devices, num_bos, num_objects, pid, op }
    );
    structure!(rows, 8, "kfd_criu_device_bucket", CriuDeviceBucket { user_gpu_id, actual_gpu_id, drm_fd, pad });
    structure!(
        rows,
        8,
        "kfd_criu_bo_bucket",
        CriuBoBucket { addr, size, offset, restored_offset, gpu_id, alloc_flags, dmabuf_fd, pad }
    );
    structure!(rows, 9, "kfd_ioctl_get_available_memory_args", AvailableMemoryArgs { available, gpu_id, pad });
}

// tidy: table
fn newer_structures(rows: &mut Rows) {
    use debug::{ClearNodeAddressWatch, SetFlags, SetNodeAddressWatch, SetWaveLaunchMode, SetWaveLaunchOverride};
    use debug::{DbgTrapArgs, Enable, ResumeQueues, SendRuntimeEvent, SetExceptionsEnabled, SuspendQueues};
    use debug::{DeviceSnapshotEntry, QueueSnapshotEntry, RuntimeEnableArgs, RuntimeInfo};
    use debug::{GetDeviceSnapshot, GetQueueSnapshot, QueryDebugEvent, QueryExceptionInfo};
    use event::SignalEvent;
    use memory::ExportDmabufArgs;
    use save_area::SaveAreaHeader;

    structure!(rows, 12, "kfd_ioctl_export_dmabuf_args", ExportDmabufArgs { handle, flags, dmabuf_fd });
    structure!(rows, 13, "kfd_ioctl_runtime_enable_args", RuntimeEnableArgs { r_debug, mode_mask, capabilities_mask });
    structure!(rows, 13, "kfd_runtime_info", RuntimeInfo { r_debug, runtime_state, ttmp_setup });
    structure!(rows, 13, "kfd_ioctl_dbg_trap_args", DbgTrapArgs { pid, op, args as "enable" });
    structure!(rows, 13, "kfd_ioctl_dbg_trap_enable_args", Enable { exception_mask, rinfo_ptr, rinfo_size, dbg_fd });
    structure!(
        rows,
        13,
        "kfd_ioctl_dbg_trap_send_runtime_event_args",
        SendRuntimeEvent { exception_mask, gpu_id, queue_id }
    );
    structure!(rows, 13, "kfd_ioctl_dbg_trap_set_exceptions_enabled_args", SetExceptionsEnabled { exception_mask });
    structure!(
        rows,
        13,
        "kfd_ioctl_dbg_trap_set_wave_launch_override_args",
        SetWaveLaunchOverride { override_mode, enable_mask, support_request_mask, pad }
    );
    structure!(rows, 13, "kfd_ioctl_dbg_trap_set_wave_launch_mode_args", SetWaveLaunchMode { launch_mode, pad });
    structure!(
        rows,
        13,
        "kfd_ioctl_dbg_trap_suspend_queues_args",
        SuspendQueues { exception_mask, queue_array_ptr, num_queues, grace_period }
    );
    structure!(rows, 13, "kfd_ioctl_dbg_trap_resume_queues_args", ResumeQueues { queue_array_ptr, num_queues, pad });
    structure!(
        rows,
        13,
        "kfd_ioctl_dbg_trap_set_node_address_watch_args",
        SetNodeAddressWatch { address, mode, mask, gpu_id, id }
    );
    structure!(rows, 13, "kfd_ioctl_dbg_trap_clear_node_address_watch_args", ClearNodeAddressWatch { gpu_id, id });
    structure!(rows, 13, "kfd_ioctl_dbg_trap_set_flags_args", SetFlags { flags, pad });
    structure!(
        rows,
        13,
        "kfd_ioctl_dbg_trap_query_debug_event_args",
        QueryDebugEvent { exception_mask, gpu_id, queue_id }
    );
    structure!(
        rows,
        13,
        "kfd_ioctl_dbg_trap_query_exception_info_args",
        QueryExceptionInfo { info_ptr, info_size, source_id, exception_code, clear_exception }
    );
    structure!(
        rows,
        13,
        "kfd_ioctl_dbg_trap_queue_snapshot_args",
        GetQueueSnapshot { exception_mask, snapshot_buf_ptr, num_queues, entry_size }
    );
    structure!(
        rows,
        13,
        "kfd_ioctl_dbg_trap_device_snapshot_args",
        GetDeviceSnapshot { exception_mask, snapshot_buf_ptr, num_devices, entry_size }
    );
    structure!(
        rows,
        13,
        "kfd_queue_snapshot_entry",
        QueueSnapshotEntry {
            exception_status,
            ring_base_address,
            write_pointer_address,
            read_pointer_address,
            ctx_save_restore_address,
            queue_id,
            gpu_id,
            ring_size,
            queue_type,
            ctx_save_restore_area_size,
            reserved
        }
    );
    structure!(
        rows,
        13,
        "kfd_dbg_device_info_entry",
        DeviceSnapshotEntry {
            exception_status,
            lds_base,
            lds_limit,
            scratch_base,
            scratch_limit,
            gpuvm_base,
            gpuvm_limit,
            gpu_id,
            location_id,
            vendor_id,
            device_id,
            revision_id,
            subsystem_vendor_id,
            subsystem_device_id,
            fw_version,
            gfx_target_version,
            simd_count,
            max_waves_per_simd,
            array_count,
            simd_arrays_per_engine,
            num_xcc,
            capability,
            debug_prop
        }
    );
    structure!(
        rows,
        13,
        "kfd_context_save_area_header",
        SaveAreaHeader { wave_state, debug_offset, debug_size, err_payload_addr, err_event_id, reserved1 }
    );
    structure!(rows, 14, "kfd_hsa_signal_event_data", SignalEvent { last_event_age });
}

fn enumerations(rows: &mut Rows) {
    enumeration!(rows, 17, "KFD_IOC_QUEUE_TYPE_", queue::QueueType);
    enumeration!(rows, 1, "KFD_IOC_CACHE_POLICY_", process::CachePolicy);
    enumeration!(rows, 1, "KFD_IOC_EVENT_", event::EventType);
    enumeration!(rows, 1, "KFD_IOC_WAIT_RESULT_", event::WaitResult);
    enumeration!(rows, 1, "KFD_MEM_ERR_", event::MemoryErrorType);
    enumeration!(rows, 1, "KFD_HW_EXCEPTION_", event::ResetCause);
    enumeration!(rows, 10, "KFD_SMI_EVENT_", smi::SmiEvent);
    enumeration!(rows, 10, "KFD_MIGRATE_TRIGGER_", smi::MigrateTrigger);
    enumeration!(rows, 10, "KFD_SVM_UNMAP_TRIGGER_", smi::UnmapTrigger);
    enumeration!(rows, 8, "KFD_CRIU_OP_", criu::CriuOp);
    enumeration!(rows, 5, "KFD_IOCTL_SVM_OP_", svm::SvmOp);
    enumeration!(rows, 5, "KFD_IOCTL_SVM_ATTR_", svm::SvmAttr);
    enumeration!(rows, 13, "KFD_IOC_DBG_TRAP_", debug::TrapOp);
    enumeration!(rows, 13, "KFD_DBG_TRAP_OVERRIDE_", debug::OverrideMode);
    enumeration!(rows, 13, "KFD_DBG_TRAP_WAVE_LAUNCH_MODE_", debug::LaunchMode);
    enumeration!(rows, 13, "KFD_DBG_TRAP_ADDRESS_WATCH_MODE_", debug::WatchMode);
    enumeration!(rows, 13, "DEBUG_RUNTIME_STATE_", debug::RuntimeState);
    enumeration!(rows, 14, "EC_", exception::ExceptionCode);
    enumeration!(rows, 1, "HSA_MEM_HEAP_TYPE_", topology::HeapType);
    enumeration!(rows, 1, "HSA_IOLINK_TYPE_", topology::IoLinkType);
    for trigger in smi::EvictionTrigger::DEFINED {
        let name = trigger.name().unwrap_or_default();
        let prefix = if name.starts_with("CRIU") { "" } else { "TRIGGER_" };
        rows.since(10, &format!("KFD_QUEUE_EVICTION_{prefix}{name}"), trigger.0);
    }
    for reset in event::ResetType::DEFINED {
        rows.defined(1, &format!("KFD_HW_EXCEPTION_{}_RESET", reset.name().unwrap_or_default()), reset.0);
    }
    rows.since(5, "KFD_IOCTL_SVM_LOCATION_SYSMEM", svm::LOCATION_SYSMEM);
    rows.since(5, "KFD_IOCTL_SVM_LOCATION_UNDEFINED", svm::LOCATION_UNDEFINED);
    rows.since(1, "KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL", memory::MMIO_HDP_MEM_FLUSH);
    rows.since(1, "KFD_MMIO_REMAP_HDP_REG_FLUSH_CNTL", memory::MMIO_HDP_REG_FLUSH);
}

fn flag_sets(rows: &mut Rows) {
    flag_set!(rows, "KFD_IOC_ALLOC_MEM_FLAGS_", memory::AllocFlags);
    flag_set!(rows, "KFD_IOCTL_SVM_FLAG_", svm::SvmFlags);
    flag_set!(rows, "HSA_CAP_", topology::Capability);
    flag_set!(rows, "HSA_CACHE_TYPE_", topology::CacheType);
    flag_set!(rows, "HSA_IOLINK_FLAGS_", topology::IoLinkFlags);
    // These are enumerations in C: the preprocessor cannot see whether the header has them.
    for (flag, name) in debug::TrapMask::NAMES {
        rows.since(13, &format!("KFD_DBG_TRAP_MASK_{name}"), flag.0);
    }
    rows.since(13, "KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP", debug::TrapFlags::SINGLE_MEM_OP.0);
    rows.since(17, "KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP", debug::TrapFlags::SINGLE_ALU_OP.0);
    for (flag, name) in debug::RuntimeMode::NAMES {
        rows.defined(13, &format!("KFD_RUNTIME_ENABLE_MODE_{name}_MASK"), flag.0);
    }
    for (group, mask) in [
        ("QUEUE", exception::ExceptionMask::QUEUE),
        ("PACKET", exception::ExceptionMask::PACKET),
        ("DEVICE", exception::ExceptionMask::DEVICE),
        ("PROCESS", exception::ExceptionMask::PROCESS),
    ] {
        rows.defined(14, &format!("KFD_EC_MASK_{group}"), mask.0);
    }
}
