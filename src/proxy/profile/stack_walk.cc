#include "proxy/profile/stack_walk.h"

#include <pthread.h>
#include <ucontext.h>

#include <atomic>
#include <cstdio>
#include <cstring>

// From the linker: the program's own code.
extern "C" const char __executable_start, etext;

namespace sluice {

namespace {

// No code is below.
constexpr uintptr_t kLowestCode = 4096;
// The largest stack that is taken for one; beyond it a thread's stack is of an unknown kind.
constexpr uintptr_t kMaxStackBytes = uintptr_t{1} << 30;
constexpr size_t kWord = sizeof(uintptr_t);

std::atomic<uintptr_t> main_stack_end{0};

#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_READS_ANY_STACK __attribute__((no_sanitize("address")))
#elif defined(__SANITIZE_THREAD__)
#define SLUICE_READS_ANY_STACK __attribute__((no_sanitize("thread")))
#else
#define SLUICE_READS_ANY_STACK
#endif

// Redzones of ASan are part of a stack.
SLUICE_READS_ANY_STACK uintptr_t word_at(uintptr_t address) {
  return *reinterpret_cast<const volatile uintptr_t*>(address);
}

bool is_own_code(uintptr_t address) {
  return address >= reinterpret_cast<uintptr_t>(&__executable_start) && address < reinterpret_cast<uintptr_t>(&etext);
}

#if defined(__x86_64__)
SLUICE_READS_ANY_STACK unsigned code_byte(uintptr_t address) {
  return *reinterpret_cast<const volatile unsigned char*>(address);
}

// Whether a call of the program's own code returns there: call rel32, or an indirect call in any of its lengths.
bool follows_call(uintptr_t address) {
  if (!is_own_code(address - 7) || !is_own_code(address)) return false;
  if (code_byte(address - 5) == 0xe8) return true;
  for (const uintptr_t length : {2u, 3u, 4u, 6u, 7u}) {
    if (code_byte(address - length) == 0xff && (code_byte(address - length + 1) & 0x38) == 0x10) return true;
  }
  return false;
}

// The return address of a function that has no frame of its own, or none yet: code of a library, and the first and the
// last instruction of any function. 0 if there is none.
uintptr_t frameless_return(const StackPlace& place) {
  uintptr_t at = place.stack;
  if (is_own_code(place.pc)) {
    const unsigned first = code_byte(place.pc), second = code_byte(place.pc + 1);
    const bool moves_frame = first == 0x48 && second == 0x89 && code_byte(place.pc + 2) == 0xe5;  // mov %rsp, %rbp
    const bool pushes_frame = first == 0x55 || (first == 0xf3 && second == 0x0f);                 // push, or endbr64
    if (moves_frame) {
      at += kWord;
    } else if (!pushes_frame && first != 0xc3) {
      return 0;
    }
  }
  if (at % kWord != 0 || at + kWord > place.stack_end) return 0;
  const uintptr_t address = word_at(at);
  return follows_call(address) ? address : 0;
}
#else
uintptr_t frameless_return(const StackPlace&) { return 0; }
#endif

}  // namespace

size_t walk_stack(const StackPlace& place, std::span<uintptr_t> frames) {
  if (frames.empty()) return 0;
  size_t count = 0;
  frames[count++] = place.pc;
  uintptr_t low = place.stack, frame = place.frame;
  const auto is_frame = [&] {
    return frame >= low && frame % kWord == 0 && frame < place.stack_end && place.stack_end - frame >= 2 * kWord;
  };
  if (const uintptr_t address = low < place.stack_end ? frameless_return(place) : 0) {
    const bool is_known = is_frame() && word_at(frame + kWord) == address;
    if (!is_known && count < frames.size()) frames[count++] = address - 1;
  }
  while (count < frames.size() && is_frame()) {
    const uintptr_t address = word_at(frame + kWord);
    if (address < kLowestCode) break;
    frames[count++] = address - 1;
    low = frame + 2 * kWord;
    frame = word_at(frame);
  }
  return count;
}

// glibc keeps its description of a thread at the upper end of the thread's stack, apart from that of the first thread.
uintptr_t stack_end_of_thread(uintptr_t stack) {
  const auto self = static_cast<uintptr_t>(pthread_self());
  if (self > stack && self - stack < kMaxStackBytes) return self;
  const uintptr_t main_end = main_stack_end.load(std::memory_order_relaxed);
  return main_end > stack && main_end - stack < kMaxStackBytes ? main_end : 0;
}

void find_main_stack() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return;
  char line[512];
  while (std::fgets(line, sizeof line, maps)) {
    unsigned long from = 0, to = 0;
    if (std::strstr(line, "[stack]") && std::sscanf(line, "%lx-%lx", &from, &to) == 2) main_stack_end.store(to);
  }
  std::fclose(maps);
}

StackPlace place_of_signal(const void* context) {
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
  StackPlace place;
#if defined(__x86_64__)
  place.pc = static_cast<uintptr_t>(machine.gregs[REG_RIP]);
  place.frame = static_cast<uintptr_t>(machine.gregs[REG_RBP]);
  place.stack = static_cast<uintptr_t>(machine.gregs[REG_RSP]);
#elif defined(__aarch64__)
  place.pc = machine.pc;
  place.frame = machine.regs[29];
  place.stack = machine.sp;
#else
  (void)machine;
#endif
  place.stack_end = stack_end_of_thread(place.stack);
  return place;
}

}  // namespace sluice
