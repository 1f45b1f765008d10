//! The protocol: lists the tools, and passes calls on.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::answer::{Outcome, ToolAnswer};
use super::look::foreign;
use super::session::Session;
use super::tools::{self, CALLS_MAX, INSTRUCTIONS};
use crate::failure::Failure;

/// The methods of requests that this server answers.
const METHODS: [&str; 4] = ["initialize", "ping", "tools/call", "tools/list"];

/// The server of one session.
pub(super) struct LockServer {
    session: Arc<Session>,
    calls: Arc<Semaphore>,
    tools: Vec<Tool>,
}

impl LockServer {
    pub(super) fn new(session: Arc<Session>) -> Self {
        let calls = Arc::new(Semaphore::new(CALLS_MAX as usize));
        Self { session, calls, tools: tools::all() }
    }

    /// The permits of the calls. All of them are free when no call is running.
    pub(super) fn calls(&self) -> Arc<Semaphore> {
        self.calls.clone()
    }

    async fn call(&self, name: &str, arguments: JsonObject, client: String) -> Outcome {
        let session = &self.session;
        match name {
            "take" => session.take(parse(arguments)?, client).await,
            "renew" => session.renew(parse(arguments)?).await,
            "drop" => session.drop_claim(parse(arguments)?).await,
            "who" => session.who(parse(arguments)?).await,
            "wait" => session.wait(parse(arguments)?).await,
            "run" => session.run(parse(arguments)?, &client).await,
            _ => Err(Failure::usage(format!("there is no tool {name:?}"))),
        }
    }
}

impl ServerHandler for LockServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("tenure", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Ok(_permit) = self.calls.try_acquire() else {
            let message = format!(
                "NOT held: {CALLS_MAX} calls of this session are running. Wait for one of them to end."
            );
            return Ok(ToolAnswer::stop("limit", message).into());
        };
        let client = context.client_info().map(|client| foreign(&client.name)).unwrap_or_default();
        let call = self.call(&request.name, request.arguments.unwrap_or_default(), client);
        // The future of a cancelled call is dropped: a waiter leaves its line, and a run is asked
        // to stop in the background.
        let outcome = tokio::select! {
            outcome = call => outcome,
            () = context.ct.cancelled() => {
                Ok(ToolAnswer::stop("cancelled", "NOT held: the call was cancelled. If its command ran, it is being stopped."))
            }
        };
        Ok(outcome.unwrap_or_else(ToolAnswer::from).into())
    }

    /// Refuses a request that rmcp could not read: its method is unknown, or its parameters are
    /// wrong.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        Err(if METHODS.contains(&&*method) {
            ErrorData::invalid_params(format!("the parameters of `{method}` are wrong"), None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)
        })
    }
}

/// Reads the arguments of a call.
fn parse<A: DeserializeOwned>(arguments: JsonObject) -> Result<A, Failure> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Failure::usage(format!("the arguments are wrong: {error}")))
}
