#include "proxy/profile/allocation_sampler.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/random.h"
#include "proxy/profile/stack_walk.h"
#include "proxy/profile/thread_list.h"

namespace sluice {

namespace {

// 512 KiB for each thread, used as far as they are written: some thousand samples.
constexpr size_t kPartWords = size_t{64} * 1024;
// Upper bound on the frames between sample() and the code that allocates.
constexpr size_t kHookFrames = 8;

// What a thread knows of its samples. It stays from one profile to the next: the rest of an exponential gap has the
// same distribution as a new one.
struct OwnSamples {
  uint64_t left;                 // Bytes until the next sample. 0: there was none yet.
  std::optional<Random> random;  // Once there is a sample.
  uint64_t profile;              // The number of the profile that `ring` is of.
  SampleRing* ring;              // Null: there are too many threads.
};
constinit thread_local OwnSamples own_samples{};

uint64_t seed_of_thread() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_nsec) ^ (static_cast<uint64_t>(gettid()) << 32);
}

// How many bytes of the next ones are the first that is sampled: at least 1, exponentially distributed.
uint64_t next_gap(OwnSamples& own) {
  if (!own.random) own.random.emplace(seed_of_thread());
  const double uniform = (static_cast<double>(own.random->next() >> 11) + 0.5) * 0x1p-53;  // Neither 0 nor 1.
  return 1 + static_cast<uint64_t>(-std::log(uniform) * static_cast<double>(AllocationSampler::kMeanBytes));
}

}  // namespace

// What threads see of a profile.
struct AllocationSampler::Profile {
  Profile(size_t threads, uint64_t the_number) : number(the_number) {
    for (size_t i = 0; i < threads; ++i) parts.push_back(std::make_unique<Part>(kPartWords));
  }
  SampleRing* add_thread() {
    const size_t index = claimed.fetch_add(1, std::memory_order_relaxed);
    if (index >= parts.size()) return nullptr;
    parts[index]->thread.store(gettid(), std::memory_order_release);
    return &parts[index]->ring;
  }

  const uint64_t number;
  std::vector<std::unique_ptr<Part>> parts;
  std::atomic<size_t> claimed{0};
  std::atomic<uint64_t> lost{0};  // Samples of threads without a part.
};

absl::StatusOr<std::unique_ptr<AllocationSampler>> AllocationSampler::start(Unit unit) {
  absl::StatusOr<ProfileTurn> turn = ProfileTurn::take();
  if (!turn.ok()) return turn.status();
  const absl::StatusOr<std::vector<pid_t>> threads = list_threads();
  if (!threads.ok()) return threads.status();
  find_main_stack();
  const size_t parts = std::min(threads->size() + kSpareThreads, kMaxThreads);
  return std::unique_ptr<AllocationSampler>(new AllocationSampler(*std::move(turn), unit, parts));
}

AllocationSampler::AllocationSampler(ProfileTurn turn, Unit unit, size_t threads)
    : turn_(std::move(turn)), unit_(unit), profile_([threads] {
        static uint64_t number = 0;
        return std::make_unique<Profile>(threads, ++number);
      }()) {
  current_.store(profile_.get(), std::memory_order_seq_cst);
  samples_heap_.store(true, std::memory_order_relaxed);
}

AllocationSampler::~AllocationSampler() { stop(); }

