#include "proxy/upstream/maglev_table.h"

#include "proxy/upstream/stable_hash.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

constexpr uint16_t kFree = UINT16_MAX;

// A member's permutation of the slots. It visits each slot once, since their number is prime.
struct Permutation {
  explicit Permutation(uint64_t id)
      : slot(static_cast<uint32_t>(id % MaglevTable::kSlots)),
        skip(static_cast<uint32_t>(mixed(id) % (MaglevTable::kSlots - 1) + 1)) {}

  uint32_t next() {
    const uint32_t now = slot;
    slot += skip;
    if (slot >= MaglevTable::kSlots) slot -= MaglevTable::kSlots;
    return now;
  }

  uint32_t slot, skip;
};

}  // namespace

// In each round a member takes the next free slot of its permutation: the heaviest member in every round, the others in
// proportion to their weights.
MaglevTable::MaglevTable(std::vector<HashMember> members) {
  SLUICE_CHECK(members.size() <= kMaxMembers);
  if (members.empty()) return;
  std::sort(members.begin(), members.end(), [](const HashMember& a, const HashMember& b) { return a.id < b.id; });
  std::vector<Permutation> ways;
  uint32_t heaviest = 0;
  for (const HashMember& member : members) {
    ways.emplace_back(member.id);
    indices_.push_back(member.index);
    heaviest = std::max(heaviest, member.weight);
  }
  slots_.assign(kSlots, kFree);
  std::vector<uint32_t> credits(members.size());
  for (uint32_t filled = 0; filled < kSlots;) {
    for (size_t i = 0; i < members.size() && filled < kSlots; ++i) {
      credits[i] += members[i].weight;
      if (credits[i] < heaviest) continue;
      credits[i] -= heaviest;
      uint32_t slot = ways[i].next();
      while (slots_[slot] != kFree) slot = ways[i].next();
      slots_[slot] = static_cast<uint16_t>(i);
      ++filled;
    }
  }
}

}  // namespace sluice
