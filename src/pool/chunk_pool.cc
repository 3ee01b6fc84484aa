#include "sluice/chunk_pool.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "pool/arena.h"
#include "pool/leak_stacks.h"
#include "pool/sanitizer.h"
#include "sluice/internal/check.h"
#include "sluice/internal/metadata_memory.h"

#ifdef SLUICE_GDB_PRINTERS  // In the installed library: cmake/Install.cmake.
#include SLUICE_GDB_PRINTERS
#endif

namespace sluice::inline v0_1 {

namespace {

// Chunks of a page or more return their pages one by one; smaller ones only with their whole slab.
const size_t kPageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// More than an arena can hold, and far below the sizes at which sums overflow.
constexpr size_t kMaxBudgetBytes = Arena::kNoSlab * Arena::kSlabBytes;

uint32_t chunks_per_slab(int tier) { return static_cast<uint32_t>(Arena::kSlabBytes / tier_bytes(tier)); }

// The arena holds twice the budget: the budget bounds the outstanding chunks, and the free lists of other tiers may
// hold as much again until they age. Two more slabs per tier let a tiny budget serve every tier.
size_t arena_bytes(size_t budget_bytes) {
  return 2 * std::min(budget_bytes, kMaxBudgetBytes) + 2 * kTierCount * Arena::kSlabBytes;
}

Arena::Options arena_options(const ChunkPool::Options& options) {
  if (options.source == ChunkPool::Source::kHeap) return {.reserve_bytes = 0};
  if (const auto& memory = options.memory; memory.data) return {.reserve_bytes = memory.bytes, .memory = memory.data};
  const size_t most = options.common ? options.kept_bytes + options.common->bytes() : options.budget_bytes;
  return {.reserve_bytes = arena_bytes(most),
          .least_bytes = arena_bytes(options.budget_bytes),
          .huge_pages = options.huge_pages};
}

size_t budget_of(const ChunkPool::Options& options) {
  const size_t given = options.memory.bytes / Arena::kSlabBytes * Arena::kSlabBytes;
  return options.memory.data ? std::min(options.budget_bytes, given) : options.budget_bytes;
}

}  // namespace

struct ChunkPool::HeapChunk : Chunk, HeapLink {};

// Not in the header, whose users would compile all that these types need.
struct ChunkPool::Store {
  struct Slab {
    MetadataMemory<Chunk> headers;  // Constructed one by one as chunks are carved.
    uint32_t carved = 0;
    uint32_t unused = 0;  // Discarded and free, plus those that FreeStack::forget_taken has not reported yet.
    uint32_t free = 0;    // Scratch space for reclaim.
    uint8_t tier = 0;
  };

  explicit Store(const Options& options) : arena(arena_options(options)), memory(options.memory) {}

