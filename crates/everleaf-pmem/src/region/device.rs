//! What the kernel tells of the memory behind a file: whether it is persistent, whether the caches
//! above it are, and what a DAX device looks like. What it does not tell counts as "no".

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{MapError, PAGE, file, round_up};
use crate::{DaxHint, Medium};

/// The memory behind a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backing {
    pub medium: Medium,
    /// The persistence domain includes the processor's caches (eADR).
    pub caches_persist: bool,
    /// Set for a DAX device.
    pub device: Option<Device>,
    /// What could be done to have persistent memory here.
    pub hint: Option<DaxHint>,
}

/// The shape of a DAX device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub bytes: u64,
    /// Mappings of it begin and end at multiples of this, a power of two.
    pub align: u64,
}

impl Backing {
    /// Memory of this process.
    pub const ANONYMOUS: Self =
        Self { medium: Medium::Anonymous, caches_persist: false, device: None, hint: None };

    /// Asks the kernel.
    pub fn of(file: &File) -> Result<Self, MapError> {
        let metadata = file.metadata().map_err(MapError::system("reading the file's type"))?;
        if metadata.file_type().is_char_device() {
            let path = Self::in_sysfs("char", metadata.rdev());
            let memory = path.canonicalize().map_or(Memory::UNKNOWN, |path| Memory::at(&path));
            return Ok(Self {
                medium: if memory.persistent { Medium::Dax } else { Medium::VolatileDax },
                caches_persist: memory.caches_persist,
                device: Some(Device::at(&path)?),
                hint: None,
            });
        }
        if file::is_on_tmpfs(file)? {
            return Ok(Self { medium: Medium::Tmpfs, ..Self::ANONYMOUS });
        }
        let block = Self::in_sysfs("block", metadata.dev()).canonicalize().ok();
        let memory = block.as_deref().map_or(Memory::UNKNOWN, Memory::below);
        if maps_synchronously(file) && !memory.volatile {
            let caches_persist = memory.caches_persist;
            return Ok(Self { medium: Medium::Dax, caches_persist, ..Self::ANONYMOUS });
        }
        let hint =
            block.filter(|block| is_dax_capable(block)).map(|_| match is_in_dax_mode(file) {
                true => DaxHint::NoSynchronousMapping,
                false => DaxHint::MountWithDax,
            });
        Ok(Self { medium: Medium::PageCache, hint, ..Self::ANONYMOUS })
    }

    fn in_sysfs(kind: &str, device: u64) -> PathBuf {
        format!("/sys/dev/{kind}/{}:{}", libc::major(device), libc::minor(device)).into()
    }
}

impl Device {
    fn at(path: &Path) -> Result<Self, MapError> {
        let number = |name| -> io::Result<u64> {
            std::fs::read_to_string(path.join(name))?.trim().parse().map_err(io::Error::other)
        };
        let bytes = number("size").map_err(MapError::system("reading the DAX device's size"))?;
        let align = number("align").unwrap_or(super::HUGE_PAGE);
        if !align.is_power_of_two() || align < PAGE {
            let source = io::Error::from(io::ErrorKind::InvalidData);
            return Err(MapError::system("reading the DAX device's alignment")(source));
        }
        Ok(Self { bytes: bytes / align * align, align })
    }

    /// Bytes to map so that `bytes` can be used, as far as the device has them.
    pub fn mapped_bytes(&self, bytes: u64) -> u64 {
        round_up(bytes, self.align).min(self.bytes)
    }
}

/// What sysfs says of the memory that a device gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    persistent: bool,
    /// Known not to be persistent.
    volatile: bool,
    caches_persist: bool,
}

impl Memory {
    const UNKNOWN: Self = Self { persistent: false, volatile: false, caches_persist: false };

