#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "sluice/budget.h"
#include "sluice/chunk.h"
#include "sluice/internal/budget_share.h"
#include "sluice/internal/check.h"
#include "sluice/internal/free_stack.h"
#include "sluice/tier.h"

namespace sluice::inline v0_1 {

/// A worker's chunks: one last-in, first-out free list per tier, over one arena.
///
/// `get` and the statistics belong to the home thread, the one on which the pool is current (`ChunkPool::Use`). A chunk
/// may be released on any thread. On the home thread it goes onto its free list. On other threads it is pushed onto the
/// list of remote frees with one compare-and-swap; the home thread takes the whole list when a free list is empty or
/// the worker's loop calls take_remote_frees.
///
/// A pool that checks puts one released chunk in four at a random position in its free list, so that no code comes to
/// depend on the order of reuse. The start of a free chunk is overwritten with a pattern; a write after the last
/// release is detected when the chunk is taken again. All pools check where the library was built for debugging or with
/// a sanitizer, and in programs that are linked with AddressSanitizer, which then also reports each use of a free
/// chunk. How the code that uses a pool was compiled makes no difference.
///
///     ChunkPool pool({.budget_bytes = 64 << 20});
///     ChunkPool::Use use(&pool);
///     if (ChunkRef chunk = ChunkRef::take(pool.get(1500))) std::memcpy(chunk.data(), packet, 1500);
class ChunkPool {
  struct Store;

 public:
  /// Where chunks come from: the arena, or malloc and free for each chunk with the same accounting, to measure the
  /// benefit of the arena. Heap chunks of a page or more are not page-aligned.
  enum class Source : uint8_t { kArena, kHeap };

  struct Options {
    size_t budget_bytes = size_t{256} << 20;  ///< Bound on the total capacity of all outstanding chunks.
    size_t reserve_bytes = 0;  ///< The part of the budget that only get_reserved() may use. At most the budget.
    bool huge_pages = false;
    Source source = Source::kArena;
    /// Keeps the call stack of every Nth outstanding chunk for the leak report. 0: none, unless SLUICE_LEAK_STACKS=N is
    /// set in the environment.
    uint32_t stack_every = 0;
    /// A bound shared with other pools, in addition to this pool's own budget, or null. It must outlive the pool.
    Budget* shared = nullptr;
    /// What pools lend one another of their budgets, or null. `budget_bytes` is then what this pool is guaranteed. All
    /// but `kept_bytes` of it is lent as long as this pool does not need it, and this pool borrows what the others do
    /// not need, in steps, when settle() is called. Together, the pools use no more than their kept bytes and those of
    /// `common`, which must have at least what they lend (`budget_bytes - kept_bytes` of each) and must outlive them.
    Budget* common = nullptr;
    size_t kept_bytes = 0;
    /// Memory of the caller to take chunks from, such as buffers that were registered with the kernel or mapped for a
    /// device; none by default. It is cut into slabs of 256 KiB; a rest at the end is not used. The budget is at most
    /// what the slabs hold. The pool keeps its records elsewhere, and never returns pages of it to the system: trim()
    /// only lets other sizes of chunks use them. What goes beyond the memory (get_metadata(), windows of long buffers)
    /// comes from the heap.
    ///
    /// The memory must be writable, and stay valid and in place until `release` is called: once, by ~ChunkPool on the
    /// thread that destroys the pool. If chunks are still in use then, it is not called, and the memory must stay for
    /// good. Without a `release`, the memory must outlive the pool. Precondition: data is aligned to 4,096 bytes, bytes
    /// >= 256 KiB, source is kArena, and there is no common budget.
    struct Memory {
      std::byte* data = nullptr;
      size_t bytes = 0;
      ReleaseFunction release = nullptr;  ///< Called with `context`, `data` and `bytes` as they were given.
      void* context = nullptr;
    } memory = {};
  };

  /// A snapshot. `out` counts outstanding chunks; bytes are capacities.
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
    size_t mapped_bytes = 0;       ///< Slabs taken from the arena; an upper bound on resident memory.
    uint64_t refused = 0;          ///< get() calls refused by the budget or the shared budget.
    uint64_t refused_shared = 0;   ///< ... of those, refused by the shared budget.
    uint64_t pressures = 0;        ///< How often the high mark was crossed.
    uint64_t freed_remotely = 0;   ///< Chunks released on another thread.
    uint64_t discarded_bytes = 0;  ///< Returned to the system after two aging periods without use.
  };

