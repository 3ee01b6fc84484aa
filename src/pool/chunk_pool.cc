#include "pool/chunk_pool.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "pool/check.h"

namespace sluice {

namespace {

// Chunks of a page or more give their pages back one by one; smaller ones only with their whole slab.
const size_t kPageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// More than an arena can have, and far from where sums of sizes overflow.
constexpr size_t kMaxBudgetBytes = Arena::kNoSlab * Arena::kSlabBytes;

uint32_t chunks_per_slab(int tier) { return static_cast<uint32_t>(Arena::kSlabBytes / tier_bytes(tier)); }

}  // namespace

void chunk_go_home(Chunk* chunk) {
  ChunkPool* home = chunk->home;
  if (home == nullptr) {
    chunk->~Chunk();
    std::free(chunk);
  } else if (home == ChunkPool::current()) {
    home->put_home(chunk);
  } else {
    home->post_to_inbox(chunk);
  }
}

Chunk* heap_chunk(size_t bytes) {
  void* memory = std::malloc(sizeof(Chunk) + bytes);
  SLUICE_CHECK(memory != nullptr);
  Chunk* chunk = new (memory) Chunk{};
  chunk->data = static_cast<std::byte*>(memory) + sizeof(Chunk);
  chunk->home = nullptr;
  chunk->capacity = bytes;
  chunk->refs.store(1, std::memory_order_relaxed);
  return chunk;
}

// The arena holds twice the budget: the budget bounds what is out, and free lists of other tiers may hold as much again
// until they age. One slab per tier comes on top, so that a tiny budget still serves every tier.
ChunkPool::ChunkPool(Options options)
    : budget_bytes_(options.budget_bytes),
      arena_({.reserve_bytes = 2 * std::min(options.budget_bytes, kMaxBudgetBytes) + 2 * kTierCount * Arena::kSlabBytes,
              .huge_pages = options.huge_pages}) {}

ChunkPool::~ChunkPool() {
  take_inbox();
  if (leaked() == 0) return;
  std::fprintf(stderr, "sluice: leak: %zu bytes in chunks did not come home:", out_bytes_);
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    if (tiers_[tier].out) std::fprintf(stderr, " %u x %zu B", tiers_[tier].out, tier_bytes(static_cast<int>(tier)));
  }
  std::fputc('\n', stderr);
  arena_.abandon();
  for (Slab& slab : slabs_) {
    if (!slab.headers) continue;
    // A reference that is never dropped: with the pool gone, no chunk may set out for it.
    for (uint32_t i = 0; i < slab.carved; ++i) chunk_ref(&slab.headers[i]);
    // The holders still use the headers; the leak checker of the sanitizers reports the block once more.
    [[maybe_unused]] Chunk* left = slab.headers.release();
  }
}

Chunk* ChunkPool::get_slow(int tier) {
  Tier& t = tiers_[static_cast<size_t>(tier)];
  take_inbox();
  Chunk* chunk = out_bytes_ + tier_bytes(tier) > budget_bytes_ ? nullptr : get_any(t, tier);
  if (chunk == nullptr) ++refused_;
  return chunk;
}

Chunk* ChunkPool::get_metadata(size_t bytes) {
  if (bytes > kMaxChunkBytes) return heap_chunk(bytes);
  const int tier = tier_for(bytes);
  Tier& t = tiers_[static_cast<size_t>(tier)];
  if (!t.free.empty()) return hand_out(t, tier);
  take_inbox();
  Chunk* chunk = get_any(t, tier);
  return chunk ? chunk : heap_chunk(bytes);
}

Chunk* ChunkPool::get_any(Tier& t, int tier) {
  if (t.free.empty() && !carve(t, tier)) return nullptr;
  return hand_out(t, tier);
}

uint16_t ChunkPool::take_slab() {
  if (retired_.empty()) return arena_.take();
  const uint16_t slab = retired_.back();
  retired_.pop_back();
  return slab;
}

// Cuts one chunk off the tier's current slab and puts it on the free list. Chunks are cut only when needed, so that the
// headers and pages of a mostly unused slab stay untouched.
bool ChunkPool::carve(Tier& t, int tier) {
  if (t.carving == Arena::kNoSlab) {
    uint16_t slab = take_slab();
    if (slab == Arena::kNoSlab && reclaim()) slab = take_slab();
    if (slab == Arena::kNoSlab) return false;
    if (slab >= slabs_.size()) slabs_.resize(slab + size_t{1});
    Slab& s = slabs_[slab];
    s.headers.reset(static_cast<Chunk*>(::operator new(chunks_per_slab(tier) * sizeof(Chunk))));
    s.carved = 0;
    s.tier = static_cast<uint8_t>(tier);
    t.carving = slab;
  }
  Slab& s = slabs_[t.carving];
  Chunk* chunk = new (&s.headers[s.carved]) Chunk;
  chunk->data = arena_.slab_data(t.carving) + s.carved * tier_bytes(tier);
  chunk->home = this;
  chunk->tier = static_cast<uint8_t>(tier);
  chunk->slab = t.carving;
  t.free.reserve(t.free.size() + t.out + 1);
  t.free.push(chunk);
  if (++s.carved == chunks_per_slab(tier)) t.carving = Arena::kNoSlab;
  return true;
}

