//! The role of the engine's user on a limited server, as the README of the engine recommends it.

use bson::Document;

const ROLE: &str = include_str!("role.json");

/// Returns the command that creates the role.
///
/// # Panics
///
/// Panics if the file is not the JSON of a command.
#[must_use]
pub fn role() -> Document {
    serde_json::from_str(ROLE).expect("the role is JSON")
}

#[cfg(test)]
mod tests {
    use super::role;

    #[test]
    fn the_role_names_each_action() {
        let role = role();
        let privileges = role.get_array("privileges").expect("it has some");
        assert!(!privileges.is_empty());
        assert!(!role.to_string().contains("anyResource"), "{role}");
    }
}