  Arena arena;
  const Options::Memory memory;  // The caller's, if any.
  std::vector<Slab> slabs;
  std::vector<uint16_t> retired;  // Slabs without chunks whose pages have not been returned yet.
  std::unique_ptr<LeakStacks> stacks;
};

ChunkPool::ChunkPool(Options options)
    : budget_bytes_(budget_of(options)),
      open_bytes_(budget_bytes_ - options.reserve_bytes),
      source_(options.source),
      checked_(kDebugChecks || under_asan()),
      shared_(options.shared),
      store_(new Store(options)) {
  static_assert(kNoSlab == Arena::kNoSlab);
  SLUICE_CHECK(options.reserve_bytes <= budget_bytes_);
  if (options.memory.data) {
    SLUICE_CHECK(reinterpret_cast<uintptr_t>(options.memory.data) % 4096 == 0);
    SLUICE_CHECK(options.memory.bytes >= Arena::kSlabBytes && source_ == Source::kArena && !options.common);
  }
  if (!store_->arena.reserved()) source_ = Source::kHeap;
  const uint32_t every = options.stack_every ? options.stack_every : LeakStacks::every_from_environment();
  if (every) store_->stacks = std::make_unique<LeakStacks>(every);
  if (shared_) shared_refused_ = shared_->refused();
  if (options.common) {
    // In the heap it may borrow all that there is.
    const size_t most = source_ == Source::kHeap ? SIZE_MAX : store_->arena.slab_limit() * Arena::kSlabBytes / 2;
    share_ = new BudgetShare(
        *options.common,
        {.guaranteed = options.budget_bytes, .kept = options.kept_bytes, .most = std::max(options.budget_bytes, most)});
    reserve_part_ = options.budget_bytes == 0
                        ? 0
                        : static_cast<double>(options.reserve_bytes) / static_cast<double>(options.budget_bytes);
    held_bytes_ = share_->held_bytes();
  }
  choose_paths();
}

ChunkPool::~ChunkPool() {
  take_remote_frees();
  if (leaked() == 0) {
    give_back_shared(shared_bytes_);
  } else {
    report_leaks();
    abandon();
  }
  const Options::Memory memory = leaked() == 0 ? store_->memory : Options::Memory();
  delete store_;
  delete share_;
  if (memory.release) memory.release(memory.context, memory.data, memory.bytes);
}

// Leaves to their holders the chunks that are still in use.
void ChunkPool::abandon() {
  store_->arena.abandon();
  // Add a reference that is never dropped: without the pool, no chunk may be returned to it.
  for (HeapLink* link = heap_.next; link != &heap_; link = link->next) {
    static_cast<HeapChunk*>(link)->refs.fetch_add(1, std::memory_order_relaxed);
  }
  for (Store::Slab& slab : store_->slabs) {
    if (!slab.headers) continue;
    for (uint32_t i = 0; i < slab.carved; ++i) slab.headers[i].refs.fetch_add(1, std::memory_order_relaxed);
    // The holders still use the headers. The sanitizers' leak checker reports this block as well.
    [[maybe_unused]] Chunk* left = slab.headers.release();
  }
}

// Decides whether get and put may check only the free list and one limit.
void ChunkPool::choose_paths() {
  const bool see_all = source_ == Source::kHeap || store_->stacks;
  const size_t limit =
      see_all || take_ ? 0 : std::min({open_bytes_, held_bytes_, pressed_ ? SIZE_MAX : pressure_high_});
  fast_get_limit_ = checked_ ? 0 : limit;
  checked_get_limit_ = checked_ ? limit : 0;
  fast_put_pool_ = see_all || checked_ || pressed_ || reclaim_failed_ ? &kNowhere : static_cast<const void*>(this);
  if (current_ == this) fast_put_pool_of_thread_ = fast_put_pool_;
}

Chunk* ChunkPool::get_slow(int tier) {
  if (checked_) {
    Tier& t = tiers_[static_cast<size_t>(tier)];
    const size_t out_bytes = out_bytes_ + tier_bytes(tier);
    if (!t.free.empty() && out_bytes <= checked_get_limit_) return hand_out_checked(t, tier, out_bytes);
  }
  return get_within(tier, open_bytes_, __builtin_return_address(0));
}

Chunk* ChunkPool::hand_out_checked(Tier& t, int tier, size_t out_bytes) {
  Chunk* const chunk = hand_out(t, out_bytes);
  if (checked_) {
    unpoison(chunk->data, tier_bytes(tier));
    check_pattern(chunk->data);
  }
  return chunk;
}

void ChunkPool::put_checked(Chunk* chunk) {
  write_pattern(chunk->data);
  poison(chunk->data, tier_bytes(chunk->tier));
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  FreeStack& free = tiers_[chunk->tier].free;
  SLUICE_CHECK(free.size() < free.room());
  put_home(chunk);
  if (random_ % 4 == 0) free.push_anywhere(free.pop(), random_ / 4);
}

Chunk* ChunkPool::get_reserved(size_t bytes) {
  SLUICE_CHECK(bytes <= kMaxChunkBytes);
  return get_within(tier_for(bytes), budget_bytes_, __builtin_return_address(0));
}

Chunk* ChunkPool::get_within(int tier, size_t limit_bytes, const void* caller) {
  Tier& t = tiers_[static_cast<size_t>(tier)];
  take_remote_frees();
  take_shared_failed_ = false;
  const size_t out_bytes = out_bytes_ + tier_bytes(tier);
  const bool within = out_bytes <= limit_bytes && (out_bytes <= held_bytes_ || hold(out_bytes));
  Chunk* chunk = within ? get_any(t, tier, caller) : nullptr;
  if (chunk == nullptr) {
    ++refused_;
    if (take_shared_failed_) ++refused_shared_;
  }
  return chunk;
}

Chunk* ChunkPool::get_metadata(size_t bytes) {
  if (bytes > kMaxChunkBytes) return heap_chunk(bytes);
  const int tier = tier_for(bytes);
  Tier& t = tiers_[static_cast<size_t>(tier)];
  const size_t out_bytes = out_bytes_ + tier_bytes(tier);
  const size_t limit = checked_ ? checked_get_limit_ : fast_get_limit_;
  if (!t.free.empty() && out_bytes <= limit) return hand_out_checked(t, tier, out_bytes);
  take_remote_frees();
  if (out_bytes_ + tier_bytes(tier) > held_bytes_) hold(out_bytes_ + tier_bytes(tier));
  Chunk* chunk = get_any(t, tier, __builtin_return_address(0));
  return chunk ? chunk : heap_chunk(bytes);
}

// False if others use what would be needed.
bool ChunkPool::hold(size_t bytes) {
  if (!share_->hold(bytes)) return false;
  held_bytes_ = share_->held_bytes();
  choose_paths();
  return true;
}

void ChunkPool::settle_share() {
  share_->settle(out_bytes_);
  if (share_->held_bytes() == held_bytes_ && share_->limit_bytes() == budget_bytes_) return;
  held_bytes_ = share_->held_bytes();
  budget_bytes_ = share_->limit_bytes();
  open_bytes_ = budget_bytes_ - static_cast<size_t>(static_cast<double>(budget_bytes_) * reserve_part_);
  choose_paths();
}

Chunk* ChunkPool::get_any(Tier& t, int tier, const void* caller) {
  Chunk* chunk = nullptr;
  if (source_ == Source::kHeap) {
    chunk = get_from_heap(t, tier);
  } else if (!t.free.empty() || carve(t, tier)) {
    chunk = hand_out_checked(t, tier, out_bytes_ + tier_bytes(tier));
  }
  if (chunk == nullptr) return nullptr;
  if (store_->stacks) store_->stacks->note(chunk, caller);
  if (take_) take_(take_context_, tier_bytes(tier), caller);
  if (!pressed_ && out_bytes_ > pressure_high_) {
    pressed_ = true;
    ++pressures_;
    choose_paths();
    pressure_(pressure_context_, true);
  }
  return chunk;
}

void chunk_return(Chunk* chunk) {
  ChunkPool* home = chunk->home;
  if (home == ChunkPool::fast_put_pool_of_thread_) [[likely]] {
    home->put_home(chunk);
  } else if (home == nullptr) {
    free_unpooled_chunk(chunk);
  } else if (home == ChunkPool::current()) {
    home->put_slow(chunk);
  } else {
    home->push_remote_free(chunk);
  }
}

// Releases a chunk on the home thread when put_home alone is not enough.
void ChunkPool::put_slow(Chunk* chunk) {
  if (store_->stacks) store_->stacks->forget(chunk);
  if (source_ == Source::kHeap) {
    put_on_heap(chunk);
  } else if (checked_) {
    put_checked(chunk);
  } else {
    put_home(chunk);
  }
  if (reclaim_failed_ && --puts_until_reclaim_ == 0) set_reclaim_failed(false);
  if (pressed_ && out_bytes_ < pressure_low_) {
    pressed_ = false;
    choose_paths();
    pressure_(pressure_context_, false);
  }
}

void ChunkPool::set_pressure(size_t high_bytes, size_t low_bytes, PressureFunction function, void* context) {
  SLUICE_CHECK(low_bytes <= high_bytes);
  pressure_high_ = function ? high_bytes : SIZE_MAX;
  pressure_low_ = low_bytes;
  pressure_ = function;
  pressure_context_ = context;
  pressed_ = out_bytes_ > pressure_high_;
  choose_paths();
  if (!pressed_) return;
  ++pressures_;
  pressure_(pressure_context_, true);
}

void ChunkPool::set_take(TakeFunction function, void* context) {
  take_ = function;
  take_context_ = context;
  choose_paths();
}

Chunk* ChunkPool::get_from_heap(Tier& t, int tier) {
  const size_t bytes = tier_bytes(tier);
  while (shared_ && out_bytes_ + bytes > shared_bytes_) {
    if (!take_shared(Arena::kSlabBytes)) return nullptr;
  }
  void* memory = std::malloc(sizeof(HeapChunk) + bytes);
  if (memory == nullptr) return nullptr;
  HeapChunk* chunk = new (memory) HeapChunk{};
  chunk->data = static_cast<std::byte*>(memory) + sizeof(HeapChunk);
  chunk->home = this;
  chunk->kind = ChunkKind::kPooled;
  chunk->tier = static_cast<uint8_t>(tier);
  chunk->refs.store(1, std::memory_order_relaxed);
  chunk->HeapLink::previous = &heap_;
  chunk->HeapLink::next = heap_.next;
  heap_.next->previous = chunk;
  heap_.next = chunk;
  account_out(t, out_bytes_ + bytes);
  return chunk;
}

void ChunkPool::put_on_heap(Chunk* chunk) {
  HeapChunk* const gone = static_cast<HeapChunk*>(chunk);
  --tiers_[chunk->tier].out;
  out_bytes_ -= tier_bytes(chunk->tier);
  gone->HeapLink::previous->next = gone->HeapLink::next;
  gone->HeapLink::next->previous = gone->HeapLink::previous;
  gone->~HeapChunk();
  std::free(gone);
  while (shared_bytes_ >= out_bytes_ + 2 * Arena::kSlabBytes) give_back_shared(Arena::kSlabBytes);
}

bool ChunkPool::take_shared(size_t bytes) {
  take_shared_failed_ = shared_ && !shared_->take(bytes);
  if (shared_ && !take_shared_failed_) shared_bytes_ += bytes;
  return !take_shared_failed_;
}

void ChunkPool::give_back_shared(size_t bytes) {
  if (shared_ == nullptr) return;
  shared_->give_back(bytes);
  shared_bytes_ -= bytes;
}

uint16_t ChunkPool::take_slab() {
  if (store_->retired.empty()) {
    const bool left = store_->arena.slabs_taken() < store_->arena.slab_limit();
    return left && take_shared(Arena::kSlabBytes) ? store_->arena.take() : Arena::kNoSlab;
  }
  const uint16_t slab = store_->retired.back();
  store_->retired.pop_back();
  return slab;
}

// Carves one chunk from the tier's current slab and pushes it onto the free list. Chunks are carved only when needed,
// so that the headers and pages of a mostly unused slab stay untouched.
bool ChunkPool::carve(Tier& t, int tier) {
  if (t.carving == Arena::kNoSlab) {
    uint16_t slab = take_slab();
    if (slab == Arena::kNoSlab && reclaim()) slab = take_slab();
    if (slab == Arena::kNoSlab) return false;
    if (slab >= store_->slabs.size()) store_->slabs.resize(slab + size_t{1});
    Store::Slab& s = store_->slabs[slab];
    s.headers = MetadataMemory<Chunk>(chunks_per_slab(tier));
    s.carved = 0;
    s.unused = 0;
    s.tier = static_cast<uint8_t>(tier);
    if (!s.headers) {
      store_->retired.push_back(slab);
      return false;
    }
    t.carving = slab;
  }
  Store::Slab& s = store_->slabs[t.carving];
  Chunk* chunk = new (&s.headers[s.carved]) Chunk;
  chunk->data = store_->arena.slab_data(t.carving) + s.carved * tier_bytes(tier);
  chunk->home = this;
  chunk->kind = ChunkKind::kPooled;
  chunk->tier = static_cast<uint8_t>(tier);
  chunk->slab = t.carving;
  if (checked_) {
    unpoison(chunk->data, tier_bytes(tier));
    write_pattern(chunk->data);
  }
  t.free.reserve(t.free.size() + t.out + 1);
  t.free.push(chunk);
  if (++s.carved == chunks_per_slab(tier)) t.carving = Arena::kNoSlab;
  return true;
}

[[gnu::always_inline]] inline void ChunkPool::link_remote_free(Chunk* chunk) {
  Chunk* head = remote_frees_.load(std::memory_order_relaxed);
  do {
    chunk->next = head;
    // Release: the home thread must see the last holder's writes before it reuses the bytes. Sequential consistency
    // pairs with wake_on_remote_free: either this thread sees the flag, or the home thread's next check of
    // remote_frees_ sees this chunk.
  } while (!remote_frees_.compare_exchange_weak(head, chunk, std::memory_order_seq_cst, std::memory_order_relaxed));
  if (head == nullptr && wake_wanted_.load(std::memory_order_seq_cst) && wake_) wake_(wake_context_);
}

// The call is a tail call, so that other programs pay for it with a comparison only.
void ChunkPool::push_remote_free(Chunk* chunk) {
  if (under_tsan()) [[unlikely]]
    return push_remote_free_under_tsan(chunk);
  link_remote_free(chunk);
}

[[gnu::noinline, gnu::cold]] void ChunkPool::push_remote_free_under_tsan(Chunk* chunk) {
  __tsan_release(&remote_frees_);
  link_remote_free(chunk);
}

void ChunkPool::take_remote_frees_slow() {
  Chunk* chunk = remote_frees_.exchange(nullptr, std::memory_order_acquire);
  if (under_tsan()) __tsan_acquire(&remote_frees_);
  while (chunk != nullptr) {
    Chunk* next = chunk->next;
    ++freed_remotely_;
    fast_put_pool_ == this ? put_home(chunk) : put_slow(chunk);
    chunk = next;
  }
}

void ChunkPool::age() {
  take_remote_frees();
  set_reclaim_failed(false);
  if (shared_ && shared_->refused() != shared_refused_) {
    // A pool that shares the budget has run out, so let trim return all unused memory here without waiting for it to
    // age.
    shared_refused_ = shared_->refused();
    reclaim();
    set_reclaim_failed(false);
  }
  for (Tier& t : tiers_) t.free.age();
}

bool ChunkPool::trim(size_t max_bytes) {
  size_t done = 0;
  for (int tier = 0; tier < kTierCount; ++tier) {
    Tier& t = tiers_[static_cast<size_t>(tier)];
    const size_t bytes = tier_bytes(tier);
    const auto taken = [&](uint16_t slab) {
      --store_->slabs[slab].unused;
      done += kMinChunkBytes;
      return done < max_bytes;
    };
    if (!t.free.forget_taken(taken)) return true;
    while (Chunk* chunk = t.free.next_to_discard()) {
      Store::Slab& s = store_->slabs[chunk->slab];
      unused_slabs_ |= ++s.unused == s.carved;
      if (bytes >= kPageBytes) discarded_bytes_ += store_->arena.discard(chunk->data, bytes);
      done += bytes;
      if (done >= max_bytes) return true;
    }
  }
  if (unused_slabs_ && retire_unused_slabs(max_bytes, done)) return true;
  while (!store_->retired.empty()) {
    if (done >= max_bytes) return true;
    const Store::Slab& s = store_->slabs[store_->retired.back()];
    const uint32_t counted = tier_bytes(s.tier) < kPageBytes ? 0 : s.unused;
    if (store_->arena.give_back(store_->retired.back())) discarded_bytes_ += (s.carved - counted) * tier_bytes(s.tier);
    give_back_shared(Arena::kSlabBytes);
    store_->retired.pop_back();
    done += Arena::kSlabBytes;
  }
  for (Tier& t : tiers_) t.free.shrink(t.free.size() + t.out);
  return false;
}

void ChunkPool::trim_all() {
  for (int i = 0; i < 3; ++i) age();
  while (trim(SIZE_MAX)) {
  }
}

// Precondition: none of the slab's chunks is outstanding or on the free list.
void ChunkPool::retire(size_t slab) {
  store_->slabs[slab].headers = {};
  Tier& t = tiers_[store_->slabs[slab].tier];
  if (t.carving == slab) t.carving = Arena::kNoSlab;
  store_->retired.push_back(static_cast<uint16_t>(slab));
}

// Retires slabs whose carved chunks are all discarded, until `done` reaches the bound. True if there may be more.
bool ChunkPool::retire_unused_slabs(size_t max_bytes, size_t& done) {
  std::array<bool, kTierCount> changed{};
  size_t slab = 0;
  for (; slab < store_->slabs.size() && done < max_bytes; ++slab) {
    const Store::Slab& s = store_->slabs[slab];
    if (!s.headers || s.unused != s.carved) continue;
    for (uint32_t i = 0; i < s.carved; ++i) tiers_[s.tier].free.set_aside(&s.headers[i]);
    changed[s.tier] = true;
    done += s.carved * kMinChunkBytes;
    retire(slab);
  }
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    if (changed[tier]) tiers_[tier].free.drop_aside();
  }
  unused_slabs_ = slab < store_->slabs.size();
  return unused_slabs_;
}

