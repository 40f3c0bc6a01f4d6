//! The control socket: reads what clients ask, answers from what the engine publishes, passes changes on.
