/// The executor of work that takes long, which must not run on the thread of an event loop.
package enum LongWork {
    /// The executor. A simulation replaces it for its own tasks, so that all of their jobs run in a seeded order.
    @TaskLocal package static var executor: any TaskExecutor = globalConcurrentExecutor
}