// Called when the arena or the shared budget is used up but the pool's own budget is not: free lists of other tiers may
// hold unused slabs. Retires those without waiting for them to age.
bool ChunkPool::reclaim() {
  if (reclaim_failed_) return false;
  for (Store::Slab& s : store_->slabs) s.free = 0;
  for (Tier& t : tiers_) {
    t.free.forget_taken([this](uint16_t slab) { return store_->slabs[slab].unused-- > 0; });
    for (size_t i = 0; i < t.free.size(); ++i) ++store_->slabs[t.free.at(i)->slab].free;
  }
  const auto unused = [](const Store::Slab& s) { return s.headers && s.free == s.carved; };
  std::array<bool, kTierCount> found{};
  for (const Store::Slab& s : store_->slabs) found[s.tier] |= unused(s);
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    if (found[tier])
      tiers_[tier].free.remove_if([&](const Chunk* chunk) { return unused(store_->slabs[chunk->slab]); });
  }
  for (size_t slab = 0; slab < store_->slabs.size(); ++slab) {
    if (unused(store_->slabs[slab])) retire(slab);
  }
  const bool any = std::find(found.begin(), found.end(), true) != found.end();
  set_reclaim_failed(!any);
  return any;
}

// Only released chunks can make a slab unused. After a failed search, wait for a number of releases that keeps the
// search cheap per chunk.
void ChunkPool::set_reclaim_failed(bool failed) {
  if (!failed && !reclaim_failed_) return;
  reclaim_failed_ = failed;
  if (failed) {
    puts_until_reclaim_ = 1;
    for (const Tier& t : tiers_) puts_until_reclaim_ += t.free.size() / 32;
  }
  choose_paths();
}

