#if GTK
    public import DipperData
    import CGTK4
    import Synchronization

    extension CallbackQueue {
        /// The loop of GTK: closures run on the thread that serves GLib's default context, a few milliseconds of them
        /// between two frames. Widgets and paintables of this module use it by themselves.
        ///
        /// ```swift
        /// cache.getImage(ImageRequest(url).with(\.callbackQueue, .glib)).then { image in
        ///     gtk_label_set_text(OpaquePointer(label), "\(image.size)")
        /// }
        /// ```
        public static let glib = CallbackQueue.custom { LoopWork.shared.add($0) }
    }

    /// The closures that wait for a turn of GTK's loop.
    private final class LoopWork: Sendable {
        private struct State {
            /// The closures to run, in reverse order.
            var waiting: [@Sendable () -> Void] = []
            /// The closures that arrived after those in `waiting`, in order.
            var arrived: [@Sendable () -> Void] = []
            var isScheduled = false

            mutating func next() -> (@Sendable () -> Void)? {
                if waiting.isEmpty {
                    waiting = arrived.reversed()
                    arrived = []
                }
                if waiting.isEmpty { isScheduled = false }
                return waiting.popLast()
            }
        }

        static let shared = LoopWork()
        /// The longest time that closures run before GTK's loop handles frames and events again.
        private static let turn = Duration.milliseconds(4)

        private let state = Mutex(State())

        func add(_ work: @escaping @Sendable () -> Void) {
            let isFirst = state.withLock { state in
                state.arrived.append(work)
                defer { state.isScheduled = true }
                return !state.isScheduled
            }
            guard isFirst else { return }
            // With the priority of drawing, GLib alternates between both: with a lower one, a program that draws all the
            // time would never see a picture.
            let source = g_idle_source_new()
            g_source_set_priority(source, GDK_PRIORITY_REDRAW)
            // A closure may run a loop of its own, as for a dialogue, which serves the closures after it.
            g_source_set_can_recurse(source, 1)
            g_source_set_callback(source, { _ in LoopWork.shared.carryOut() ? 1 : 0 }, nil, nil)
            g_source_attach(source, nil)
            g_source_unref(source)
        }

        /// - Returns: whether closures may be left.
        private func carryOut() -> Bool {
            let end = ContinuousClock.now + Self.turn
            repeat {
                guard let work = state.withLock({ $0.next() }) else { return false }
                work()
            } while ContinuousClock.now < end
            return true
        }
    }

    /// A weak reference to an object of GTK's thread, for closures that run there and pass through other threads.
    // Safe to send: the object is used on GTK's thread alone.
    struct OnGTK<Object: AnyObject>: @unchecked Sendable {
        private(set) weak var object: Object?

        init(_ object: Object) { self.object = object }
    }

    /// Lets go of an object of GTK's in the next turn of its loop. May be called on any thread.
    func releaseLater(_ object: UnsafeMutableRawPointer) {
        g_idle_add_full(
            G_PRIORITY_DEFAULT_IDLE,
            { object in
                if let object { g_object_unref(object) }
                return 0
            }, object, nil)
    }

    /// A call that the loop of GTK makes once, after some time, unless it is cancelled.
    final class Timeout {
        private var source: guint = 0
        private let body: () -> Void

        init(milliseconds: Int, _ body: @escaping () -> Void) {
            self.body = body
            source = g_timeout_add(
                guint(milliseconds),
                { data in
                    guard let data else { return 0 }
                    let timeout = Unmanaged<Timeout>.fromOpaque(data).takeUnretainedValue()
                    timeout.source = 0
                    timeout.body()
                    return 0
                }, Unmanaged.passUnretained(self).toOpaque())
        }

        deinit { if source != 0 { g_source_remove(source) } }
    }
#endif
