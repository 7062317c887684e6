//! On real, healthy containerds. They may complain, of deprecated settings of the machine for instance, which is not a
//! problem.

use rubelet_testbed::{Flavor, require};

use super::{names, run};

#[tokio::test]
async fn real_runtimes_that_are_well() {
    for (flavor, events) in [(Flavor::V2, "open"), (Flavor::V1_6, "unsupported")] {
        let Some(containerd) = require(flavor) else { continue };
        let (code, said) = run(&["doctor", "-o", "json", "-r", &containerd.endpoint()]).await;
        assert_eq!((code, &said["healthy"]), (Some(0), &true.into()), "{said:#}");
        assert_eq!(said["endpoint"], containerd.endpoint());
        let has_none = names(&said).contains(&"eventsUnsupported");
        assert_eq!(has_none, events == "unsupported", "{said:#}");
    }
}