    /// Of a device with this path below /sys/devices. It belongs to a region: one of NVDIMMs, which
    /// has a persistence domain, or one of CXL memory, which has a mode. Memory that only the
    /// firmware tells of (hmem) belongs to none.
    fn at(device: &Path) -> Self {
        let read = |path: PathBuf| std::fs::read_to_string(path).ok();
        for folder in device.ancestors() {
            if let Some(domain) = read(folder.join("persistence_domain")) {
                let kind = read(folder.join("devtype")).unwrap_or_default();
                return Self {
                    persistent: kind.trim() == "nd_pmem",
                    volatile: kind.trim() == "nd_volatile",
                    caches_persist: domain.trim() == "cpu_cache",
                };
            }
            let is_region = folder
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"region"));
            if let Some(mode) = read(folder.join("mode")).filter(|_| is_region) {
                let (persistent, volatile) = (mode.trim() == "pmem", mode.trim() == "ram");
                return Self { persistent, volatile, caches_persist: false };
            }
        }
        Self::UNKNOWN
    }

    /// Of a block device, which may be made of others (LVM, RAID): what all of them have.
    fn below(device: &Path) -> Self {
        let parts: Vec<PathBuf> = std::fs::read_dir(device.join("slaves"))
            .map(|parts| parts.flatten().filter_map(|part| part.path().canonicalize().ok()))
            .map(Iterator::collect)
            .unwrap_or_default();
        parts.iter().map(|part| Self::below(part)).reduce(Self::and).unwrap_or(Self::at(device))
    }

    fn and(self, other: Self) -> Self {
        Self {
            persistent: self.persistent && other.persistent,
            volatile: self.volatile || other.volatile,
            caches_persist: self.caches_persist && other.caches_persist,
        }
    }
}

/// Whether a file system on this block device, or on the device that it is a partition of, can use
/// DAX.
fn is_dax_capable(device: &Path) -> bool {
    let flag = |device: &Path| std::fs::read_to_string(device.join("queue/dax")).ok();
    let flag = flag(device).or_else(|| device.parent().and_then(flag));
    flag.is_some_and(|flag| flag.trim() == "1")
}

/// Whether the kernel says that accesses to the file bypass the page cache.
fn is_in_dax_mode(file: &File) -> bool {
    const STATX_ATTR_DAX: u64 = 0x0020_0000;
    // SAFETY: a zeroed statx is a valid out-parameter; the path is an empty string, so the
    // descriptor, which is open, is meant.
    unsafe {
        let mut status: libc::statx = std::mem::zeroed();
        let (descriptor, flags) = (file.as_raw_fd(), libc::AT_EMPTY_PATH);
        libc::statx(descriptor, c"".as_ptr(), flags, libc::STATX_BASIC_STATS, &mut status) == 0
            && status.stx_attributes & STATX_ATTR_DAX != 0
    }
}

