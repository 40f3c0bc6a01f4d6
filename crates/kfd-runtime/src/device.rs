//! The runtime of a process and its gpus.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kfd_abi::memory::{AllocFlags, MMIO_HDP_MEM_FLUSH};
use kfd_abi::queue::DOORBELL_SLICE;
use kfd_abi::{PAGE_SIZE, memory::DeviceApertures};

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::event::Events;
use crate::mapping::Mapping;
use crate::memory::{Buffer, GpuAddr, Heap, Placement};
use crate::node::GpuNode;

/// The connection of a process to the driver. A process has one: the driver refuses to enable a second runtime.
#[derive(Debug)]
pub struct Runtime {
    devices: Vec<Device>,
}

impl Runtime {
    /// Opens the driver and every gpu this user may use.
    ///
    /// # Errors
    ///
    /// If there is no driver, no gpu, or the driver refuses.
    pub fn open() -> Result<Runtime> {
        let driver = Arc::new(Driver::open()?);
        let mut heaps = Vec::new();
        let mut refused = None;
        let nodes = GpuNode::all()?;
        let apertures = driver.apertures(nodes.len())?;
        for node in nodes {
            // Containers often see all gpus in the topology and may open only some.
            let render = match kfd::device::open(&PathBuf::from(format!("/dev/dri/renderD{}", node.gpu.render_minor))) {
                Ok(render) => render,
                Err(error) => {
                    refused = refused.or(Some(error.into()));
                    continue;
                }
            };
            let gpu_id = node.gpu.id.0;
            let Some(apertures) = apertures.iter().find(|aperture| aperture.gpu_id == gpu_id) else { continue };
            driver.acquire_vm(gpu_id, &render)?;
            let limit = apertures.gpuvm_limit;
            let heap = Heap { driver: Arc::clone(&driver), gpu_id, render, limit };
            heaps.push((node, *apertures, heap));
        }
        let gpu_ids: Vec<u32> = heaps.iter().map(|(_, _, heap)| heap.gpu_id).collect();
        let Some((_, _, first)) = heaps.first() else { return Err(refused.unwrap_or(Error::NoGpu)) };
        let events = Arc::new(Events::create(first, &gpu_ids)?);
        let devices = heaps.into_iter().map(|(node, apertures, heap)| Device::new(node, apertures, heap, &events));
        Ok(Runtime { devices: devices.collect() })
    }

    /// Returns the gpus, in the order of the topology.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Returns one gpu, counted from 0.
    ///
    /// # Errors
    ///
    /// If there are not so many.
    pub fn device(&self, index: usize) -> Result<&Device> {
        self.devices.get(index).ok_or(Error::UnknownGpu { index, count: self.devices.len() })
    }
}

/// A gpu that this process may use. Clones are the same gpu.
#[derive(Clone, Debug)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: GpuNode,
    apertures: DeviceApertures,
    heap: Heap,
    events: Arc<Events>,
    doorbells: Mutex<Option<Arc<Doorbells>>>,
    flush: Option<FlushPage>,
}

impl Device {
    fn new(node: GpuNode, apertures: DeviceApertures, heap: Heap, events: &Arc<Events>) -> Device {
        // Gpus whose memory the host reaches coherently have no such page and need none.
        let flush = FlushPage::map(&heap).ok();
        let events = Arc::clone(events);
        Device(Arc::new(Inner { node, apertures, heap, events, doorbells: Mutex::new(None), flush }))
    }

    /// Returns the properties of the gpu.
    #[must_use]
    pub fn node(&self) -> &GpuNode {
        &self.0.node
    }

    /// Allocates memory of this gpu.
    ///
    /// # Errors
    ///
    /// If there is none left.
    pub fn allocate(&self, size: usize, placement: Placement) -> Result<Buffer> {
        self.0.heap.allocate(size, placement, &[self.0.heap.gpu_id])
    }

    /// Makes what the host wrote to video memory visible to the gpu.
    pub fn flush_host_writes(&self) {
        if let Some(flush) = &self.0.flush {
            flush.flush();
        }
    }

    pub(crate) fn apertures(&self) -> &DeviceApertures {
        &self.0.apertures
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.0.heap.driver
    }

    pub(crate) fn events(&self) -> &Arc<Events> {
        &self.0.events
    }

    /// The process's doorbells on this gpu, mapped when the first queue names their place.
    pub(crate) fn doorbells(&self, offset: u64) -> Result<Arc<Doorbells>> {
        let mut known = self.0.doorbells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(doorbells) = &*known {
            return Ok(Arc::clone(doorbells));
        }
        let doorbells = Arc::new(Doorbells::map(self.driver(), offset)?);
        *known = Some(Arc::clone(&doorbells));
        Ok(doorbells)
    }
}

/// The pages that a process rings its queues with.
#[derive(Debug)]
pub(crate) struct Doorbells(Mapping);

impl Doorbells {
    /// Bits of a doorbell's offset that are its place within the pages.
    const WITHIN: u64 = DOORBELL_SLICE as u64 - 1;

    fn map(driver: &Driver, offset: u64) -> Result<Doorbells> {
        let base = offset & !Doorbells::WITHIN;
        let mapping = Mapping::of_device(driver.file(), base, DOORBELL_SLICE as usize);
        let advice = "the kernel's log may say why (`dmesg | grep -i kfd`)";
        mapping.map(Doorbells).map_err(|source| Error::Call { operation: "mmap of the doorbells", source, advice })
    }

    /// Rings the doorbell whose offset the driver gave.
    pub(crate) fn ring(&self, offset: u64, value: u64) {
        // A doorbell has eight bytes; what the driver returns is a multiple of that.
        let within = (offset & Doorbells::WITHIN & !7) as usize;
        // SAFETY: `within` is masked to the mapping and aligned; a doorbell takes any value, and one store of 64 bits.
        unsafe { self.0.start().as_ptr().add(within).cast::<u64>().write_volatile(value) };
    }
}

/// The page of registers by which host writes reach video memory.
#[derive(Debug)]
struct FlushPage {
    mapping: Mapping,
    driver: Arc<Driver>,
    handle: u64,
}

impl FlushPage {
    fn map(heap: &Heap) -> Result<FlushPage> {
        let page = PAGE_SIZE as usize;
        let failed =
            |source| Error::Call { operation: "mmap of the flush page", source, advice: "the gpu may not have one" };
        let mut mapping = Mapping::reserve(page, page).map_err(failed)?;
        let at = GpuAddr(mapping.start().as_ptr().expose_provenance() as u64);
        let flags = AllocFlags::MMIO_REMAP | AllocFlags::WRITABLE | AllocFlags::COHERENT;
        let (handle, offset) = heap.driver.allocate(heap.gpu_id, at, page as u64, flags)?;
        let mapped = mapping.back_with(heap.driver.file(), offset).map_err(failed);
        let flush = FlushPage { mapping, driver: Arc::clone(&heap.driver), handle };
        mapped.map(|()| flush)
    }

    fn flush(&self) {
        // SAFETY: the register lies at the start of the page, which is mapped and aligned, and takes any value.
        let register =
            unsafe { AtomicU32::from_ptr(self.mapping.start().as_ptr().add(MMIO_HDP_MEM_FLUSH as usize).cast()) };
        register.store(1, Ordering::SeqCst);
        // Reading it back waits until the write has arrived.
        register.load(Ordering::SeqCst);
    }
}

impl Drop for FlushPage {
    fn drop(&mut self) {
        // A drop cannot report an error; the driver frees it at the end of the process, too.
        let _ = self.driver.free(self.handle);
    }
}
