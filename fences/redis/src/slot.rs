//! The hash slot of a fence in a Cluster: that of a key of its name.

use std::collections::HashMap;
use std::sync::LazyLock;

use redis::cluster_routing::Slot;

/// Number of slots of a Cluster.
const SLOTS: usize = 16_384;

/// For every slot, the smallest number whose decimal text is in that slot. It replaces the user's
/// own hash tag, because not every string can be put between braces.
static TAGS: LazyLock<HashMap<Slot, u32>> = LazyLock::new(|| {
    let mut tags = HashMap::with_capacity(SLOTS);
    for number in 0_u32.. {
        tags.entry(slot_of(number.to_string().as_bytes())).or_insert(number);
        if tags.len() == SLOTS {
            break;
        }
    }
    tags
});

/// Returns the slot of a key, by its hash tag if it has one.
pub(crate) fn slot_of(key: &[u8]) -> Slot {
    Slot::for_key(key)
}

/// Returns a tag in the slot of this key.
pub(crate) fn tag_beside(key: &[u8]) -> u32 {
    TAGS[&slot_of(key)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_in_the_slot_of_its_key() {
        for key in ["a", "{invoice:42}:next", "{}x", "}{", "a}b", "{", "{{a}}", "\0", "ключ", "{é}"]
        {
            let beside = format!("fence:{{{}}}:x", tag_beside(key.as_bytes()));
            assert_eq!(slot_of(beside.as_bytes()), slot_of(key.as_bytes()), "{key:?}");
        }
    }

    #[test]
    fn every_slot_has_a_short_tag() {
        assert!(TAGS.values().all(|&number| number < 1_000_000));
    }
}
