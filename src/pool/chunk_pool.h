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
#include "pool/budget.h"
#include "pool/check.h"
#include "pool/chunk.h"
#include "pool/free_stack.h"
#include "pool/leak_stacks.h"
#include "pool/metadata_memory.h"
#include "pool/poison.h"
#include "pool/tier.h"

namespace sluice {

/// A worker's chunks: one last-in-first-out free list per tier over one arena.
///
/// `get` and the statistics belong to the home thread, the one on which the pool is current (`ChunkPool::Use`). A chunk
/// may be released on any thread: at home it goes onto its free list; elsewhere it is pushed onto the pool's
/// remote_frees with one compare-and-swap, and the home takes the whole remote_frees at once when a list runs dry or
/// the worker's loop asks.
///
/// In debug builds and under a sanitizer one chunk in four that is released goes to a random place of its free list, so
/// that nothing comes to depend on the order of reuse; and the beginning of a free chunk is overwritten with a pattern,
/// so that who writes to it all the same is found out when it is taken again.
///
///     ChunkPool pool({.budget_bytes = 64 << 20});
///     ChunkPool::Use use(&pool);
///     if (ChunkRef chunk = ChunkRef::take(pool.get(1500))) std::memcpy(chunk.data(), packet, 1500);
class ChunkPool {
 public:
  /// Where chunks come from: the arena, or malloc for each get and free for each put, with the same accounting, to
  /// measure what the arena is worth. From the heap, chunks of a page or more do not begin with a page.
  enum class Source : uint8_t { kArena, kHeap };

  struct Options {
    size_t budget_bytes = size_t{256} << 20;  ///< Bound on the capacity of all chunks that are out at once.
    size_t reserve_bytes = 0;  ///< The part of the budget that only get_reserved() may use. Less than the budget.
    bool huge_pages = false;
    Source source = Source::kArena;
    /// Keeps the call stack of every Nth chunk that is out, for the leak report. 0: none, unless SLUICE_LEAK_STACKS=N
    /// is in the environment.
    uint32_t stack_every = 0;
    /// A bound that several pools share, on top of each one's own, or null. It outlives the pool.
    Budget* shared = nullptr;
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
    uint64_t refused = 0;          ///< get() calls that met the budget, or the shared one.
    uint64_t refused_shared = 0;   ///< ... of which the shared one.
    uint64_t pressures = 0;        ///< How often the high mark was passed.
    uint64_t freed_remotely = 0;   ///< Chunks that were released on another thread.
    uint64_t discarded_bytes = 0;  ///< Given back to the system because unused for two ageing periods.
  };

  /// Reserves addresses: twice the budget, and some slabs. Where that fails (a `ulimit -v`, for example) its chunks
  /// come from the heap, within the same budget: `source()` tells.
  explicit ChunkPool(Options options);
  /// Takes the remote_frees, then reports chunks that did not come home to stderr. Their memory is left mapped, since
  /// somebody still points into it, and they never come home any more; `leaked()` beforehand tells how many there are.
  /// Precondition: no other thread is just releasing or sharing one of its chunks.
  ~ChunkPool();
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;

  /// A chunk of at least `bytes` with reference count 1, its contents unspecified, or null when the budget less its
  /// reserve is met. Precondition: bytes <= kMaxChunkBytes.
  Chunk* get(size_t bytes) {
    SLUICE_CHECK(bytes <= kMaxChunkBytes);
    return get_tier(tier_for(bytes));
  }

  Chunk* get_tier(int tier) {
    Tier& t = tiers_[static_cast<size_t>(tier)];
    const size_t out_bytes = out_bytes_ + tier_bytes(tier);
    if (t.free.empty() || out_bytes > fast_get_limit_) [[unlikely]]
      return get_slow(tier);
    return hand_out(t, tier, out_bytes);
  }

  /// Like get, but may use the reserve: for what keeps everybody served when a few have taken the rest.
  [[gnu::noinline]] Chunk* get_reserved(size_t bytes);

  /// Like get, but beyond the budget if need be: for the few bytes of bookkeeping without which chunks that are already
  /// out could not be kept in order. Never null.
  [[gnu::noinline]] Chunk* get_metadata(size_t bytes);

  /// Brings home what was released on other threads. Home thread only.
  void take_remote_frees() {
    // Sequential consistency: after wake_on_return(true) it must not look before the flag can be seen (post_to_inbox).
    if (remote_frees_.load(std::memory_order_seq_cst) != nullptr) [[unlikely]]
      take_inbox_slow();
  }

  /// Ends an ageing period; call it from a timer. What was not used for two periods may then be trimmed.
  void age();
  /// Returns up to about `max_bytes` of old memory to the system. True if there may be more: call again later, so that
  /// a large pool does not stall its worker. A chunk that it looks at, or sorts out with its slab, counts as its size.
  bool trim(size_t max_bytes);
  /// Returns all memory at once that no chunk in use needs. As long as that takes.
  void trim_all();

