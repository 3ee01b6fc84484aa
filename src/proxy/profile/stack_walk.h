#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// Where a thread is: its program counter, frame pointer and stack pointer, and the end of its stack (the address
/// behind the highest byte).
struct StackPlace {
  uintptr_t pc = 0;
  uintptr_t frame = 0;
  uintptr_t stack = 0;
  uintptr_t stack_end = 0;
};

/// Writes the call stack of a thread, innermost first, by following frame pointers, and returns the number of
/// addresses. The first one is the program counter, the others are the last bytes of calls. A place of the calling
/// thread only.
///
/// It is async-signal-safe: it takes no lock and reads nothing but the thread's own stack and the program's code. Where
/// code has no frame pointers (libraries, assembly), the stack ends early or lacks a caller.
size_t walk_stack(const StackPlace& place, std::span<uintptr_t> frames);

/// The end of the calling thread's stack. Async-signal-safe. For the first thread of the process, it is the value that
/// find_main_stack() has found.
uintptr_t stack_end_of_thread(uintptr_t stack);

/// Finds the stack of the process's first thread, for stack_end_of_thread(). Not async-signal-safe.
void find_main_stack();

/// The interrupted place of the thread that handles a signal: `context` is the third argument of the handler.
StackPlace place_of_signal(const void* context);

}  // namespace sluice
