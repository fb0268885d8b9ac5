//! What is wrong at the start is said in one clear line, with an exit code of its own.
