#include "sluice/internal/budget_share.h"

#include <algorithm>

#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

namespace {

// The largest chunk fits in the smallest step. With larger steps than the largest, a borrower would hold much more than
// it uses; with smaller ones, workers would write to the same cache line more often.
constexpr size_t kLeastStepBytes = size_t{64} << 10;
constexpr size_t kMostStepBytes = size_t{1} << 20;

// So many steps are held beyond what is used before they are given back, so that use that goes up and down does not
// change what is held.
constexpr size_t kSlackSteps = 4;

size_t step_of(size_t guaranteed) {
  return std::clamp(guaranteed / 64 / kLeastStepBytes * kLeastStepBytes, kLeastStepBytes, kMostStepBytes);
}

}  // namespace

BudgetShare::BudgetShare(Budget& common, Sizes sizes)
    : common_(common),
      sizes_(sizes),
      step_(step_of(sizes.guaranteed)),
      ahead_(sizes.kept / 2),
      held_(sizes.kept),
      limit_(sizes.guaranteed) {
  SLUICE_CHECK(sizes.kept <= sizes.guaranteed && sizes.guaranteed <= sizes.most);
  settle(0);
}

BudgetShare::~BudgetShare() {
  set_claim(0);
  set_held(sizes_.kept);
}

// Precondition: what it grows by was taken from the budget.
void BudgetShare::set_held(size_t bytes) {
  const size_t before = held_, borrowed_before = borrowed_bytes();
  held_ = bytes;
  const size_t borrowed = borrowed_bytes();
  // First that nothing is borrowed, then that it is there, so that nobody sees less borrowed than is missing.
  if (borrowed != borrowed_before) common_.change_borrowed(borrowed - borrowed_before);
  if (bytes < before) common_.give_back(before - bytes);
}

void BudgetShare::set_claim(size_t bytes) {
  if (bytes == claim_) return;
  if (claim_ == 0) ++claim_count_;
  common_.change_claimed(bytes - claim_);
  claim_ = bytes;
}

bool BudgetShare::hold(size_t bytes) {
  if (bytes <= held_) return true;
  if (bytes > sizes_.most) return false;
  const bool borrows = bytes > sizes_.guaranteed;
  if (borrows && common_.claimed_bytes() > 0) return false;
  const size_t step = std::min(std::max(round_up(bytes - held_), step_), sizes_.most - held_);
  for (const size_t wanted : {step, bytes - held_}) {
    if (!common_.take(wanted)) continue;
    set_held(held_ + wanted);
    return true;
  }
  if (!borrows) set_claim(std::max(claim_, bytes - held_));
  return false;
}

// What this pool has to give back of what is claimed and is not there yet.
size_t BudgetShare::due_bytes() const {
  const size_t claimed = common_.claimed_bytes(), available = common_.available_bytes();
  const size_t borrowed = borrowed_bytes();
  if (claimed <= available || borrowed == 0) return 0;
  const size_t missing = claimed - available, of_all = std::max(common_.borrowed_bytes(), borrowed);
  const double part = static_cast<double>(borrowed) / static_cast<double>(of_all);
  return std::min(borrowed, round_up(static_cast<size_t>(static_cast<double>(missing) * part) + 1));
}

// Takes all that there is of it, and claims the rest.
void BudgetShare::take_ahead(size_t wanted_bytes) {
  while (held_ < wanted_bytes) {
    const size_t wanted = wanted_bytes - held_;
    const size_t step = std::min(wanted, common_.available_bytes());
    if (step == 0 || !common_.take(step)) return set_claim(wanted);
    set_held(held_ + step);
  }
  set_claim(0);
}

void BudgetShare::give_back(size_t used_bytes, size_t wanted_bytes) {
  const size_t needed = std::max({sizes_.kept, wanted_bytes, std::min(round_up(used_bytes), held_)});
  if (held_ > needed + kSlackSteps * step_) {
    set_held(needed);
  } else if (recalled_ && held_ > sizes_.guaranteed) {
    // All that is not in use, but no more than is claimed.
    const size_t unused = held_ - std::clamp(used_bytes, sizes_.guaranteed, held_);
    set_held(held_ - std::min(unused, due_bytes()));
  }
}

void BudgetShare::settle(size_t used_bytes) {
  const size_t due = due_bytes();
  if (due > 0 && !recalled_) ++recall_count_;
  recalled_ = due > 0;
  // Of what is not borrowed.
  const size_t wanted = std::max(sizes_.kept, std::min(used_bytes + ahead_, sizes_.guaranteed));
  give_back(used_bytes, wanted);
  if (held_ < wanted || claim_ > 0) take_ahead(wanted);
  size_t most = std::max(held_, sizes_.guaranteed);
  if (recalled_) {
    most -= std::min(due_bytes(), borrowed_bytes());
  } else if (common_.claimed_bytes() == 0) {
    const size_t own = sizes_.guaranteed - std::min(sizes_.guaranteed, held_);
    const size_t available = common_.available_bytes();
    most += available > own ? available - own : 0;
  }
  limit_ = std::min(most, sizes_.most);
}

}  // namespace sluice::inline v0_1