  /// Bytes that get() can still hand out. 0: the reserve is in use.
  size_t headroom_bytes() const { return open_bytes_ > out_bytes_ ? open_bytes_ - out_bytes_ : 0; }
  /// Bytes that get_reserved() can still hand out.
  size_t reserved_headroom_bytes() const { return budget_bytes_ > out_bytes_ ? budget_bytes_ - out_bytes_ : 0; }
  size_t budget_bytes() const { return budget_bytes_; }
  size_t reserve_bytes() const { return budget_bytes_ - open_bytes_; }
  /// Where chunks come from: Options::source, or the heap if no addresses could be reserved for an arena.
  Source source() const { return source_; }
  size_t out_bytes() const { return out_bytes_; }
  /// As Stats::mapped_bytes.
  size_t mapped_bytes() const {
    return source_ == Source::kHeap ? out_bytes_ : arena_.slabs_taken() * Arena::kSlabBytes;
  }
  Stats stats() const;
  /// Chunks that are out, counting those on their way home as out only until take_remote_frees.
  uint64_t leaked() const;
  /// Writes to stderr what is out, and where it was taken as far as stacks were kept. Nothing when nothing is out.
  void report_leaks() const;

  /// Called with `high` true once out_bytes() has risen above `high_bytes`, and then with false once it has fallen
  /// below `low_bytes`; and so on. On the home thread, out of the get or put that did it (or out of set_pressure
  /// itself, if the mark is passed already); it may use the pool. A null function ends it. Precondition: low_bytes <=
  /// high_bytes.
  using PressureFunction = sluice::PressureFunction;
  void set_pressure(size_t high_bytes, size_t low_bytes, PressureFunction function, void* context);

  /// Called (on the releasing thread) when the remote_frees turns from empty to occupied while `wake_on_return(true)`
  /// is set: lets a worker that sleeps with parked connections hear of chunks that came home.
  using WakeFunction = void (*)(void* context);
  void set_wake(WakeFunction wake, void* context) { wake_ = wake, wake_context_ = context; }
  void wake_on_return(bool on) { wake_wanted_.store(on, std::memory_order_seq_cst); }

  /// The pool of this thread, or null.
  static ChunkPool* current() { return current_; }

  /// Makes a pool the current one of this thread for the lifetime of the object. Nests; the pool that was current
  /// before must still be there at its end.
  class Use {
   public:
    explicit Use(ChunkPool* pool) : previous_(current_) { set_current(pool); }
    ~Use() { set_current(previous_); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ChunkPool* previous_;
  };

 private:
  friend void chunk_go_home(Chunk* chunk);

  // What get and put use comes first, in one cache line; the size is a power of two for the sake of indexing.
  struct alignas(128) Tier {
    uint32_t out = 0;
    uint32_t out_peak = 0;
    uint16_t carving = Arena::kNoSlab;  // The slab that new chunks are cut from.
    FreeStack free;
  };
  struct Slab {
    MetadataMemory<Chunk> headers;  // Begun one by one, as chunks are cut.
    uint32_t carved = 0;
    uint32_t unused = 0;  // Discarded chunks on the free list, and those that FreeStack::forget_taken did not tell yet.
    uint32_t free = 0;    // Scratch of reclaim.
    uint8_t tier = 0;
  };
  struct HeapLink {
    HeapLink* previous;
    HeapLink* next;
  };
  struct HeapChunk;  // A chunk, its link, and its bytes behind them.

  // `out_bytes`: what will then be out.
  Chunk* hand_out(Tier& t, int tier, size_t out_bytes) {
    account_out(t, out_bytes);
    Chunk* chunk = t.free.pop();
    chunk->refs.store(1, std::memory_order_relaxed);
    unpoison(chunk->data, tier_bytes(tier));
    if constexpr (kDebugChecks) check_pattern(chunk->data);
    return chunk;
  }
  void account_out(Tier& t, size_t out_bytes) {
    out_bytes_ = out_bytes;
    if (out_bytes > out_bytes_peak_) out_bytes_peak_ = out_bytes;
    const uint32_t out = ++t.out;
    if (out > t.out_peak) t.out_peak = out;
  }
  // Inlined where it counts, which a compiler does not know.
  [[gnu::always_inline]] void put_home(Chunk* chunk) {
    const int tier = chunk->tier;
    Tier& t = tiers_[static_cast<size_t>(tier)];
    if constexpr (kDebugChecks) write_pattern(chunk->data);
    poison(chunk->data, tier_bytes(tier));
    --t.out;
    out_bytes_ -= tier_bytes(tier);
    if constexpr (kDebugChecks) {
      const uint32_t random = next_random();
      if (random % 4 == 0) return t.free.push_anywhere(chunk, random / 4);
    }
    t.free.push(chunk);
  }
  uint32_t next_random() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 17;
    return random_ ^= random_ << 5;
  }

