#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "pool/arena.h"
#include "pool/check.h"
#include "pool/chunk.h"
#include "pool/free_stack.h"
#include "pool/poison.h"
#include "pool/tier.h"

namespace sluice {

/// A worker's chunks: one last-in-first-out free list per tier over one arena.
///
/// `get` and the statistics belong to the home thread, the one on which the pool is current (`ChunkPool::Use`). A chunk
/// may be released on any thread: at home it goes onto its free list; elsewhere it is pushed onto the pool's inbox with
/// one compare-and-swap, and the home takes the whole inbox at once when a list runs dry or the worker's loop asks.
///
///     ChunkPool pool({.budget_bytes = 64 << 20});
///     ChunkPool::Use use(&pool);
///     if (ChunkRef chunk = ChunkRef::take(pool.get(1500))) std::memcpy(chunk.data(), packet, 1500);
class ChunkPool {
 public:
  struct Options {
    size_t budget_bytes = size_t{256} << 20;  ///< Bound on the capacity of all chunks that are out at once.
    bool huge_pages = false;
  };

  /// Figures of one moment. `out` counts chunks that somebody holds; bytes are capacities.
  struct Stats {
    struct Tier {
      uint32_t out = 0;
      uint32_t out_peak = 0;
      uint32_t free = 0;
    };
    std::array<Tier, kTierCount> tiers{};
    size_t out_bytes = 0;
    size_t out_bytes_peak = 0;
    size_t budget_bytes = 0;
    size_t mapped_bytes = 0;       ///< Slabs taken from the arena; an upper bound of the resident memory.
    uint64_t refused = 0;          ///< get() calls that met the budget.
    uint64_t came_home = 0;        ///< Chunks that were released on another thread.
    uint64_t discarded_bytes = 0;  ///< Given back to the system because unused for two ageing periods.
  };

  explicit ChunkPool(Options options);
  /// Takes the inbox, then reports chunks that did not come home to stderr. Their memory is left mapped, since somebody
  /// still points into it, and they never come home any more; `leaked()` beforehand tells how many there are.
  /// Precondition: no other thread is just releasing one of its chunks.
  ~ChunkPool();
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;

  /// A chunk of at least `bytes` with reference count 1, its contents unspecified, or null when the budget is met.
  /// Precondition: bytes <= kMaxChunkBytes.
  Chunk* get(size_t bytes) {
    SLUICE_CHECK(bytes <= kMaxChunkBytes);
    return get_tier(tier_for(bytes));
  }

  Chunk* get_tier(int tier) {
    Tier& t = tiers_[static_cast<size_t>(tier)];
    if (t.free.empty() || out_bytes_ + tier_bytes(tier) > budget_bytes_) [[unlikely]]
      return get_slow(tier);
    return hand_out(t, tier);
  }

  /// Like get, but beyond the budget if need be: for the few bytes of bookkeeping without which chunks that are already
  /// out could not be kept in order. Never null.
  Chunk* get_metadata(size_t bytes);

  /// Brings home what was released on other threads. Home thread only.
  void take_inbox() {
    // Sequential consistency: after wake_on_return(true) it must not look before the flag can be seen (post_to_inbox).
    if (inbox_.load(std::memory_order_seq_cst) != nullptr) [[unlikely]]
      take_inbox_slow();
  }

  /// Ends an ageing period; call it from a timer. What was not used for two periods may then be trimmed.
  void age();
  /// Returns up to about `max_bytes` of old memory to the system. True if there may be more: call again later, so that
  /// a large pool does not stall its worker.
  bool trim(size_t max_bytes);

  /// Bytes that can still be handed out.
  size_t headroom_bytes() const { return budget_bytes_ > out_bytes_ ? budget_bytes_ - out_bytes_ : 0; }
  size_t budget_bytes() const { return budget_bytes_; }
  size_t out_bytes() const { return out_bytes_; }
  Stats stats() const;
  /// Chunks that are out, counting those on their way home as out only until take_inbox.
  uint64_t leaked() const;

  /// Called (on the releasing thread) when the inbox turns from empty to occupied while `wake_on_return(true)` is set:
  /// lets a worker that sleeps with parked connections hear of chunks that came home.
  using WakeFunction = void (*)(void* context);
  void set_wake(WakeFunction wake, void* context) { wake_ = wake, wake_context_ = context; }
  void wake_on_return(bool on) { wake_wanted_.store(on, std::memory_order_seq_cst); }

  /// The pool of this thread, or null.
  static ChunkPool* current() { return current_; }