/// Whether the kernel maps this file with MAP_SYNC, that is, straight onto persistent memory.
fn maps_synchronously(file: &File) -> bool {
    // SAFETY: a fresh mapping at an address of the kernel's choice, removed at once and never
    // accessed.
    unsafe {
        let flags = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
        let descriptor = file.as_raw_fd();
        let at =
            libc::mmap(std::ptr::null_mut(), PAGE as usize, libc::PROT_READ, flags, descriptor, 0);
        at != libc::MAP_FAILED && libc::munmap(at, PAGE as usize) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders as the kernel shows them: of each file its path and what it says.
    fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        root
    }

    #[test]
    fn power_fail_is_claimed_for_what_is_known_to_be_persistent_only() {
        let root = sysfs(&[
            ("ndbus0/region0/persistence_domain", "memory_controller"),
            ("ndbus0/region0/devtype", "nd_pmem"),
            ("ndbus0/region0/dax0.1/dax0.0/size", "536870912"),
            ("ndbus0/region1/persistence_domain", "cpu_cache"),
            ("ndbus0/region1/devtype", "nd_pmem"),
            ("ndbus0/region1/dax1.1/dax1.0/size", "536870912"),
            ("ndbus0/region2/persistence_domain", ""),
            ("ndbus0/region2/devtype", "nd_volatile"),
            ("ndbus0/region2/dax2.1/dax2.0/size", "536870912"),
            ("root0/decoder0.0/region3/mode", "ram"),
            ("root0/decoder0.0/region3/dax_region3/dax3.0/size", "536870912"),
            ("root0/decoder0.0/region4/mode", "pmem"),
            ("root0/decoder0.0/region4/dax_region4/dax4.0/size", "536870912"),
            ("platform/hmem.0/dax5.0/size", "536870912"),
            ("platform/mode", "pmem"),
        ]);
        let of = |path: &str| {
            let memory = Memory::at(&root.path().join(path));
            (memory.persistent, memory.volatile, memory.caches_persist)
        };
        assert_eq!(of("ndbus0/region0/dax0.1/dax0.0"), (true, false, false), "ADR");
        assert_eq!(of("ndbus0/region1/dax1.1/dax1.0"), (true, false, true), "eADR");
        assert_eq!(of("ndbus0/region2/dax2.1/dax2.0"), (false, true, false), "volatile region");
        assert_eq!(of("root0/decoder0.0/region3/dax_region3/dax3.0"), (false, true, false), "CXL");
        assert_eq!(of("root0/decoder0.0/region4/dax_region4/dax4.0"), (true, false, false), "CXL");
        assert_eq!(of("platform/hmem.0/dax5.0"), (false, false, false), "HBM: unknown");
    }

    #[test]
    fn a_device_of_several_parts_has_what_all_of_them_have() {
        let root = sysfs(&[
            ("region0/persistence_domain", "cpu_cache"),
            ("region0/devtype", "nd_pmem"),
            ("region0/namespace0.0/block/pmem0/queue/dax", "1"),
            ("region0/namespace0.0/block/pmem0/pmem0p1/partition", "1"),
            ("region1/persistence_domain", "memory_controller"),
            ("region1/devtype", "nd_pmem"),
            ("region1/namespace1.0/block/pmem1/queue/dax", "1"),
            ("dm-0/slaves/none", ""),
        ]);
        let (one, other) = ("region0/namespace0.0/block/pmem0", "region1/namespace1.0/block/pmem1");
        let at = |path: &str| root.path().canonicalize().unwrap().join(path);
        std::fs::remove_file(at("dm-0/slaves/none")).unwrap();
        std::os::unix::fs::symlink(at(one), at("dm-0/slaves/pmem0")).unwrap();
        assert!(Memory::below(&at("dm-0")).caches_persist);
        std::os::unix::fs::symlink(at(other), at("dm-0/slaves/pmem1")).unwrap();
        let both = Memory::below(&at("dm-0"));
        assert!(both.persistent && !both.caches_persist, "{both:?}");
        assert!(Memory::below(&at(one)).caches_persist);
        assert!(is_dax_capable(&at(one)) && is_dax_capable(&at(one).join("pmem0p1")));
        assert!(!is_dax_capable(&at("dm-0")));
    }

    #[test]
    fn a_device_is_mapped_in_whole_units_and_not_beyond_its_end() {
        let root = sysfs(&[("dax0.0/size", "535822336"), ("dax0.0/align", "2097152")]);
        let device = Device::at(&root.path().join("dax0.0")).unwrap();
        assert_eq!(device, Device { bytes: 255 << 21, align: 2 << 20 });
        assert_eq!(device.mapped_bytes(1), 2 << 20);
        assert_eq!(device.mapped_bytes(u64::MAX), 255 << 21);
        assert!(Device::at(root.path()).is_err());
    }

    #[test]
    fn tmpfs_and_files_of_an_ordinary_disk_give_no_hint_and_no_eadr() {
        let folder = tempfile::tempdir().unwrap();
        let backing = Backing::of(&tempfile::tempfile_in(folder.path()).unwrap()).unwrap();
        assert!(matches!(backing.medium, Medium::PageCache | Medium::Tmpfs | Medium::Dax));
        assert!(backing.medium == Medium::Dax || !backing.caches_persist);
        assert_eq!(backing.device, None);
    }
}
