//! A bell is heard by all who listen, and is taken down when the last of them is gone.

use std::pin::pin;

use futures_util::FutureExt as _;
use tenure_core::TicketId;
use tenure_core::wake::WakeRegistry;

#[test]
fn a_ring_after_listening_is_heard_and_the_bell_is_taken_down() {
    let bells = WakeRegistry::default();
    let id = TicketId::fresh();
    {
        let bell = bells.subscribe(id);
        let other = bells.subscribe(id);
        let (rung, also) = (bell.notified(), other.notified());
        let (mut rung, mut also) = (pin!(rung), pin!(also));
        rung.as_mut().enable();
        also.as_mut().enable();
        bells.notify(id);
        assert!(rung.now_or_never().is_some());
        assert!(also.now_or_never().is_some());
    }
    assert!(bells.is_quiet());
}
