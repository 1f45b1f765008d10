//! The answers of the tools: a text for the model, and the same as data.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use serde_json::{Map, Value};

use crate::failure::{BUSY, CANNOT_RUN, Failure, LOST, NOT_FOUND, UNREACHABLE, USAGE};

/// An answer. Its data has `message`, and `held` unless it is only a look at the store.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    message: String,
    data: Map<String, Value>,
    /// Output of a command, which follows the message.
    output: String,
    is_error: bool,
}

/// The answer of a tool, or the failure that makes it "not held".
pub(super) type Outcome = Result<ToolAnswer, Failure>;

impl ToolAnswer {
    /// The lock is held. Only for a claim whose `check` has just succeeded.
    pub(super) fn held(message: impl Into<String>) -> Self {
        Self::new(message).with("held", true)
    }

    /// The lock is not held, and the model may go on with other work.
    pub(super) fn not_held(message: impl Into<String>) -> Self {
        Self::new(message).with("held", false)
    }

    /// Others' claims were looked at.
    pub(super) fn looked(message: impl Into<String>) -> Self {
        Self::new(message)
    }

    /// The lock is not held, for this reason, and the model must stop.
    pub(super) fn stop(reason: &str, message: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::not_held(message).with("reason", reason) }
    }

    /// Adds a field to the data.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.data.insert(name.into(), value.into());
        self
    }

    /// Adds the end of a command's output, and the number of bytes before it.
    pub(super) fn with_output(self, output: String, cut: u64) -> Self {
        let answer = self.with("output", output.as_str()).with("output_bytes_cut", cut);
        let output = match cut {
            0 => output,
            _ => format!("[{cut} bytes of output before this are cut]\n{output}"),
        };
        Self { output, ..answer }
    }

    fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        let (data, output) = (Map::new(), String::new());
        Self { message: message.clone(), data, output, is_error: false }.with("message", message)
    }
}

impl From<Failure> for ToolAnswer {
    fn from(failure: Failure) -> Self {
        let (reason, way_out) = match failure.code() {
            USAGE => ("invalid", "Correct the arguments and call again."),
            UNREACHABLE => (
                "unreachable",
                "Do not do the work without the lock. Try again later, or tell the user.",
            ),
            BUSY => ("busy", "Do other work, or try again later."),
            CANNOT_RUN | NOT_FOUND => ("invalid", "Correct the command and call again."),
            LOST => ("lost", "Stop the work. Read everything again before you take the lock anew."),
            _ => ("refused", "Do not do the work without the lock. Tell the user."),
        };
        Self::stop(reason, format!("NOT held: {}. {way_out}", failure.sentence()))
    }
}

impl From<ToolAnswer> for CallToolResponse {
    fn from(answer: ToolAnswer) -> Self {
        let mut content = vec![ContentBlock::text(answer.message)];
        if !answer.output.is_empty() {
            content.push(ContentBlock::text(answer.output));
        }
        let mut result = if answer.is_error {
            CallToolResult::error(content)
        } else {
            CallToolResult::success(content)
        };
        result.structured_content = Some(Value::Object(answer.data));
        result.into()
    }
}