  [[gnu::noinline]] Chunk* get_slow(int tier);
  Chunk* get_within(int tier, size_t limit_bytes, const void* caller);
  Chunk* get_any(Tier& t, int tier, const void* caller);
  Chunk* get_from_heap(Tier& t, int tier);
  void put_seen(Chunk* chunk);
  void put_on_heap(Chunk* chunk);
  void choose_paths();
  bool carve(Tier& t, int tier);
  void post_to_inbox(Chunk* chunk);
  void take_inbox_slow();
  uint16_t take_slab();
  bool take_shared(size_t bytes);
  void give_back_shared(size_t bytes);
  void retire(size_t slab);
  bool retire_unused_slabs(size_t max_bytes, size_t& done);
  bool reclaim();
  void set_reclaim_failed(bool failed);

  // The pool of this thread; and the same pool if a chunk may be put there unseen, by put_home alone, else kNowhere.
  // The second is what chunk_go_home looks at first: a put that must be seen costs the others nothing.
  static inline constinit thread_local ChunkPool* current_ = nullptr;
  static inline const char kNowhere = 0;
  static inline constinit thread_local const void* fast_put_pool_of_thread_ = &kNowhere;
  static void set_current(ChunkPool* pool) {
    current_ = pool;
    fast_put_pool_of_thread_ = pool ? pool->fast_put_pool_ : &kNowhere;
  }

  std::array<Tier, kTierCount> tiers_;
  size_t out_bytes_ = 0;
  size_t out_bytes_peak_ = 0;
  size_t fast_get_limit_ = 0;              // A get up to here needs no look at anything else; see choose_paths.
  const void* fast_put_pool_ = &kNowhere;  // This pool, while nobody needs to see what comes home.
  size_t budget_bytes_;
  size_t open_bytes_;  // The budget less the reserve.
  Source source_;
  uint32_t random_ = 0x9e3779b9;
  uint64_t refused_ = 0;
  uint64_t refused_shared_ = 0;
  uint64_t came_home_ = 0;
  uint64_t discarded_bytes_ = 0;

  // A search for free slabs is not worth repeating per chunk: after one in vain, not before some chunks came home.
  bool reclaim_failed_ = false;
  uint64_t puts_until_reclaim_ = 0;

  bool pressed_ = false;  // The high mark was passed, and the low one not yet.
  uint64_t pressures_ = 0;
  size_t pressure_high_ = SIZE_MAX;
  size_t pressure_low_ = 0;
  PressureFunction pressure_ = nullptr;
  void* pressure_context_ = nullptr;

  Budget* shared_;
  size_t shared_bytes_ = 0;      // Taken from it.
  uint64_t shared_refused_ = 0;  // Its figure at the last ageing.
  bool met_shared_ = false;      // The last attempt to take from it failed.

  std::unique_ptr<LeakStacks> stacks_;
  HeapLink heap_{&heap_, &heap_};  // The chunks that are out, with Source::kHeap.

  Arena arena_;
  std::vector<Slab> slabs_;
  std::vector<uint16_t> retired_;  // Slabs without chunks, whose pages were not yet given back.
  bool unused_slabs_ = false;      // There may be some to retire.

  // Other threads write here; its own cache line keeps them off the fields above.
  alignas(64) std::atomic<Chunk*> remote_frees_{nullptr};
  std::atomic<bool> wake_wanted_{false};
  WakeFunction wake_ = nullptr;
  void* wake_context_ = nullptr;
};

/// An owning reference to a chunk on its way from a pool to whoever writes to it, a `Lease` mostly. Move-only, and it
/// cannot be shared: windows can, which say what of the chunk may be written (`Lease::split_off`, `View::clone`).
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

  explicit operator bool() const { return chunk_ != nullptr; }
  Chunk* get() const { return chunk_; }
  std::byte* data() const { return chunk_->data; }
  size_t capacity() const { return chunk_capacity(*chunk_); }
  bool unique() const { return chunk_unique(chunk_); }
  /// Whether nobody else refers to the chunk and its memory may be written.
  bool writable() const { return chunk_writable(chunk_); }
  /// Gives the reference to the caller.
  Chunk* release() {
    Chunk* chunk = chunk_;
    chunk_ = nullptr;
    return chunk;
  }

 private:
  friend class Lease;
  friend class View;
  explicit ChunkRef(Chunk* chunk) : chunk_(chunk) {}
  ChunkRef share() {
    if (chunk_) chunk_ref(chunk_);
    return ChunkRef(chunk_);
  }
  // Whether a window may be made of [offset, offset + size).
  bool has(size_t offset, size_t size) const {
    return chunk_ ? offset <= capacity() && size <= capacity() - offset : size == 0;
  }
  Chunk* chunk_ = nullptr;
};

}  // namespace sluice
