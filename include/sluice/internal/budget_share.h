#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/budget.h"

namespace sluice::inline v0_1 {

/// The part of one pool in memory that several pools lend one another (ChunkPool::Options::common).
///
/// A pool is guaranteed some bytes, of which it keeps a part, and lends the rest as long as it does not need them. All
/// that pools do not keep is in one Budget. A pool holds what it keeps and what it took from that budget, in steps, and
/// never uses more than it holds. So all pools together never use more than what they keep and the budget.
///
/// A pool that is below its guaranteed part and finds the budget used up enters a claim. Until the claim is met, nobody
/// borrows, and all borrowers give back: what they do not use at once, and the rest as they free it, each in proportion
/// to what it borrowed. Their limit falls accordingly.
///
/// Used by the pool's thread. Only the Budget is shared.
class BudgetShare {
 public:
  struct Sizes {
    size_t guaranteed;  ///< Bytes.
    size_t kept;        ///< The part of them that is never lent.
    size_t most;        ///< Bound on what the pool may hold. At least `guaranteed`.
  };
  /// `common` outlives it. Precondition: it has at least `guaranteed - kept` bytes for each pool.
  BudgetShare(Budget& common, Sizes sizes);
  /// Gives all back.
  ~BudgetShare();
  BudgetShare(const BudgetShare&) = delete;
  BudgetShare& operator=(const BudgetShare&) = delete;

  /// Makes held_bytes() at least `bytes` and returns true, or changes nothing and returns false. Below the guaranteed
  /// part, a failure enters a claim.
  bool hold(size_t bytes);
  /// Call it once for each turn of a worker's loop, with the bytes in use: gives back what is not needed, takes the
  /// next steps of the guaranteed part before they are needed, and sets limit_bytes().
  void settle(size_t used_bytes);

  size_t held_bytes() const { return held_; }
  /// What the pool may use as things are: at least the guaranteed part, and what it could borrow.
  size_t limit_bytes() const { return limit_; }
  size_t guaranteed_bytes() const { return sizes_.guaranteed; }
  size_t borrowed_bytes() const { return held_ > sizes_.guaranteed ? held_ - sizes_.guaranteed : 0; }
  /// Whether it waits for a part of what it is guaranteed.
  bool claims() const { return claim_ > 0; }
  /// Whether another pool claims what this one borrowed.
  bool recalled() const { return recalled_; }
  uint64_t claim_count() const { return claim_count_; }
  uint64_t recall_count() const { return recall_count_; }

 private:
  size_t round_up(size_t bytes) const { return (bytes + step_ - 1) / step_ * step_; }
  size_t due_bytes() const;
  void set_held(size_t bytes);
  void set_claim(size_t bytes);
  void take_ahead(size_t wanted_bytes);
  void give_back(size_t used_bytes, size_t wanted_bytes);

  Budget& common_;
  const Sizes sizes_;
  const size_t step_;   // The unit in which memory is borrowed and returned.
  const size_t ahead_;  // Of the guaranteed part, so much is held beyond what is used.
  size_t held_;
  size_t limit_;
  size_t claim_ = 0;
  bool recalled_ = false;
  uint64_t claim_count_ = 0, recall_count_ = 0;
};

}  // namespace sluice::inline v0_1