void AllocationSampler::stop() {
  samples_heap_.store(false, std::memory_order_relaxed);
  current_.store(nullptr, std::memory_order_seq_cst);
  // A microsecond, or as long as a thread gets no processor in the middle of it.
  const timespec pause{.tv_sec = 0, .tv_nsec = 50'000};
  while (users_.load(std::memory_order_seq_cst) > 0) nanosleep(&pause, nullptr);
}

// ---- On the threads that allocate ----

void AllocationSampler::follow(ChunkPool& pool) {
  pool.set_take(current_.load(std::memory_order_seq_cst) ? &note_chunk : nullptr, nullptr);
}

void AllocationSampler::note_chunk(void*, size_t bytes, const void* caller) { note(bytes, Kind::kBuffer, caller); }

void AllocationSampler::note_heap(size_t bytes, const void* caller) { note(bytes, Kind::kHeap, caller); }

inline void AllocationSampler::note(size_t bytes, Kind kind, const void* caller) {
  OwnSamples& own = own_samples;
  if (own.left == 0) [[unlikely]]
    own.left = next_gap(own);
  if (bytes < own.left) {
    own.left -= bytes;
    return;
  }
  own.left = next_gap(own);
  sample(bytes, kind, caller);
}

[[gnu::noinline]] void AllocationSampler::sample(size_t bytes, Kind kind, const void* caller) {
  OwnSamples& own = own_samples;
  // Without this, threads that come and go could keep stop() waiting.
  if (!current_.load(std::memory_order_relaxed)) return;
  // Sequential consistency: either this sees no profile, or stop() sees that it is in use.
  users_.fetch_add(1, std::memory_order_seq_cst);
  if (Profile* const profile = current_.load(std::memory_order_seq_cst)) {
    if (own.profile != profile->number) {
      own.ring = profile->add_thread();
      own.profile = profile->number;
    }
    if (own.ring) {
      const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
      const StackPlace place{.pc = reinterpret_cast<uintptr_t>(&AllocationSampler::sample),
                             .frame = frame,
                             .stack = frame,
                             .stack_end = stack_end_of_thread(frame)};
      std::array<uintptr_t, SampleRing::kMaxFrames> frames;
      const std::span<const uintptr_t> all = std::span(frames).first(walk_stack(place, frames));
      // From the code that allocates on.
      const auto hook_end = all.begin() + static_cast<std::ptrdiff_t>(std::min(kHookFrames, all.size()));
      const auto found = std::find(all.begin(), hook_end, reinterpret_cast<uintptr_t>(caller) - 1);
      own.ring->put(all.subspan(found == hook_end ? 0 : static_cast<size_t>(found - all.begin())),
                    uint64_t{bytes} << 1 | static_cast<uint64_t>(kind));
    } else {
      profile->lost.fetch_add(1, std::memory_order_relaxed);
    }
  }
  users_.fetch_sub(1, std::memory_order_seq_cst);
}

// ---- On the thread that collects ----

void AllocationSampler::take(Part& part, FoldedStacks& stacks) {
  const pid_t thread = part.thread.load(std::memory_order_acquire);
  if (thread == 0) return;
  // A thread gives itself its name some time after it has begun, and has none once it has ended.
  if (std::string name = name_of_thread(thread); !name.empty()) part.name = std::move(name);
  const std::string_view name = part.name.empty() ? "ended thread" : std::string_view(part.name);
  const std::array<std::string, 2> roots{absl::StrCat(name, ";buffers"), absl::StrCat(name, ";heap")};
  std::array<uintptr_t, SampleRing::kMaxFrames> frames;
  uint64_t weight = 0;
  while (const size_t count = part.ring.take(frames, weight)) {
    const auto bytes = static_cast<double>(weight >> 1);
    const double allocations = -1 / std::expm1(-bytes / static_cast<double>(kMeanBytes));
    total_bytes_ += static_cast<uint64_t>(bytes * allocations);
    const double sum = unit_ == Unit::kBytes ? bytes * allocations : allocations;
    stacks.add(roots[weight & 1], std::span(frames).first(count), static_cast<uint64_t>(std::llround(sum / kScale)));
  }
  const uint64_t lost = part.ring.lost();
  stacks.add_lost(lost - std::exchange(part.lost_seen, lost));
}

void AllocationSampler::collect(FoldedStacks& stacks) {
  for (auto& part : profile_->parts) take(*part, stacks);
  const uint64_t lost = profile_->lost.load(std::memory_order_relaxed);
  stacks.add_lost(lost - std::exchange(lost_seen_, lost));
}

void AllocationSampler::finish(FoldedStacks& stacks) {
  stop();
  collect(stacks);
}

}  // namespace sluice
