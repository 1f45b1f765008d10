//! The servers of one run, and whether its cores are kept awake.

pub(crate) struct Stores {
    pub(crate) urls: Vec<String>,
    /// The process ids of the servers.
    pub(crate) pids: Vec<u32>,
    /// The prefix of the names of the rows.
    pub(crate) suite: String,
}

impl Stores {
    /// The same, with cores that stay awake.
    pub(crate) fn awake(self) -> Self {
        Self { suite: format!("{}, cores awake", self.suite), ..self }
    }

    /// The name of a row.
    pub(crate) fn case(&self, case: &str) -> String {
        format!("{}: {case}", self.suite)
    }
}
