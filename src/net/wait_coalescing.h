#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Decides whether a worker's waits are coalesced: whether each waits some microseconds for several completions instead
/// of returning for the first, as network cards moderate their interrupts (ethtool's adaptive-rx).
///
/// It pays when one socket gets piece after piece, each just when the worker has begun to wait for it, such as the
/// responses on a connection to an HTTP/2 endpoint that sends each on its own. Each piece takes a receive, a turn of
/// the loop and a send; those of a coalesced wait have these in common. With pieces for different sockets, only the
/// turn is common, which is not worth the delay and the kernel's timer. A busier worker needs no help: several
/// completions are there when it waits.
class WaitCoalescing {
 public:
  /// A coalesced wait returns for kCompletions, or for fewer after kMostUs microseconds.
  static constexpr unsigned kCompletions = 8;
  static constexpr unsigned kMostUs = 30;

  bool on() const { return on_; }

  /// A receive has completed.
  void note_receive(const void* socket) {
    repeats_ += socket == last_socket_;
    last_socket_ = socket;
  }
  /// A turn of the loop has handled `completions`.
  void note_turn(uint64_t now_us, size_t completions) {
    completions_ += completions;
    if (++turns_ == kTurns) review(now_us);
  }

 private:
  // Each decision is for this many turns.
  static constexpr unsigned kTurns = 64;
  // Waits are coalesced if the turns before were this short and had this few completions, and if this many receives
  // were of the same socket as the one before. That ends when not even coalesced waits get more than a few, or after so
  // many decisions, to find whether it still holds.
  static constexpr uint64_t kShortTurnUs = 40;
  static constexpr uint64_t kFew = 4;
  static constexpr unsigned kRepeats = kTurns / 2;
  static constexpr unsigned kMostDecisions = 32;
  // The pause after coalesced waits that got only a few.
  static constexpr uint64_t kRetryUs = 1'000'000;

  void review(uint64_t now_us) {
    const bool few = completions_ < kTurns * kFew;
    if (!on_) {
      on_ = few && repeats_ >= kRepeats && now_us - began_us_ < kTurns * kShortTurnUs && now_us >= retry_us_;
      decisions_ = 0;
    } else if (few || ++decisions_ == kMostDecisions) {
      on_ = false;
      if (few) retry_us_ = now_us + kRetryUs;
    }
    turns_ = repeats_ = 0;
    completions_ = 0;
    began_us_ = now_us;
  }

  bool on_ = false;
  unsigned decisions_ = 0;  // Since on_ became true.
  // Since the last decision:
  unsigned turns_ = 0;
  unsigned repeats_ = 0;
  uint64_t completions_ = 0;
  uint64_t began_us_ = 0;
  uint64_t retry_us_ = 0;
  const void* last_socket_ = nullptr;  // Only compared.
};

}  // namespace sluice
