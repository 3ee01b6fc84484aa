#include "net/features.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "net/buffer_ring.h"
#include "net/io_uring_access.h"
#include "net/ring.h"

namespace sluice {

namespace {

constexpr int64_t kProbeTimeoutNs = 200'000'000;
constexpr size_t kProbeChunkBytes = 4096;

bool holds(const Buffer& buffer, std::string_view expected) {
  if (buffer.size() != expected.size()) return false;
  std::string bytes(buffer.size(), '\0');
  buffer.copy_out(0, std::as_writable_bytes(std::span(bytes)));
  return bytes == expected;
}

/// A socket pair with a buffer group on its receiving end.
class Probe {
 public:
  Probe(Ring& ring, ChunkPool& pool, BufferRing::Options options) : ring_(ring) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_) != 0) fds_[0] = fds_[1] = -1;
    auto group = BufferRing::open(ring, pool, options);
    if (group.ok()) {
      group_ = std::move(*group);
      group_->refill();
    }
  }
  ~Probe() {
    if (fds_[0] >= 0) ::close(fds_[0]), ::close(fds_[1]);
  }

  bool ready() const { return fds_[0] >= 0 && group_ != nullptr; }
  bool write(std::string_view bytes) {
    return ::send(fds_[1], bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  /// Receives once. Empty if nothing arrived. Stores the kernel's completion in `completion`.
  Buffer receive(Completion& completion) {
    ring_.recv_once(nullptr, fds_[0], group_->group(), /*poll_first=*/true);
    return await(completion);
  }
  Buffer receive_bundles(uint32_t shot_bytes, uint32_t total_bytes, Completion& completion) {
    ring_.recv_bundles(nullptr, fds_[0], group_->group(), shot_bytes, total_bytes, /*poll_first=*/true);
    return await(completion);
  }
  /// Whether an armed multishot ends when it is canceled.
  bool cancels(bool keyed) {
    ring_.recv_multishot(nullptr, fds_[0], group_->group());
    keyed ? ring_.cancel_op(nullptr, Op::kRecv) : ring_.cancel_receives(nullptr, fds_[0]);
    bool found = false, ended = false;
    for (int turn = 0; turn < 4 && !(found && ended); ++turn) {
      ring_.wait(kProbeTimeoutNs);
      ring_.reap([&](Op op, void*, Completion c) {
        if (op == Op::kCancel) found = c.res > 0;
        if (op == Op::kRecv) ended = !c.more();
      });
    }
    return found && ended;
  }
  /// Whether a single receive on this probe and a multishot on `other`, both from this group, each get their own bytes.
  bool shares_with(Probe& other, bool write_ours_first) {
    // The targets only distinguish the two completions.
    alignas(kTargetAlignment) char ours[kTargetAlignment], theirs[kTargetAlignment];
    ring_.recv_once(ours, fds_[0], group_->group(), /*poll_first=*/true);
    ring_.recv_multishot(theirs, other.fds_[0], group_->group());
    ring_.submit();
    const bool written =
        write_ours_first ? write("ours") && other.write("theirs") : other.write("theirs") && write("ours");
    Buffer to_us, to_other;
    bool ended = false;
    const auto reap = [&](Op op, void* target, Completion c) {
      if (op != Op::kRecv) return;
      if (c.has_buffer()) group_->take(c, target == ours ? to_us : to_other);
      if (target == theirs && !c.more()) ended = true;
    };
    for (int turn = 0; turn < 4 && (to_us.empty() || to_other.empty()); ++turn) {
      ring_.wait(kProbeTimeoutNs);
      ring_.reap(reap);
    }
    // The multishot must end before the buffers it refers to.
    ring_.cancel_receives(nullptr, other.fds_[0]);
    for (int turn = 0; turn < 4 && !ended; ++turn) {
      ring_.wait(kProbeTimeoutNs);
      ring_.reap(reap);
    }
    return written && holds(to_us, "ours") && holds(to_other, "theirs");
  }
  /// Waits for the next completions of the armed receive; `completion` is the last of them.
  Buffer await(Completion& completion) {
    Buffer data;
    completion = {-ETIME, 0};
    ring_.wait(kProbeTimeoutNs);
    ring_.reap([&](Op op, void*, Completion c) {
      if (op != Op::kRecv) return;
      completion = c;
      if (c.has_buffer()) group_->take(c, data);
    });
    group_->refill();
    return data;
  }

 private:
  Ring& ring_;
  int fds_[2];
  std::unique_ptr<BufferRing> group_;
};

bool probe_plain(Ring& ring, ChunkPool& pool) {
  Probe probe(ring, pool, {.group = 0, .entries = 2, .chunk_bytes = kProbeChunkBytes});
  if (!probe.ready() || !probe.write("plain")) return false;
  Completion completion;
  return holds(probe.receive(completion), "plain");
}

// A cancel by user_data, or else by descriptor and opcode, must find a waiting multishot and end it.
bool probe_cancel(Ring& ring, ChunkPool& pool, bool keyed) {
  Probe probe(ring, pool, {.group = 0, .entries = 2, .chunk_bytes = kProbeChunkBytes});
  return probe.ready() && probe.cancels(keyed);
}

// Two messages must land consecutively in the same buffer, which must stay posted.
bool probe_incremental(Ring& ring, ChunkPool& pool, uint32_t min_left) {
  Probe probe(ring, pool,
              {.group = 0, .entries = 2, .chunk_bytes = kProbeChunkBytes, .incremental = true, .min_left = min_left});
  if (!probe.ready() || !probe.write("first")) return false;
  Completion first, second;
  const Buffer a = probe.receive(first);
  if (!holds(a, "first") || !first.buffer_more() || !probe.write("second")) return false;
  const Buffer b = probe.receive(second);
  if (!holds(b, "second") || second.buffer_id() != first.buffer_id()) return false;
  if (min_left == 0) return second.buffer_more();
  // Leave fewer than min_left bytes: the kernel must retire the buffer.
  const std::string filler(kProbeChunkBytes - 11 - min_left + 1, 'x');
  if (!probe.write(filler)) return false;
  Completion third;
  const Buffer c = probe.receive(third);
  return holds(c, filler) && !third.buffer_more();
}

// The receives of several sockets share a buffer, and only the order of their completions shows which bytes belong to
// which socket. Some kernels delay a single receive's completion and let a multishot's overtake it. Both sockets are
// written before one wait, in either order.
bool probe_order(Ring& ring, ChunkPool& pool) {
  const BufferRing::Options options{.group = 0, .entries = 2, .chunk_bytes = kProbeChunkBytes, .incremental = true};
  for (const bool single_first : {true, false}) {
    // Only the sockets of `multi` are used: both receive from the group of `single`.
    Probe single(ring, pool, options), multi(ring, pool, {.group = 1, .entries = 2, .chunk_bytes = kProbeChunkBytes});
    if (!single.ready() || !multi.ready()) return false;
    if (!single.shares_with(multi, single_first)) return false;
  }
  return true;
}

// With three buffers' worth of bytes, a receive bounded to two must deliver exactly two, in order, and end.
bool probe_bundles(Ring& ring, ChunkPool& pool) {
  Probe probe(ring, pool, {.group = 0, .entries = 4, .chunk_bytes = kProbeChunkBytes});
  std::string bytes(3 * kProbeChunkBytes, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>('a' + i / 64 % 26);
  if (!probe.ready() || !probe.write(bytes)) return false;
  constexpr uint32_t kBound = 2 * kProbeChunkBytes;
  Completion completion;
  const Buffer data = probe.receive_bundles(kBound, kBound, completion);
  return holds(data, std::string_view(bytes).substr(0, kBound)) && !completion.more();
}

bool probe_zero_copy(Ring& ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(ring.raw());
  if (probe == nullptr) return false;
  const bool supported = io_uring_opcode_supported(probe, IORING_OP_SENDMSG_ZC);
  io_uring_free_probe(probe);
  return supported;
}

const char* yes_no(bool value) { return value ? "yes" : "no"; }

}  // namespace

std::string Features::to_string() const {
  return absl::StrCat("incremental=", yes_no(incremental), " min_left=", yes_no(min_left), " bundles=", yes_no(bundles),
                      " zero_copy=", yes_no(zero_copy), " in_order=", yes_no(in_order),
                      " keyed_cancel=", yes_no(keyed_cancel));
}

absl::StatusOr<Features> probe_features(RingsMode mode) {
  if (absl::Status access = check_io_uring_access(); !access.ok()) return access;
  auto ring = Ring::open({.submission_entries = 8, .completion_entries = 16});
  if (!ring.ok()) return ring.status();
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  if (!probe_plain(**ring, pool)) {
    return absl::UnavailableError(
        "this kernel's io_uring cannot receive into provided-buffer rings; Sluice needs Linux 6.6 or newer");
  }
  if (!probe_cancel(**ring, pool, /*keyed=*/false)) {
    return absl::UnavailableError(
        "this kernel's io_uring cannot cancel the receives of a descriptor; Sluice needs Linux 6.6 or newer");
  }
  Features features;
  features.bundles = mode != RingsMode::kPlain && probe_bundles(**ring, pool);
  features.zero_copy = probe_zero_copy(**ring);
  features.keyed_cancel = probe_cancel(**ring, pool, /*keyed=*/true);
  if (mode != RingsMode::kPlain) {
    const bool incremental = probe_incremental(**ring, pool, 0);
    features.in_order = incremental && probe_order(**ring, pool);
    features.incremental = features.in_order;
    features.min_left = features.incremental && probe_incremental(**ring, pool, 512);
  }
  if (mode == RingsMode::kIncremental && !features.incremental) {
    return absl::UnavailableError(
        "--rings=incremental: incremental buffer rings do not work on this kernel (they need Linux 6.12, and "
        "completions in the order in which buffers are filled); use --rings=auto or --rings=plain");
  }
  return features;
}

}  // namespace sluice