ChunkPool::Stats ChunkPool::stats() const {
  Stats stats;
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    const Tier& t = tiers_[tier];
    stats.tiers[tier] = {t.out, t.out_peak, static_cast<uint32_t>(t.free.size())};
  }
  stats.out_bytes = out_bytes_;
  stats.out_bytes_peak = out_bytes_peak_;
  stats.budget_bytes = budget_bytes_;
  stats.mapped_bytes = mapped_bytes();
  stats.refused = refused_;
  stats.refused_shared = refused_shared_;
  stats.pressures = pressures_;
  stats.freed_remotely = freed_remotely_;
  stats.discarded_bytes = discarded_bytes_;
  return stats;
}

size_t ChunkPool::mapped_bytes() const {
  return source_ == Source::kHeap ? out_bytes_ : store_->arena.slabs_taken() * Arena::kSlabBytes;
}

uint64_t ChunkPool::leaked() const {
  uint64_t count = 0;
  for (const Tier& t : tiers_) count += t.out;
  return count;
}

void ChunkPool::report_leaks() const {
  if (leaked() == 0) return;
  std::fprintf(stderr, "sluice: leak: %zu bytes in chunks were not released:", out_bytes_);
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    if (tiers_[tier].out) std::fprintf(stderr, " %u x %zu B", tiers_[tier].out, tier_bytes(static_cast<int>(tier)));
  }
  std::fputc('\n', stderr);
  if (store_->stacks) {
    store_->stacks->report(stderr);
  } else {
    std::fputs("sluice: leak: SLUICE_LEAK_STACKS=1 in the environment shows where they were taken\n", stderr);
  }
}

}  // namespace sluice::inline v0_1
