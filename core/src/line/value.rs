//! A value beside a line: a text that is replaced only by a caller that has seen it.

use std::collections::HashMap;

use crate::Key;

/// Replaces the value of a key if it is `seen`, and returns the value then. See
/// [`Engine::swap`](crate::Engine::swap).
///
/// ```
/// use std::collections::HashMap;
///
/// use tenure::Key;
/// use tenure::engine::line::swap;
///
/// let (mut values, key) = (HashMap::new(), Key::new("nightly")?);
/// assert_eq!(swap(&mut values, &key, "", "one"), "one");
/// assert_eq!(swap(&mut values, &key, "", "two"), "one", "another caller has written");
/// assert_eq!(swap(&mut values, &key, "one", ""), "");
/// assert!(values.is_empty());
/// # Ok::<(), tenure::Error>(())
/// ```
pub fn swap<H: std::hash::BuildHasher>(
    values: &mut HashMap<Key, String, H>,
    key: &Key,
    seen: &str,
    value: &str,
) -> String {
    let stored = values.get(key).map_or("", String::as_str);
    if stored != seen {
        return stored.to_owned();
    }
    if value.is_empty() {
        values.remove(key);
    } else {
        values.insert(key.clone(), value.to_owned());
    }
    value.to_owned()
}