  /// Reserves addresses: twice the budget and a few slabs more. If that fails (for example under `ulimit -v`), chunks
  /// come from the heap within the same budget, and `source()` returns kHeap.
  /// With `common`, the budget is all that the pool could borrow; where there are fewer addresses, it borrows less.
  explicit ChunkPool(Options options);
  /// Takes the remote frees, then reports outstanding chunks to stderr. Their memory stays mapped, since something
  /// still points into it, and they are never returned; call `leaked()` beforehand for their number. Precondition: no
  /// other thread is releasing or sharing one of the pool's chunks.
  ~ChunkPool();
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;

  /// Returns a chunk of at least `bytes` with reference count 1 and unspecified contents, or null when the budget minus
  /// the reserve is used up. Precondition: bytes <= kMaxChunkBytes.
  Chunk* get(size_t bytes) {
    SLUICE_CHECK(bytes <= kMaxChunkBytes);
    return get_tier(tier_for(bytes));
  }

  Chunk* get_tier(int tier) {
    Tier& t = tiers_[static_cast<size_t>(tier)];
    const size_t out_bytes = out_bytes_ + tier_bytes(tier);
    if (t.free.empty() || out_bytes > fast_get_limit_) [[unlikely]]
      return get_slow(tier);
    return hand_out(t, out_bytes);
  }

  /// Like get, but may use the reserve, which keeps all connections served when a few have taken the rest.
  [[gnu::noinline]] Chunk* get_reserved(size_t bytes);

  /// Like get, but may exceed the budget. Meant for the few bytes of bookkeeping that manage chunks already handed out.
  /// Never null.
  [[gnu::noinline]] Chunk* get_metadata(size_t bytes);

  /// Moves chunks that other threads released onto the free lists. Home thread only.
  void take_remote_frees() {
    // Sequential consistency: after wake_on_remote_free(true) this load must not happen before other threads can see
    // the flag (push_remote_free).
    if (remote_frees_.load(std::memory_order_seq_cst) != nullptr) [[unlikely]]
      take_remote_frees_slow();
  }

  /// Ends an aging period; call it from a timer. Memory unused for two periods may then be trimmed.
  void age();
  /// Returns up to about `max_bytes` of old memory to the system. True if there may be more: call again later, so that
  /// a large pool does not stall its worker. Examining a chunk or retiring it with its slab also counts toward
  /// `max_bytes`.
  bool trim(size_t max_bytes);
  /// Returns all memory that no outstanding chunk needs to the system, however long that takes.
  void trim_all();

  /// Bytes that get() can still hand out. 0 means that the reserve is in use.
  size_t headroom_bytes() const { return open_bytes_ > out_bytes_ ? open_bytes_ - out_bytes_ : 0; }
  /// Bytes that get_reserved() can still hand out.
  size_t reserved_headroom_bytes() const { return budget_bytes_ > out_bytes_ ? budget_bytes_ - out_bytes_ : 0; }
  /// With a common budget, what the pool may use as things are: what it is guaranteed and what it could borrow.
  size_t budget_bytes() const { return budget_bytes_; }
  size_t reserve_bytes() const { return budget_bytes_ - open_bytes_; }
  /// With a common budget: takes and gives back what is due, and adapts the budget and the reserve. Call it once for
  /// each turn of a worker's loop, and again within milliseconds while needs_settling(). Home thread only.
  void settle() {
    if (share_) [[unlikely]]
      settle_share();
  }
  /// Whether memory is borrowed or awaited, so that what other pools do matters to this one.
  bool needs_settling() const { return share_ && (share_->borrowed_bytes() > 0 || share_->claims()); }
  /// This pool's part of the common budget, or null.
  const BudgetShare* share() const { return share_; }
  /// Bytes in use that have to be freed because another pool claims them. As of the last settle().
  size_t recalled_bytes() const {
    return share_ && share_->recalled() && out_bytes_ > budget_bytes_ ? out_bytes_ - budget_bytes_ : 0;
  }
  /// Where chunks come from: Options::source, or the heap if the arena could not reserve addresses.
  Source source() const { return source_; }
  size_t out_bytes() const { return out_bytes_; }
  /// Same value as Stats::mapped_bytes.
  size_t mapped_bytes() const;
  Stats stats() const;
  /// Number of outstanding chunks. Remote frees count as outstanding until take_remote_frees.
  uint64_t leaked() const;
  /// Writes the outstanding chunks to stderr, with the call stacks that were kept. Writes nothing if there are none.
  void report_leaks() const;