void ChunkPool::post_to_inbox(Chunk* chunk) {
  Chunk* head = inbox_.load(std::memory_order_relaxed);
  do {
    chunk->next = head;
    // Release: the home must see the last holder's writes before it reuses the bytes. Sequential consistency pairs with
    // wake_on_return: either we see its flag, or its following look at the inbox sees this chunk.
  } while (!inbox_.compare_exchange_weak(head, chunk, std::memory_order_seq_cst, std::memory_order_relaxed));
  if (head == nullptr && wake_wanted_.load(std::memory_order_seq_cst) && wake_) wake_(wake_context_);
}

void ChunkPool::take_inbox_slow() {
  Chunk* chunk = inbox_.exchange(nullptr, std::memory_order_acquire);
  while (chunk != nullptr) {
    Chunk* next = chunk->next;
    put_home(chunk);
    ++came_home_;
    chunk = next;
  }
}

void ChunkPool::age() {
  take_inbox();
  reclaim_failed_ = false;
  for (Tier& t : tiers_) t.free.age();
}

bool ChunkPool::trim(size_t max_bytes) {
  size_t done = 0;
  for (int tier = 0; tier < kTierCount; ++tier) {
    Tier& t = tiers_[static_cast<size_t>(tier)];
    const size_t bytes = tier_bytes(tier);
    while (Chunk* chunk = t.free.next_to_discard()) {
      ++t.newly_discarded;
      if (bytes >= kPageBytes) {
        Arena::discard(chunk->data, bytes);
        discarded_bytes_ += bytes;
      }
      done += bytes;
      if (done >= max_bytes) return true;
    }
    if (t.newly_discarded == 0) continue;
    t.newly_discarded = 0;
    retire_slabs(tier, t.free.old_count());
  }
  while (!retired_.empty()) {
    if (done >= max_bytes) return true;
    const Slab& s = slabs_[retired_.back()];
    if (tier_bytes(s.tier) < kPageBytes) discarded_bytes_ += s.carved * tier_bytes(s.tier);
    arena_.give_back(retired_.back());
    retired_.pop_back();
    done += Arena::kSlabBytes;
  }
  return false;
}

// Retires the slabs of which every chunk ever cut lies among the first `among` chunks of the free list; true if any.
bool ChunkPool::retire_slabs(int tier, size_t among) {
  Tier& t = tiers_[static_cast<size_t>(tier)];
  for (Slab& s : slabs_) s.unused = 0;
  bool found = false;
  for (size_t i = 0; i < among; ++i) {
    Slab& s = slabs_[t.free.at(i)->slab];
    found |= ++s.unused == s.carved;
  }
  if (!found) return false;
  const auto unused = [this](const Chunk* chunk) {
    const Slab& s = slabs_[chunk->slab];
    return s.unused == s.carved;
  };
  t.free.remove_if(unused);
  for (size_t slab = 0; slab < slabs_.size(); ++slab) {
    Slab& s = slabs_[slab];
    if (!s.headers || s.unused != s.carved) continue;
    s.headers.reset();
    if (t.carving == slab) t.carving = Arena::kNoSlab;
    retired_.push_back(static_cast<uint16_t>(slab));
  }
  return true;
}

// The arena is used up while the budget is not: other tiers' free lists hold the rest. Takes their unused slabs back
// without waiting for them to age.
bool ChunkPool::reclaim() {
  if (reclaim_failed_) return false;
  bool found = false;
  for (int tier = 0; tier < kTierCount; ++tier) {
    found |= retire_slabs(tier, tiers_[static_cast<size_t>(tier)].free.size());
  }
  reclaim_failed_ = !found;
  return found;
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
  stats.mapped_bytes = arena_.slabs_taken() * Arena::kSlabBytes;
  stats.refused = refused_;
  stats.came_home = came_home_;
  stats.discarded_bytes = discarded_bytes_;
  return stats;
}

uint64_t ChunkPool::leaked() const {
  uint64_t count = 0;
  for (const Tier& t : tiers_) count += t.out;
  return count;
}

}  // namespace sluice
