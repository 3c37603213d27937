//! Which boot of the machine this is: what was not synced to a file does not outlive one.

/// An identity of a boot, in three words of 48 bits.
pub(crate) type BootId = [u64; 3];

/// What stands in a header where the boot is not known.
pub(crate) const UNKNOWN_BOOT: BootId = [0; 3];

/// The identity of this boot; none where the kernel does not tell.
pub(crate) fn boot_id() -> Option<BootId> {
    parse(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
}

/// Whether a pool was left under this boot. What is not known is another one.
pub(crate) fn is_this_boot(left_by: [Option<u64>; 3]) -> bool {
    is_boot(left_by, boot_id())
}

/// Whether a pool was left under another boot for certain.
pub(crate) fn is_other_boot(left_by: [Option<u64>; 3]) -> bool {
    is_other(left_by, boot_id())
}

fn is_other(left_by: [Option<u64>; 3], now: Option<BootId>) -> bool {
    let is_known = !left_by.contains(&None) && left_by != UNKNOWN_BOOT.map(Some);
    is_known && now.is_some_and(|now| left_by != now.map(Some))
}

fn is_boot(left_by: [Option<u64>; 3], now: Option<BootId>) -> bool {
    now.is_some_and(|now| left_by == now.map(Some) && now != UNKNOWN_BOOT)
}

fn parse(text: &str) -> Option<BootId> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let id = u128::from_str_radix(&digits, 16).ok().filter(|id| *id != 0)?;
    Some(std::array::from_fn(|i| (id >> (48 * i)) as u64 & ((1 << 48) - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_that_is_not_known_is_another_one() {
        let id = parse("6f0b9a3e-6c1f-4a55-9b6e-0c8c5e6a7d11\n").unwrap();
        assert_eq!(id, [0x0c8c_5e6a_7d11, 0x6c1f_4a55_9b6e, 0x6f0b_9a3e]);
        assert!(is_boot(id.map(Some), Some(id)));
        assert!(!is_boot(id.map(Some), None), "it cannot be read now");
        assert!(!is_boot(UNKNOWN_BOOT.map(Some), None), "neither then nor now");
        assert!(!is_boot(UNKNOWN_BOOT.map(Some), Some(id)), "it could not be read then");
        assert!(!is_boot(UNKNOWN_BOOT.map(Some), Some(UNKNOWN_BOOT)));
        assert!(!is_boot([Some(id[0]), None, Some(id[2])], Some(id)), "a damaged word");
        for text in ["", "\n", "no boot id", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_boot_is_another_one_for_certain_only_where_both_are_known() {
        let id = parse("6f0b9a3e-6c1f-4a55-9b6e-0c8c5e6a7d11\n").unwrap();
        let known = id.map(Some);
        assert!(is_other(known, Some([1, 2, 3])));
        assert!(!is_other(known, Some(id)));
        assert!(!is_other(known, None));
        assert!(!is_other(UNKNOWN_BOOT.map(Some), Some(id)));
        assert!(!is_other([known[0], None, known[2]], Some(id)), "a damaged word");
    }

    #[test]
    fn this_boot_is_this_one() {
        if let Some(id) = boot_id() {
            assert!(is_this_boot(id.map(Some)));
        }
    }
}