  /// Callback for memory pressure. It runs with `high` true when out_bytes() rises above `high_bytes`, then with false
  /// when out_bytes() falls below `low_bytes`, and so on alternately. It runs on the home thread, inside the get or put
  /// that crossed the mark (or inside set_pressure if the high mark is exceeded already), and may use the pool. A null
  /// function removes the callback. Precondition: low_bytes <= high_bytes.
  using PressureFunction = sluice::PressureFunction;
  void set_pressure(size_t high_bytes, size_t low_bytes, PressureFunction function, void* context);

  /// Callback for each chunk that is handed out, for a profiler: `bytes` is the chunk's capacity, `caller` the return
  /// address of the pool's function, so a place in the code that takes the chunk. It runs on the home thread, inside
  /// that function, and must not use the pool. A null function removes the callback; without one it costs nothing. Home
  /// thread only.
  using TakeFunction = void (*)(void* context, size_t bytes, const void* caller);
  void set_take(TakeFunction function, void* context);

  /// Callback that runs on the releasing thread when the list of remote frees becomes non-empty while
  /// `wake_on_remote_free(true)` is set. It wakes a sleeping worker that has parked connections.
  using WakeFunction = void (*)(void* context);
  void set_wake(WakeFunction wake, void* context) { wake_ = wake, wake_context_ = context; }
  void wake_on_remote_free(bool on) { wake_wanted_.store(on, std::memory_order_seq_cst); }

  /// The current pool of this thread, or null.
  static ChunkPool* current() { return current_; }

  /// Makes a pool the current one of this thread for the lifetime of the object. Uses nest; the previous pool must
  /// still exist when the object is destroyed.
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
  friend void chunk_return(Chunk* chunk);

  static constexpr uint16_t kNoSlab = 0xffff;

  // The fields that get and put use come first, in one cache line. The size is a power of two to make indexing cheap.
  struct alignas(128) Tier {
    uint32_t out = 0;
    uint32_t out_peak = 0;
    uint16_t carving = kNoSlab;  // The slab that new chunks are cut from.
    FreeStack free;
  };
  struct HeapLink {
    HeapLink* previous;
    HeapLink* next;
  };
  struct HeapChunk;  // A chunk and its link, followed by the chunk's bytes.

  // What is inline here is the same in all builds: checks are made in chunk_pool.cc, where choose_paths sends all gets
  // and puts of a pool that checks.

  // `out_bytes`: the new value of out_bytes_.
  Chunk* hand_out(Tier& t, size_t out_bytes) {
    account_out(t, out_bytes);
    Chunk* chunk = t.free.pop();
    chunk->refs.store(1, std::memory_order_relaxed);
    return chunk;
  }
  void account_out(Tier& t, size_t out_bytes) {
    out_bytes_ = out_bytes;
    if (out_bytes > out_bytes_peak_) out_bytes_peak_ = out_bytes;
    const uint32_t out = ++t.out;
    if (out > t.out_peak) t.out_peak = out;
  }
  // Compilers do not inline this in the hot callers by themselves.
  [[gnu::always_inline]] void put_home(Chunk* chunk) {
    const int tier = chunk->tier;
    Tier& t = tiers_[static_cast<size_t>(tier)];
    --t.out;
    out_bytes_ -= tier_bytes(tier);
    t.free.push(chunk);
  }