  /// Makes a pool the current one of this thread for the lifetime of the object. Nests.
  class Use {
   public:
    explicit Use(ChunkPool* pool) : previous_(current_) { current_ = pool; }
    ~Use() { current_ = previous_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ChunkPool* previous_;
  };

 private:
  friend void chunk_go_home(Chunk* chunk);

  struct Tier {
    FreeStack free;
    uint32_t out = 0;
    uint32_t out_peak = 0;
    uint16_t carving = Arena::kNoSlab;  // The slab that new chunks are cut from.
    uint32_t newly_discarded = 0;       // Since the last search for wholly unused slabs.
  };
  struct FreeHeaders {
    void operator()(Chunk* headers) const { ::operator delete(headers); }
  };
  struct Slab {
    std::unique_ptr<Chunk[], FreeHeaders> headers;  // Begun one by one, as chunks are cut.
    uint32_t carved = 0;
    uint32_t unused = 0;  // Scratch of retire_slabs.
    uint8_t tier = 0;
  };

  Chunk* hand_out(Tier& t, int tier) {
    Chunk* chunk = t.free.pop();
    account_out(t, tier);
    chunk->refs.store(1, std::memory_order_relaxed);
    unpoison(chunk->data, tier_bytes(tier));
    return chunk;
  }
  void account_out(Tier& t, int tier) {
    out_bytes_ += tier_bytes(tier);
    if (out_bytes_ > out_bytes_peak_) out_bytes_peak_ = out_bytes_;
    if (++t.out > t.out_peak) t.out_peak = t.out;
  }
  void put_home(Chunk* chunk) {
    const int tier = chunk->tier;
    Tier& t = tiers_[static_cast<size_t>(tier)];
    poison(chunk->data, tier_bytes(tier));
    --t.out;
    out_bytes_ -= tier_bytes(tier);
    t.free.push(chunk);
  }

  Chunk* get_slow(int tier);
  Chunk* get_any(Tier& t, int tier);
  bool carve(Tier& t, int tier);
  void post_to_inbox(Chunk* chunk);
  void take_inbox_slow();
  uint16_t take_slab();
  bool retire_slabs(int tier, size_t among);
  bool reclaim();

  static inline constinit thread_local ChunkPool* current_ = nullptr;

  std::array<Tier, kTierCount> tiers_;
  size_t budget_bytes_;
  size_t out_bytes_ = 0;
  size_t out_bytes_peak_ = 0;
  uint64_t refused_ = 0;
  uint64_t came_home_ = 0;
  uint64_t discarded_bytes_ = 0;
  bool reclaim_failed_ = false;  // Until the next ageing: a search for free slabs is not worth repeating per chunk.
  Arena arena_;
  std::vector<Slab> slabs_;
  std::vector<uint16_t> retired_;  // Slabs without chunks, whose pages were not yet given back.

  // Other threads write here; its own cache line keeps them off the fields above.
  alignas(64) std::atomic<Chunk*> inbox_{nullptr};
  std::atomic<bool> wake_wanted_{false};
  WakeFunction wake_ = nullptr;
  void* wake_context_ = nullptr;
};

/// An owning reference to a chunk. Move-only; sharing is explicit.
class ChunkRef {
 public:
  ChunkRef() = default;
  /// Adopts a reference that the caller owns (null gives an empty ChunkRef).
  static ChunkRef take(Chunk* chunk) { return ChunkRef(chunk); }
  ChunkRef(ChunkRef&& other) noexcept : chunk_(other.release()) {}
  ChunkRef& operator=(ChunkRef&& other) noexcept {
    ChunkRef old(std::exchange(chunk_, other.release()));
    return *this;
  }
  ~ChunkRef() {
    if (chunk_) chunk_unref(chunk_);
  }

  ChunkRef share() const {
    if (chunk_) chunk_ref(chunk_);
    return ChunkRef(chunk_);
  }
  explicit operator bool() const { return chunk_ != nullptr; }
  Chunk* get() const { return chunk_; }
  std::byte* data() const { return chunk_->data; }
  size_t capacity() const { return chunk_capacity(*chunk_); }
  bool unique() const { return chunk_unique(chunk_); }
  /// Gives the reference to the caller.
  Chunk* release() {
    Chunk* chunk = chunk_;
    chunk_ = nullptr;
    return chunk;
  }

 private:
  explicit ChunkRef(Chunk* chunk) : chunk_(chunk) {}
  Chunk* chunk_ = nullptr;
};

}  // namespace sluice
