//! Threads and tasks that wait until an LSN is passed.
//!
//! Each waiter sleeps on its own and is woken once, when its LSN is reached: a landing flight wakes those it carried,
//! not those of the flights behind it, and outside the queue's mutex (Shore-MT §6.2.4: notify after the release).

use foreshore_base::Lsn;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ptr;
use std::task::Waker;
use std::thread::{self, Thread};

#[derive(Default)]
pub(super) struct Waiters {
    threads: Queue<Thread>,
    tasks: Queue<Waker>,
}

/// Sleepers, the one with the least target first.
struct Queue<S>(Mutex<BinaryHeap<Reverse<Waiter<S>>>>);

struct Waiter<S> {
    target: Lsn,
    sleeper: S,
}

/// Names the task that a waker wakes, as long as that waker is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskName {
    data: usize,
    vtable: usize,
}

impl TaskName {
    fn of(task: &Waker) -> Self {
        Self { data: task.data().addr(), vtable: ptr::from_ref(task.vtable()).addr() }
    }
}

impl Waiters {
    /// Sleeps until `reached()`, which must become true before [`Waiters::wake`] is called with `target` or later.
    pub fn wait(&self, target: Lsn, reached: impl Fn() -> bool) {
        if reached() {
            return;
        }
        self.threads.enter(target, thread::current());
        // The waker moves its LSN, then locks the queue: either it finds the entry, or this sees the LSN. An entry left
        // behind here wakes its thread once for nothing, which every park must bear.
        while !reached() {
            thread::park();
        }
    }

    /// Has the task woken once [`Waiters::wake`] is called with `target` or later. It must look again afterwards whether that
    /// has happened already. `known`: the task that entered for `target` before, which is then this one; until it is woken its waker
    /// is kept here, so no other task has its name.
    pub fn enter_task(&self, target: Lsn, task: &Waker, known: &mut Option<TaskName>) {
        if *known != Some(TaskName::of(task)) {
            let task = task.clone();
            *known = Some(TaskName::of(&task));
            self.tasks.enter(target, task);
        }
    }

    /// Wakes the threads that wait for `passed` or less.
    pub fn wake_threads(&self, passed: Lsn) {
        self.threads.leave(passed).for_each(|thread| thread.unpark());
    }

    /// Does a task wait for `passed` or less?
    pub fn has_task(&self, passed: Lsn) -> bool {
        self.tasks.has(passed)
    }

    /// Wakes everyone who waits for `passed` or less, by a thread that holds nothing: tasks may go on right here, so threads, for which
    /// they may wait there, come first. Each task is given to `wake_task`. Was there one?
    pub fn wake(&self, passed: Lsn, wake_task: impl Fn(Waker)) -> bool {
        self.wake_threads(passed);
        let tasks = self.tasks.leave(passed);
        let has_task = tasks.len() > 0;
        tasks.for_each(wake_task);
        has_task
    }

    /// How many threads wait.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.threads.0.lock().len()
    }
}

impl<S> Queue<S> {
    fn enter(&self, target: Lsn, sleeper: S) {
        self.0.lock().push(Reverse(Waiter { target, sleeper }));
    }

    fn has(&self, passed: Lsn) -> bool {
        self.0.lock().peek().is_some_and(|waiter| waiter.0.target <= passed)
    }

    /// Takes out who waits for `passed` or less.
    fn leave(&self, passed: Lsn) -> impl ExactSizeIterator<Item = S> + use<S> {
        let (mut queue, mut reached) = (self.0.lock(), Vec::new());
        while queue.peek().is_some_and(|waiter| waiter.0.target <= passed) {
            reached.extend(queue.pop());
        }
        reached.into_iter().map(|waiter| waiter.0.sleeper)
    }
}

impl<S> Default for Queue<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> PartialEq for Waiter<S> {
    fn eq(&self, other: &Self) -> bool {
        self.target == other.target
    }
}

impl<S> Eq for Waiter<S> {}

impl<S> PartialOrd for Waiter<S> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<S> Ord for Waiter<S> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.target.cmp(&other.target)
    }
}

#[cfg(test)]
mod tests {
    use super::super::flusher::wake_task;
    use super::*;
    use foreshore_base::sync::{AtomicBool, Ordering::SeqCst};
    use std::sync::{Arc, mpsc};
    use std::task::Wake;
    use std::time::Duration;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a test");
        }
    }

    /// A thread that waits for `Lsn(2)`, and tells when it is woken: that is to be done now.
    fn put_to_sleep(waiters: &Arc<Waiters>, woken: mpsc::Sender<()>) {
        let is_reached = Arc::new(AtomicBool::new(false));
        let (before, its) = (waiters.len(), (waiters.clone(), is_reached.clone()));
        thread::spawn(move || {
            its.0.wait(Lsn(2), || its.1.load(SeqCst));
            woken.send(())
        });
        while waiters.len() == before {
            thread::yield_now();
        }
        is_reached.store(true, SeqCst);
    }

    /// Who waits behind a task whose waker panics is woken.
    #[test]
    fn a_waker_that_panics_keeps_nobody_asleep() {
        let waiters = Arc::new(Waiters::default());
        waiters.enter_task(Lsn(1), &Arc::new(Panics).into(), &mut None);
        let (woken, waits) = mpsc::channel();
        put_to_sleep(&waiters, woken);
        waiters.wake(Lsn(2), wake_task);
        waits.recv_timeout(Duration::from_secs(30)).expect("it sleeps on");
    }

    /// Waits, where it is woken, until it hears from a thread.
    struct Listens {
        thread: Mutex<mpsc::Receiver<()>>,
        has_heard: AtomicBool,
    }

    impl Wake for Listens {
        fn wake(self: Arc<Self>) {
            let heard = self.thread.lock().recv_timeout(Duration::from_secs(30));
            self.has_heard.store(heard.is_ok(), SeqCst);
        }
    }

    /// A thread that is woken together with a task is not left asleep until that is done, which may wait for it.
    #[test]
    fn a_task_may_wait_for_a_thread_that_is_woken_with_it() {
        let waiters = Arc::new(Waiters::default());
        let (woken, thread) = mpsc::channel();
        let task = Arc::new(Listens { thread: Mutex::new(thread), has_heard: AtomicBool::new(false) });
        waiters.enter_task(Lsn(1), &task.clone().into(), &mut None);
        put_to_sleep(&waiters, woken);
        assert!(waiters.wake(Lsn(2), Waker::wake));
        assert!(task.has_heard.load(SeqCst));
    }
}