  [[gnu::noinline]] Chunk* get_slow(int tier);
  Chunk* hand_out_checked(Tier& t, int tier, size_t out_bytes);
  void put_checked(Chunk* chunk);
  Chunk* get_within(int tier, size_t limit_bytes, const void* caller);
  Chunk* get_any(Tier& t, int tier, const void* caller);
  Chunk* get_from_heap(Tier& t, int tier);
  void put_slow(Chunk* chunk);
  void put_on_heap(Chunk* chunk);
  void choose_paths();
  void abandon();
  bool carve(Tier& t, int tier);
  void push_remote_free(Chunk* chunk);
  void push_remote_free_under_tsan(Chunk* chunk);
  inline void link_remote_free(Chunk* chunk);  // In chunk_pool.cc.
  void take_remote_frees_slow();
  uint16_t take_slab();
  bool take_shared(size_t bytes);
  void give_back_shared(size_t bytes);
  void retire(size_t slab);
  bool retire_unused_slabs(size_t max_bytes, size_t& done);
  bool reclaim();
  void set_reclaim_failed(bool failed);
  bool hold(size_t bytes);
  void settle_share();

  // `fast_put_pool_of_thread_` is the current pool if put_home alone suffices to release a chunk to it, else kNowhere.
  // chunk_return checks it first, so puts that need more work cost the others nothing.
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
  size_t fast_get_limit_ = 0;     // A get that stays within this limit needs no further checks; see choose_paths.
  size_t checked_get_limit_ = 0;  // The same limit in a pool that checks, for which the other one is 0.
  const void* fast_put_pool_ = &kNowhere;  // This pool, while put_home needs no further checks; see choose_paths.
  size_t budget_bytes_;
  size_t open_bytes_;             // The budget minus the reserve.
  size_t held_bytes_ = SIZE_MAX;  // With a common budget, what may be used without a look at it.
  Source source_;
  const bool checked_;
  uint32_t random_ = 0x9e3779b9;
  uint64_t refused_ = 0;
  uint64_t refused_shared_ = 0;
  uint64_t freed_remotely_ = 0;
  uint64_t discarded_bytes_ = 0;

  // A search for free slabs is too expensive to repeat per chunk: after a failed one, wait until some chunks are
  // released.
  bool reclaim_failed_ = false;
  uint64_t puts_until_reclaim_ = 0;

  bool pressed_ = false;  // The high mark was crossed, and the low mark has not been crossed since.
  uint64_t pressures_ = 0;
  size_t pressure_high_ = SIZE_MAX;
  size_t pressure_low_ = 0;
  PressureFunction pressure_ = nullptr;
  void* pressure_context_ = nullptr;

  TakeFunction take_ = nullptr;
  void* take_context_ = nullptr;

  BudgetShare* share_ = nullptr;  // Owned; only with a common budget.
  double reserve_part_ = 0;       // Of the budget.

  Budget* shared_;
  size_t shared_bytes_ = 0;          // Taken from `shared_`.
  uint64_t shared_refused_ = 0;      // The refusal count of `shared_` at the last aging.
  bool take_shared_failed_ = false;  // The last attempt to take from `shared_` failed.

  HeapLink heap_{&heap_, &heap_};  // Outstanding chunks, with Source::kHeap.
  bool unused_slabs_ = false;      // There may be slabs to retire.
  Store* const store_;             // Owned: the slabs, and what belongs to leak reports.

  // Other threads write these fields; a separate cache line keeps the writes away from the fields above.
  alignas(64) std::atomic<Chunk*> remote_frees_{nullptr};
  std::atomic<bool> wake_wanted_{false};
  WakeFunction wake_ = nullptr;
  void* wake_context_ = nullptr;
};

/// An owning reference to a chunk, held between the pool and the chunk's writer, usually a `Lease`. Move-only. It
/// cannot be shared; windows can, because they define which bytes may be written (`Lease::split_off`, `View::clone`).
class ChunkRef {
 public:
  ChunkRef() = default;
  /// Takes over a reference that the caller owns. Null gives an empty ChunkRef.
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
  /// Whether this is the only reference to the chunk and its memory is writable.
  bool writable() const { return chunk_writable(chunk_); }
  /// Transfers the reference to the caller.
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
  // Whether [offset, offset + size) lies within the chunk.
  bool has(size_t offset, size_t size) const {
    return chunk_ ? offset <= capacity() && size <= capacity() - offset : size == 0;
  }
  Chunk* chunk_ = nullptr;
};

}  // namespace sluice::inline v0_1
