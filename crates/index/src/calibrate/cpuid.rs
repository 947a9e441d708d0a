//! Caches of data as the processor itself tells them, for systems that do not.
//!
//! Source: Intel's manual on CPUID leaf 4, and AMD's on leaf 8000001D, which has the same form.

use super::machine::Cache;

/// The caches of data of this core, first level first; none if the processor does not tell.
#[cfg(target_arch = "x86_64")]
pub(super) fn caches() -> Vec<Cache> {
    let of_leaf =
        |leaf| (0..16).filter_map(move |i| registers(leaf, i).and_then(|[a, b, c]| decode(a, b, c)));
    let mut caches: Vec<Cache> = of_leaf(4).collect();
    if caches.is_empty() {
        caches.extend(of_leaf(0x8000_001D));
    }
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// Other processors are not asked.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn caches() -> Vec<Cache> {
    Vec::new()
}

/// EAX, EBX and ECX of a leaf, if the processor has it.
#[cfg(target_arch = "x86_64")]
fn registers(leaf: u32, subleaf: u32) -> Option<[u32; 3]> {
    use std::arch::x86_64::__cpuid_count;
    // SAFETY: every x86-64 processor has the instruction, and it changes nothing but registers.
    #[allow(unused_unsafe, reason = "newer compilers know that")]
    let ask = |leaf, subleaf| unsafe { __cpuid_count(leaf, subleaf) };
    // The first leaf of a range says which is its last.
    let last = ask(leaf & 0x8000_0000, 0).eax;
    (leaf <= last).then(|| {
        let answer = ask(leaf, subleaf);
        [answer.eax, answer.ebx, answer.ecx]
    })
}

/// A cache, unless there is none or it holds instructions only.
#[cfg(any(target_arch = "x86_64", test))]
fn decode(eax: u32, ebx: u32, ecx: u32) -> Option<Cache> {
    const DATA: u32 = 1;
    const UNIFIED: u32 = 3;
    if !matches!(eax & 0x1F, DATA | UNIFIED) {
        return None;
    }
    let line_bytes = (ebx & 0xFFF) as usize + 1;
    let partitions = (ebx >> 12 & 0x3FF) as usize + 1;
    let ways = (ebx >> 22) as usize + 1;
    let sets = ecx as usize + 1;
    Some(Cache { level: (eax >> 5 & 7) as usize, bytes: line_bytes * partitions * ways * sets, line_bytes })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Registers of a Xeon: 32 KiB of data in 8 ways of 64 sets; the same for instructions; nothing.
    #[test]
    fn registers_are_decoded() {
        let found = decode(0x0400_0121, 0x01C0_003F, 63).map(|c| (c.level, c.bytes, c.line_bytes));
        assert_eq!(found, Some((1, 32 << 10, 64)));
        assert!(decode(0x0400_0122, 0x01C0_003F, 63).is_none());
        assert!(decode(0, 0, 0).is_none());
    }

    /// A processor that tells has a first cache of data, with lines.
    #[test]
    fn caches_rise() {
        let caches = caches();
        assert!(caches.is_sorted_by_key(|cache| cache.level));
        assert!(caches.first().is_none_or(|cache| cache.level == 1 && cache.bytes >= 4096), "a first cache");
        assert!(caches.iter().all(|cache| cache.line_bytes.is_power_of_two()));
    }
}
